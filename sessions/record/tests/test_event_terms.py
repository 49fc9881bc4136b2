"""Tests of the terms that are stored with each event."""

import pytest

from sessions.chapter.chapters import choose_language, delete_chapter
from sessions.models import THOUGHT, Attempt, Event, EventTerms, Session
from sessions.play.attempts import open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def play(chapter: Session, words: str, reply: str, key: str = "k") -> Attempt:
    attempt = open_prompt(chapter.pk, actor=1, words=words, submission_key=key).attempt
    assert commit_attempt(attempt, reply)
    chapter.refresh_from_db()
    return attempt


def terms_of_events(attempt: Attempt) -> list[dict[str, int]]:
    rows = EventTerms.objects.filter(event__attempt=attempt).order_by("event__position")
    return [row.counts for row in rows]


def test_an_event_is_stored_with_its_terms(chapter: Session) -> None:
    attempt = play(chapter, "The lamps, the lamp!", "I light them.")
    assert terms_of_events(attempt) == [{"lamp": 2}, {"light": 1}]
    assert [row.length for row in EventTerms.objects.order_by("event__position")] == [2, 1]


def test_a_thought_has_terms_too(chapter: Session) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Night.", submission_key="k").attempt
    commit_attempt(attempt, [NewEvent("He lies.", 1, kind=THOUGHT)])
    assert terms_of_events(attempt) == [{"night": 1}, {"lie": 1}]


def test_a_language_that_is_set_counts_for_every_event(chapter: Session) -> None:
    choose_language(chapter.pk, "sv")
    attempt = play(chapter, "Where are the lanterns, and who has them?", "Lyktorna brinner.")
    rows = EventTerms.objects.filter(event__attempt=attempt)
    assert {row.language for row in rows} == {"swedish"}


def test_terms_are_gone_with_the_event_and_with_the_chapter(chapter: Session) -> None:
    play(chapter, "Night.", "I light the lamp.")
    play(chapter, "Morning.", "I put it out.", "k2")
    Event.objects.filter(prompt_index=1).delete()
    assert EventTerms.objects.count() == 2
    delete_chapter(chapter.pk)
    assert not EventTerms.objects.exists()
