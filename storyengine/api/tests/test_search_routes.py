"""Tests of the search for passages through the API."""

from typing import Any
from urllib.parse import urlencode

import pytest

from memory.prose.tests.told_chapters import make_told_chapter
from sessions.chapter.stories import begin_next_chapter
from sessions.models import THOUGHT, Session
from sessions.play.attempts import open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.tests.factories import add_turn
from storyengine.api.tests.calling import address, call

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture
def chapter() -> Session:
    return make_told_chapter()


def search(chapter: Session, **asked: Any) -> Any:
    return call("GET", address(chapter, f"search?{urlencode(asked)}"))


def numbers(chapter: Session, **asked: Any) -> list[int]:
    return [one["prompt_index"] for one in search(chapter, **asked).json()["results"]]


def test_it_answers_with_the_passages_best_first(chapter: Session) -> None:
    answer = search(chapter, q="Who counted hymns by the lantern?")
    assert answer.status_code == 200
    document = answer.json()
    assert document["session_id"] == str(chapter.pk)
    first, *others = document["results"]
    assert first["prompt_index"] == 2
    assert first["text"].startswith("2) A lantern burns in the flooded chapel.")
    assert "I kneel and count the hymns." in first["text"]
    scores = [one["score"] for one in document["results"]]
    assert others
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_the_hits_are_told_apart_in_an_excerpt(chapter: Session) -> None:
    [first, *_] = search(chapter, q="lanterns").json()["results"]
    assert [one["text"] for one in first["excerpt"] if one["hit"]] == ["lantern"]
    assert "".join(one["text"] for one in first["excerpt"]).startswith("2) A lantern burns")


def test_a_slot_finds_what_this_character_witnessed_and_no_slot_everything(
    chapter: Session,
) -> None:
    add_turn(chapter, 5, words="A ruby is hidden.", reply="I look away.", witnesses=[1])
    assert numbers(chapter, q="ruby") == [5]
    assert numbers(chapter, q="ruby", slot=1) == [5]
    assert numbers(chapter, q="ruby", slot=2) == []


def test_what_a_chapter_before_has_is_found_and_named(chapter: Session) -> None:
    following = begin_next_chapter(chapter.story_id)
    first, *_ = search(following, q="lantern hymns", slot=1).json()["results"]
    assert (first["session_id"], first["chapter"]) == (str(chapter.pk), chapter.title)
    assert first["prompt_index"] == 2
    assert first["text"].startswith(f"Chapter “{chapter.title}”: 2) A lantern")
    [own, *_] = search(chapter, q="lantern hymns").json()["results"]
    assert (own["session_id"], own["chapter"]) == (str(chapter.pk), chapter.title)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"q": ""},
        {"q": "x" * 1_001},
        {"q": "lantern", "limit": 0},
        {"q": "lantern", "limit": 51},
        {"q": "lantern", "slot": 0},
        {"q": "lantern", "slot": 8},
        {"q": "lantern", "slot": "Mara"},
    ],
)
def test_what_cannot_be_asked_is_a_422(chapter: Session, asked: dict[str, Any]) -> None:
    assert search(chapter, **asked).status_code == 422


def test_thoughts_are_found_only_on_request(chapter: Session) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Fog.", submission_key="k").attempt
    commit_attempt(attempt, [NewEvent("He is a smuggler.", 1, kind=THOUGHT)])
    assert numbers(chapter, q="smuggler") == []
    assert numbers(chapter, q="smuggler", slot=2, thoughts="true") == []
    assert numbers(chapter, q="smuggler", slot=1, thoughts="true") == [5]
    assert numbers(chapter, q="smuggler", thoughts="true") == [5]
