"""The queue in a folder never shows a worker half a message."""

from pathlib import Path
from queue import Empty

import pytest
from kombu import Connection

import storyengine.celery  # noqa: F401 - it puts the transport in kombu's place
from storyengine.folder_broker import Channel, Transport


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    options = {"data_folder_in": str(tmp_path), "data_folder_out": str(tmp_path)}
    connection = Connection("filesystem://localhost", transport_options=options)
    assert isinstance(connection.transport, Transport)
    channel = connection.channel()
    assert isinstance(channel, Channel)
    return channel


def test_messages_come_out_as_they_went_in(channel: Channel) -> None:
    for number in range(3):
        channel._put("jobs", {"body": f"\u00e9 {number}"})
    bodies = {channel._get("jobs")["body"] for _ in range(3)}
    assert bodies == {"\u00e9 0", "\u00e9 1", "\u00e9 2"}
    with pytest.raises(Empty):
        channel._get("jobs")


def test_a_message_that_is_being_written_is_not_seen(channel: Channel, tmp_path: Path) -> None:
    (tmp_path / "1_a.jobs.msg.unfinished").write_text("")
    with pytest.raises(Empty):
        channel._get("jobs")


def test_a_message_that_was_cut_short_is_passed_over(channel: Channel, tmp_path: Path) -> None:
    (tmp_path / "1_a.jobs.msg").write_text('{"body": ')
    with pytest.raises(Empty):
        channel._get("jobs")
    channel._put("jobs", {"body": "next"})
    assert channel._get("jobs") == {"body": "next"}
