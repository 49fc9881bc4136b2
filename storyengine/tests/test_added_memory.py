"""A mode may ask agent 8 for more than the keys of a delta. What it tells there is a late result,
and changes the world once a later run takes it."""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import sent_text
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.modes.declaration import Memory
from agents.modes.registry import load_modes
from agents.tests.replies import answer_in_form, turn_delta
from sessions.models import Session
from storyengine.api.tests.calling import address, call
from storyengine.tests.lighthouse import mode as lighthouse_mode
from storyengine.tests.lighthouse.learned import ADDITION
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.playing_the_lighthouse import (
    begin,
    changes,
    light_of,
    played,
)
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse
from storyengine.tests.test_setup_and_stages import work_on_all

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]


class Scribe:
    """A stand-in for agent 8. What somebody has learned is the last word of the last prompt that it
    is told."""

    def __init__(self) -> None:
        self.who = ""
        self.more: list[Any] = []
        self.asked: list[ModelRequest] = []
        self.writes: Callable[[dict[str, Any]], str] = json.dumps

    def __call__(self, request: ModelRequest) -> str:
        if "turn_delta" not in request.messages[0].content:
            return answer_in_form(request)
        self.asked.append(request)
        chunk = sent_text(request).split("## RECENT_CONTEXT_CHUNK")[-1]
        prompts = [int(one) for one in re.findall(r"^(\d+)\) ", chunk, re.MULTILINE)]
        words = re.findall(r"^\d+\) .*?(\w+)\.$", chunk, re.MULTILINE)
        lesson = {"who": self.who, "what": words[-1], "source": "told", "from": "the sea"}
        delta = turn_delta(prompts[0], prompts[-1], learned=[lesson, *self.more])
        return self.writes(delta)


@pytest.fixture
def scribe(provider: ScriptedProvider) -> Scribe:
    provider.fallback = scribe = Scribe()
    return scribe


@pytest.fixture
def chapter(scribe: Scribe) -> Session:
    chapter = begin()
    Session.objects.update(chunk_size_prompts=3)
    scribe.who = chapter.character(1).name
    return chapter


def play(chapter: Session, *words: str) -> None:
    for one in words:
        played(chapter, 1, f"I say {one}.")


def remember(chapter: Session, *words: str) -> None:
    """Play these prompts, and work on all jobs."""
    play(chapter, *words)
    work_on_all()


def lessons(chapter: Session) -> list[str]:
    return [what for _, what in light_of(chapter).lessons]


def deltas(chapter: Session) -> list[Any]:
    blocks = call("GET", address(chapter)).json()["memory_blocks"]
    return [one["json_payload"] for one in blocks if one["type"] == "turn_delta"]


def test_agent_8_is_asked_for_more(chapter: Session, scribe: Scribe) -> None:
    remember(chapter, "one", "two", "three")
    [request] = scribe.asked
    keys = '{"learned": [{"who": "", "what": "", "source": "witnessed|told|inferred", "from": ""}]}'
    assert "## ADDED_KEYS\nYour object has these keys too" in sent_text(request)
    assert keys in sent_text(request)
    assert "- learned: what somebody has come to know" in sent_text(request)
    assert request.json_schema is not None
    *_, last = request.json_schema["properties"].items()
    assert last[0] == "learned"
    assert last[1]["items"]["required"] == ["who", "what", "source", "from"]


def test_it_waits_until_a_run_takes_it(chapter: Session) -> None:
    remember(chapter, "one", "two", "three")
    assert lessons(chapter) == []
    play(chapter, "four")
    assert changes(chapter, 4) == [
        (
            "lighthouse.learned",
            {"lessons": [{"who": chapter.character(1).name, "what": "three", "until": 3}]},
        )
    ]
    assert lessons(chapter) == ["three"]
    remember(chapter, "five", "six")
    play(chapter, "seven")
    assert lessons(chapter) == ["three", "six"]


def test_whoever_was_not_there_and_what_does_not_fit_is_dropped(
    chapter: Session, scribe: Scribe
) -> None:
    absent = chapter.character(2).name
    good = {"who": scribe.who, "what": "more", "source": "inferred", "from": ""}
    scribe.more = [
        {**good, "who": "Nobody"},
        {**good, "who": absent},
        {**good, "source": "guessed"},
        "he knows",
        {"who": scribe.who},
        None,
        good,
    ]
    for word in ("one", "two", "three"):
        played(chapter, 1, f"I say {word}.", witnesses=[1])
    work_on_all()
    play(chapter, "four")
    assert lessons(chapter) == ["three", "more"]
    # Nothing of it was asked for a second time.
    assert len(scribe.asked) == 1


@pytest.mark.parametrize("learned", [None, "nothing", {"who": "me"}, [7], []])
def test_a_key_that_cannot_be_read_costs_no_memory(
    chapter: Session, scribe: Scribe, learned: object
) -> None:
    scribe.writes = lambda delta: json.dumps({**delta, "learned": learned})
    remember(chapter, "one", "two", "three")
    assert len(deltas(chapter)) == len(scribe.asked) == 1
    assert not Job.objects.filter(kind=Job.Kind.MEMORY_RESULT).exists()


class TestNextChapter:
    def begun_after(self, chapter: Session) -> Session:
        answer = call("POST", f"/api/story/{chapter.story_id}/chapter")
        assert answer.status_code == 201, answer.content
        return Session.objects.get(pk=answer.json()["session_id"])

    def test_it_begins_with_what_still_waits(self, chapter: Session) -> None:
        remember(chapter, "one", "two", "three")
        assert lessons(chapter) == []
        assert lessons(self.begun_after(chapter)) == ["three"]


def test_a_summary_that_goes_on_keeps_what_it_was_told(
    chapter: Session, scribe: Scribe, provider: ScriptedProvider
) -> None:
    """The stretch has two sets of witnesses, and the second call fails at first."""
    play(chapter, "one", "two")
    played(chapter, 1, "I say three.", witnesses=[1])
    answer, calls = scribe.__call__, []

    def refuse_second(request: ModelRequest) -> str:
        if "turn_delta" in request.messages[0].content:
            calls.append(request)
            if len(calls) == 2:
                raise ProviderRefused("Not now.")
        return answer(request)

    provider.fallback = refuse_second
    work_on_all()
    assert deltas(chapter) == []
    play(chapter, "four")
    work_on_all()
    assert len(calls) == 3
    play(chapter, "five")
    assert sorted(lessons(chapter)) == ["three", "two"]


def test_an_error_of_the_mode_costs_no_memory(
    chapter: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "secret words"

    def fail(*_about: object) -> None:
        raise KeyError(secret)

    use_addition(monkeypatch, replace(ADDITION, brings=fail))
    remember(chapter, "one", "two", "three")
    assert len(deltas(chapter)) == 1
    [line] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert "what the summary" in line
    assert secret not in line


def use_addition(monkeypatch: pytest.MonkeyPatch, addition: Any) -> None:
    monkeypatch.setattr(lighthouse_mode, "MODE", replace(MODE, memory=Memory(addition=addition)))
    load_modes.cache_clear()


@pytest.fixture(autouse=True)
def _load_modes_anew() -> Any:
    yield
    load_modes.cache_clear()
