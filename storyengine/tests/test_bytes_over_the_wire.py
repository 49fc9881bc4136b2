"""Tests of how many bytes a page takes over the wire, and that streams are not compressed."""

import gzip
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from sessions.models import Session
from sessions.tests.factories import add_turn, make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tests.running import ScriptedProgram, run_scripted_program
from storyengine.tests.test_static import Got, get
from storyengine.tests.test_static import collected as collected
from testing.chapter_client import ChapterClient
from testing.session_data import beat_text, reply_text, setup_of, synthetic_session

MOST_BYTES, MOST_BYTES_OF_SCRIPTS = 100_000, 35_000
TURNS = 120
SCRIPT = re.compile(r'<script src="([^"]+)"')
STYLE = re.compile(r'<link rel="(?:stylesheet|icon)" href="([^"]+)"')
# The longest wait for the next word of a stream.
SECONDS_BEFORE_A_WORD = 60


def full_chapter() -> Session:
    names = {str(slot): f"The Honourable Character {slot}" for slot in range(1, 8)}
    chapter = make_active_chapter(agent_names=names, selected_agent_slots=list(range(1, 8)))
    for number in range(1, TURNS + 1):
        words, reply = beat_text(number), reply_text(number, 80)
        add_turn(chapter, number, words=words, reply=reply, actor=number % 7 + 1)
    Session.objects.filter(pk=chapter.pk).update(prompt_index=TURNS)
    return chapter


def as_got(response: Any) -> Got:
    headers = {name.encode(): value.encode() for name, value in response.headers.items()}
    return Got(response.status_code, headers, response.content)


@pytest.mark.django_db
def test_a_full_tab_2(client: Client, collected: dict[str, str], tmp_path: Path) -> None:
    response = client.get(address(full_chapter(), "play"), headers={"Accept-Encoding": "gzip"})
    page = as_got(response)
    html = gzip.decompress(page.body).decode()
    shown = re.search(r">([0-9,]+)/60,000<", html)
    assert shown
    assert int(shown[1].replace(",", "")) > 55_000

    scripts = sum(get(tmp_path, path, b"gzip").size for path in SCRIPT.findall(html))
    styles = sum(get(tmp_path, path, b"gzip").size for path in STYLE.findall(html))
    assert len(SCRIPT.findall(html)) > 8
    assert scripts <= MOST_BYTES_OF_SCRIPTS
    assert page.size + scripts + styles <= MOST_BYTES


@pytest.fixture(scope="module")
def program() -> Iterator[ScriptedProgram]:
    with run_scripted_program() as running:
        yield running


def open_stream(
    program: ScriptedProgram, method: str, path: str, body: str = ""
) -> http.client.HTTPResponse:
    """Open a stream of words as a browser that takes every kind of compression does."""
    connection = http.client.HTTPConnection(
        program.server.host, program.server.port, timeout=SECONDS_BEFORE_A_WORD
    )
    headers = {
        "Accept": "text/event-stream",
        "Accept-Encoding": "gzip, deflate, br, zstd",
        "Content-Type": "application/json",
    }
    connection.request(method, path, body or None, headers)
    response = connection.getresponse()
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    return response


@pytest.mark.processes
def test_a_stream_is_not_compressed_and_its_words_come_one_by_one(
    program: ScriptedProgram,
) -> None:
    chapter = ChapterClient(program.server)
    chapter.save_setup(setup_of(synthetic_session(10)))
    chapter.lock(seconds=60)
    # At this speed the reply lasts for minutes, so every word that arrives was sent by itself.
    program.model.timing.tokens_per_second = 4
    prompt = json.dumps({"agent_slot": 1, "user_text": "The lamp goes out."})
    path = f"/api/session/{chapter.session_id}/prompt"
    with open_stream(program, "POST", path, prompt) as of_api:
        pending = chapter.read()["pending_turn"]
        path = f"/chapters/{chapter.session_id}/attempts/{pending['attempt_id']}/stream"
        with open_stream(program, "GET", path) as of_page:
            for response, event in ((of_api, b"event: token"), (of_page, b"event: text")):
                assert "Content-Encoding" not in response.headers
                pieces = [response.read1() for _ in range(8)]
                words = [piece for piece in pieces if event in piece]
                assert len(words) >= 4
                assert all(piece.count(event) == 1 for piece in words[1:])
