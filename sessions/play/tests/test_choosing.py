"""Tests of choosing, editing and trying the attempts at a turn."""

import uuid
from typing import Any

import pytest

from sessions.exceptions import (
    InvalidInput,
    KeyReused,
    TooLong,
    TurnInFlight,
    WrongState,
)
from sessions.models import Attempt, Session, State
from sessions.play.attempts import open_prompt, open_reroll, open_trial
from sessions.play.breaking import fail_attempt
from sessions.play.committing import choose_attempt, commit_attempt, edit_reply, reply_of
from sessions.record.chosen_events import attempts_at, chosen_events
from sessions.tests.factories import add_prompts, add_reply, make_active_chapter
from testing.refusals import ANOTHER_WAS_CHOSEN, PLAY_HAS_GONE_ON

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    """Return a chapter with two turns, the second of which has two attempts."""
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    add_reply(chapter, 2, "another reply")
    return chapter


def told(chapter: Session) -> list[str]:
    return [event.text for event in chosen_events(chapter)]


def first_at(chapter: Session, number: int) -> Attempt:
    return attempts_at(chapter.turns.get(number=number))[0]


def test_any_committed_attempt_at_the_latest_turn_can_be_chosen(chapter: Session) -> None:
    assert told(chapter)[-1] == "another reply"
    choose_attempt(chapter.pk, 2, first_at(chapter, 2).pk)
    assert told(chapter) == ["beat 1", "reply 1", "beat 2", "reply 2"]


def test_a_choice_sets_a_broken_attempt_aside(chapter: Session) -> None:
    broken = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    fail_attempt(broken, error="No answer.", partial_text="")
    choose_attempt(chapter.pk, 2, first_at(chapter, 2).pk)
    broken.refresh_from_db()
    assert broken.status == Attempt.Status.SET_ASIDE


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"state": State.ENDED}, WrongState),
        ({"is_ending": True}, WrongState),
        ({"turn_in_flight": uuid.UUID(int=7)}, TurnInFlight),
    ],
)
def test_what_stands_in_the_way_of_a_choice(
    chapter: Session, fields: dict[str, Any], error: type[Exception]
) -> None:
    Session.objects.filter(pk=chapter.pk).update(**fields)
    with pytest.raises(error):
        choose_attempt(chapter.pk, 2, first_at(chapter, 2).pk)
    with pytest.raises(error):
        edit_reply(chapter.pk, 2, "Another text.")
    assert told(chapter)[-1] == "another reply"


def test_only_the_latest_turn_can_change(chapter: Session) -> None:
    add_prompts(chapter, 1)
    with pytest.raises(WrongState, match=PLAY_HAS_GONE_ON):
        choose_attempt(chapter.pk, 2, first_at(chapter, 2).pk)
    with pytest.raises(WrongState, match=PLAY_HAS_GONE_ON):
        edit_reply(chapter.pk, 2, "Another text.")


@pytest.mark.parametrize(("panel", "then"), [(3, 2), (1, 1)])
def test_the_panel_follows_the_chosen_attempt_unless_another_was_chosen(
    panel: int, then: int
) -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    earlier = chapter.turns.get(number=2).chosen
    other = add_reply(chapter, 2, "By the first.")
    Attempt.objects.filter(pk=other.pk).update(actor=1)
    # Character 2 acts in the attempt that is chosen here, so the panel of character 3 is next.
    choose_attempt(chapter.pk, 2, earlier.pk)
    Session.objects.filter(pk=chapter.pk).update(next_agent_slot=panel)
    choose_attempt(chapter.pk, 2, other.pk)
    chapter.refresh_from_db()
    assert chapter.next_agent_slot == then


def test_an_edited_reply_is_another_attempt_and_is_chosen(chapter: Session) -> None:
    source = chapter.turns.get(number=2).chosen
    edit = edit_reply(chapter.pk, 2, "A reply by\r\nhand.")
    assert (edit.kind, edit.source, edit.words) == (Attempt.Kind.EDIT, source, source.words)
    assert told(chapter)[-2:] == ["beat 2", "A reply by\nhand."]
    assert reply_of(source).text == "another reply"


def test_an_edit_of_a_reply_that_is_no_longer_chosen_is_refused(chapter: Session) -> None:
    first = edit_reply(chapter.pk, 2, "By hand.").source
    assert first is not None
    # The first reply may be edited again, because the chosen attempt is itself an edit of this
    # reply.
    edit_reply(chapter.pk, 2, "By hand, later.", attempt_id=first.pk)
    other = add_reply(chapter, 2, "Again.")
    with pytest.raises(WrongState, match=ANOTHER_WAS_CHOSEN):
        edit_reply(chapter.pk, 2, "Too late.", attempt_id=first.pk)
    assert chapter.turns.get(number=2).chosen == other


def test_an_edit_that_is_sent_again_is_the_same(chapter: Session) -> None:
    edit = edit_reply(chapter.pk, 2, "By hand.", submission_key="e")
    assert edit_reply(chapter.pk, 2, "By hand.", submission_key="e") == edit
    with pytest.raises(KeyReused):
        edit_reply(chapter.pk, 2, "Otherwise.", submission_key="e")
    assert chapter.turns.get(number=2).attempts.count() == 3


@pytest.mark.parametrize(
    ("text", "error"), [(" \n", InvalidInput), ("a\x00b", InvalidInput), ("x" * 1_000_001, TooLong)]
)
def test_a_text_that_cannot_be_a_reply_changes_nothing(
    chapter: Session, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        edit_reply(chapter.pk, 2, text)
    assert told(chapter)[-1] == "another reply"


def test_a_trial_runs_beside_play_and_is_committed_unchosen(chapter: Session) -> None:
    source = chapter.turns.get(number=2).chosen
    trial = open_trial(
        chapter.pk, source=source, changed_layer={"layer": 1}, submission_key="t"
    ).attempt
    prompt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    assert commit_attempt(prompt, "I go.")
    assert commit_attempt(trial, "Another way.")
    chapter.refresh_from_db()
    assert (chapter.prompt_index, told(chapter)[-1]) == (3, "I go.")
    assert chapter.turns.get(number=2).chosen == source
    # The trial cannot be chosen, because the next turn had begun before the trial ended.
    with pytest.raises(WrongState):
        choose_attempt(chapter.pk, 2, trial.pk)


def test_trials_and_edits_are_perceived_by_those_who_perceived_their_source(
    chapter: Session,
) -> None:
    source = open_prompt(
        chapter.pk, actor=1, words="Psst.", submission_key="k", witnesses=[2]
    ).attempt
    assert commit_attempt(source, "I whisper.")
    trial = open_trial(chapter.pk, source=source, changed_layer={}, submission_key="t").attempt
    assert commit_attempt(trial, "I whisper low.")
    edit = edit_reply(chapter.pk, 3, "I whisper lower.")
    reroll = open_reroll(chapter.pk, submission_key="r").attempt
    assert commit_attempt(reroll, "I mutter.")
    for attempt in (trial, edit, reroll):
        assert attempt.witnesses == [1, 2]
        assert [event.witnesses for event in attempt.events.all()] == [[1, 2]] * 2


def test_an_edit_under_the_key_of_another_turns_edit_is_refused(chapter: Session) -> None:
    edit_reply(chapter.pk, 2, "By hand.", submission_key="e")
    add_prompts(chapter, 1)
    with pytest.raises(KeyReused):
        edit_reply(chapter.pk, 3, "By hand.", submission_key="e")
    assert chapter.turns.get(number=3).attempts.count() == 1
