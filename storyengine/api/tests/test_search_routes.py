"""Tests of the search for passages through the API."""

import uuid
from typing import Any
from urllib.parse import urlencode

import pytest
from pytest_django import Settings

from memory.prose.tests.told_chapters import make_told_chapter
from sessions.chapter.stories import begin_next_chapter
from sessions.models import THOUGHT, Session
from sessions.play.attempts import open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.tests.factories import add_reply, add_turn
from storyengine.api.tests.calling import address, assert_problem, call

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


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("Zoë hides the key.", "zoe"),
        ("Zoe hides the key.", "Zoë"),
        ("İlker counts them in İstanbul.", "istanbul"),
        ("The boat to Lodz is late.", "Łódź"),
        ("The café closes.", "cafes"),
        ("La fille chantée est partie avec nous.", "chantee"),
        ("שָׁלוֹם", "שלום"),
        ("محمد", "مُحَمَّد"),
        ("ｶﾞｽ灯", "ガス灯"),
    ],
)
def test_marks_of_letters_may_be_left_out_on_both_sides(
    chapter: Session, told: str, asked: str
) -> None:
    add_turn(chapter, 5, words="Go on.", reply=told)
    assert numbers(chapter, q=asked)[:1] == [5]


def test_the_hits_are_told_apart_in_an_excerpt(chapter: Session) -> None:
    [first, *_] = search(chapter, q="lanterns").json()["results"]
    assert [one["text"] for one in first["excerpt"] if one["hit"]] == ["lantern"]
    assert "".join(one["text"] for one in first["excerpt"]).startswith("2) A lantern burns")


def test_what_is_spelt_as_it_was_typed_comes_first(chapter: Session) -> None:
    for number, words in enumerate(("Zoe, Zoe, Zoe!", "Zoë's boat is far out.", "Lanterns."), 5):
        add_turn(chapter, number, words=words, reply="I nod.")
    assert numbers(chapter, q="Zoë")[:2] == [6, 5]
    assert numbers(chapter, q="zoe")[:2] == [5, 6]
    assert numbers(chapter, q="lanterns")[:2] == [7, 2]
    assert numbers(chapter, q="lantern")[:2] == [2, 7]


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


def test_what_is_not_chosen_is_not_found(chapter: Session) -> None:
    add_reply(chapter, 4, "I fold it into a zeppelin.", is_chosen=False)
    assert numbers(chapter, q="zeppelin") == []


def test_thoughts_are_found_only_on_request(chapter: Session) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Fog.", submission_key="k").attempt
    commit_attempt(attempt, [NewEvent("He is a smuggler.", 1, kind=THOUGHT)])
    assert numbers(chapter, q="smuggler") == []
    assert numbers(chapter, q="smuggler", slot=2, thoughts="true") == []
    assert numbers(chapter, q="smuggler", slot=1, thoughts="true") == [attempt_number(chapter)]
    assert numbers(chapter, q="smuggler", thoughts="true") == [attempt_number(chapter)]


def attempt_number(chapter: Session) -> int:
    chapter.refresh_from_db()
    return chapter.prompt_index


def test_the_limit_is_kept(chapter: Session) -> None:
    assert len(numbers(chapter, q="coin lantern bread warrant", limit=2)) == 2


def test_words_that_say_nothing_find_nothing(chapter: Session) -> None:
    assert numbers(chapter, q="?!* AND") == []


def test_a_question_of_a_thousand_characters_is_read(chapter: Session) -> None:
    assert numbers(chapter, q=f"lantern {'x' * 992}")[0] == 2


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


def test_a_slot_that_takes_no_part_is_a_422(chapter: Session) -> None:
    answer = search(chapter, q="lantern", slot=7)
    assert_problem(answer, 422, "invalid-input")
    assert "no agent 7" in answer.json()["detail"]


def test_an_unknown_chapter_is_a_404() -> None:
    answer = call("GET", f"/api/session/{uuid.uuid4()}/search?q=lantern")
    assert_problem(answer, 404, "unknown-chapter")


def test_strangers_are_refused(chapter: Session, settings: Settings) -> None:
    settings.API_TOKEN = "secret"
    assert search(chapter, q="lantern").status_code == 401
    path = address(chapter, "search?q=lantern")
    assert call("GET", path, Authorization="Bearer secret").status_code == 200
