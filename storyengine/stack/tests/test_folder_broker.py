"""Tests that a queue in a folder never shows a worker a message that is written only in part."""

from pathlib import Path
from queue import Empty
from threading import Thread
from typing import Any

import pytest
from kombu import Connection
from kombu.transport import filesystem

import storyengine.operations.celery  # noqa: F401 - it puts the transport in kombu's place
from agents.running.notices import count_notices
from storyengine.stack.folder_broker import Channel, Transport


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return open_channel(tmp_path)


def open_channel(folder: Path) -> Channel:
    channel = connection_to(folder).channel()
    assert isinstance(channel, Channel)
    return channel


def connection_to(folder: Path) -> Connection:
    options = {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
    }
    connection = Connection("filesystem://localhost", transport_options=options)
    assert isinstance(connection.transport, Transport)
    return connection


def test_the_notices_of_each_class_are_counted(
    channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agents.running.notices.current_app.connection_for_write", lambda: connection_to(tmp_path)
    )
    for queue in ("person", "long", "long"):
        channel._put(queue, {})
    assert count_notices() == {"person": 1, "memory": 0, "long": 2}


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


def test_a_table_that_a_crash_left_empty_is_made_anew(channel: Channel, tmp_path: Path) -> None:
    channel._queue_bind("stories", "jobs", "", "jobs")
    table = tmp_path / "control" / "stories.exchange"
    table.write_text("")
    channel._queue_bind("stories", "jobs", "", "jobs")
    assert [bound.queue for bound in channel.get_table("stories")] == ["jobs"]
    table.write_text("")
    assert channel.get_table("stories") == []


def test_nobody_looks_into_a_table_that_is_being_made(
    channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    other = open_channel(tmp_path)

    def look() -> None:
        seen.extend(bound.queue for bound in other.get_table("stories"))

    reader = Thread(target=look)
    own = filesystem.lock

    def lock(file: Any, flags: int) -> None:
        if not reader.ident:
            # kombu has opened the file here. The file is still empty, and nobody has locked it yet.
            reader.start()
            reader.join(timeout=0.2)
            assert reader.is_alive()
        own(file, flags)

    monkeypatch.setattr(filesystem, "lock", lock)
    channel._queue_bind("stories", "jobs", "", "jobs")
    reader.join(timeout=30)
    assert seen == ["jobs"]
