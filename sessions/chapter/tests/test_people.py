"""Tests of persons whom a change brings into the cast. Such a person is present while the change
counts."""

from typing import Any

import pytest

from sessions.chapter.cast import clean_person
from sessions.exceptions import InvalidInput
from sessions.models import FIRST_NUMBER_IN_PLAY, PERSON, Attempt, CastMember, Session
from sessions.play.attempts import open_prompt, open_reroll, start_keeping
from sessions.play.breaking import fail_attempt
from sessions.play.committing import choose_attempt, commit_attempt
from sessions.play.events import NewEvent
from sessions.play.played_world import NewChange, everybody_at, store_changes
from sessions.record.transcript import read_transcript
from sessions.tests.factories import act, make_active_chapter

pytestmark = pytest.mark.django_db

N = FIRST_NUMBER_IN_PLAY


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"})


def person(name: str, **told: str) -> NewChange:
    return NewChange(PERSON, {"name": name, **told}, cause="meet")


def play(chapter: Session, *people: str, again: bool = False, key: str = "k") -> Attempt:
    if again:
        attempt = open_reroll(chapter.pk, submission_key=key).attempt
    else:
        attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key=key).attempt
    store_changes(attempt, [person(name) for name in people])
    assert commit_attempt(attempt, "I go.")
    chapter.refresh_from_db()
    return attempt


def present(chapter: Session, **how: Any) -> dict[int, str]:
    everybody = everybody_at(chapter, **how)
    return {one.number: one.name for one in everybody if one.number > 7}


def test_who_appears_is_there_from_that_turn_on(chapter: Session) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    store_changes(attempt, [person("Old Jon", pronouns="he/him", public_text="The pilot.")])
    assert present(attempt.session, attempt=attempt) == {N: "Old Jon"}
    assert present(Session.objects.get()) == {}
    commit_attempt(attempt, [NewEvent("Evening.", N)])
    chapter.refresh_from_db()
    [*_, jon] = everybody_at(chapter)
    told = (jon.slot, jon.number, jon.name, jon.pronouns, jon.public_text)
    assert told == (0, N, "Old Jon", "he/him", "The pilot.")
    assert [event.witnesses for event in chapter.events.all()] == [[1, 2, 3, N]] * 2
    assert read_transcript(chapter).plain_text == "1) Go.\n\nOld Jon: Evening."
    assert chapter.differs_by_reader
    assert present(chapter, before=1) == {}


def test_who_appears_counts_with_the_attempt(chapter: Session) -> None:
    first = play(chapter, "Old Jon")
    play(chapter, "Ann", again=True, key="r")
    # Ann gets a number of her own. Old Jon keeps his number, although his attempt is not chosen.
    assert present(chapter) == {N + 1: "Ann"}
    choose_attempt(chapter.pk, 1, first.pk)
    assert present(chapter) == {N: "Old Jon"}


def test_another_attempt_at_the_turn_knows_nobody_of_it(chapter: Session) -> None:
    play(chapter, "Old Jon")
    with pytest.raises(InvalidInput):
        open_reroll(chapter.pk, submission_key="r", witnesses=[1, N])
    reroll = open_reroll(chapter.pk, submission_key="r").attempt
    assert present(reroll.session, attempt=reroll) == {}
    commit_attempt(reroll, "I stay.")
    assert [one.witnesses for one in reroll.events.all()] == [[1, 2, 3]] * 2


def test_who_is_there_can_be_a_witness(chapter: Session) -> None:
    play(chapter, "Old Jon")
    sent = open_prompt(
        chapter.pk, actor=1, words="Psst.", submission_key="k2", witnesses=[N]
    ).attempt
    commit_attempt(sent, "Yes?")
    assert [one.witnesses for one in sent.events.all()] == [[1, N]] * 2
    shown = read_transcript(chapter).entries[-1]
    assert shown.perceived_by == "Mara, Old Jon"


def test_people_of_tab_1_have_numbers_after_the_slots() -> None:
    chapter = make_active_chapter()
    CastMember.objects.create(session=chapter, name="Ilse")
    chapter.forget_cast()
    play(chapter, "Old Jon")
    assert present(chapter) == {8: "Ilse", N: "Old Jon"}
    assert chapter.events.all()[0].witnesses == [1, 2, 3, 8, N]
    assert chapter.character(8).name == "Ilse"


@pytest.mark.parametrize(
    "told",
    [
        {"name": ""},
        {"name": "  "},
        {"name": "tom"},
        {"name": "3)"},
        {"name": "x" * 61},
        {"name": "Jon", "public_text": "x" * 201},
        {"name": "Jon", "pronouns": "a\x00"},
    ],
)
def test_who_cannot_appear(chapter: Session, told: dict[str, str]) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    with pytest.raises(InvalidInput):
        store_changes(attempt, [NewChange(PERSON, told)])
    with pytest.raises(InvalidInput):
        clean_person(chapter.everybody, **told)
    assert not chapter.changes.exists()


def test_a_retry_gives_no_number_that_a_kept_text_needs(chapter: Session) -> None:
    broken = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    store_changes(broken, [person("Jon")])
    fail_attempt(broken, error="No answer.", partial_text="I st")
    retry = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    store_changes(retry, [person("Ann")])
    assert present(retry.session, attempt=retry) == {N + 1: "Ann"}
    fail_attempt(retry, error="No answer.", partial_text="")
    broken.refresh_from_db()
    assert commit_attempt(start_keeping(broken), "I st")
    chapter.refresh_from_db()
    assert present(chapter) == {N: "Jon"}


@pytest.mark.parametrize(
    "told", [{"number": N, "name": "tom"}, {"name": "Jon", "number": 1}, {"name": 1}]
)
def test_only_the_program_gives_a_number(chapter: Session, told: dict[str, Any]) -> None:
    play(chapter)
    with pytest.raises(InvalidInput, match="the program gives the number"):
        act(chapter.pk, [NewChange(PERSON, told)])
    assert not chapter.changes.exists()
