"""Tests of a chapter's world: which changes count, in which order, and what closes a turn."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from sessions.exceptions import ChapterError, TurnInFlight, WrongState
from sessions.leases import renew_attempts
from sessions.models import Attempt, Change, Session, State
from sessions.play.attempts import (
    open_prompt,
    open_reroll,
    open_trial,
    start_keeping,
)
from sessions.play.breaking import extend_broken_text, fail_attempt, stop_attempt
from sessions.play.committing import choose_attempt, commit_attempt, edit_reply
from sessions.play.played_world import (
    LateResult,
    NewChange,
    changes_that_count,
    fold_world,
    store_changes,
    take_results,
)
from sessions.tests.factories import act, make_active_chapter
from testing.refusals import USER_HAS_ACTED

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def note(*names: str) -> list[NewChange]:
    return [NewChange("note", {"name": name}, cause="test") for name in names]


def world_of(chapter: Session, **how: Any) -> list[str]:
    """Return the names in the changes that count, in order."""

    def add(world: list[str], change: Change) -> list[str]:
        return [*world, change.payload["name"]]

    return fold_world([], changes_that_count(chapter, **how), add)


def begin(chapter: Session, *names: str, key: str = "k") -> Attempt:
    """Open a prompt, and store a change with each of these names for its attempt."""
    attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key=key).attempt
    assert store_changes(attempt, note(*names))
    return attempt


def play(chapter: Session, *names: str) -> Attempt:
    attempt = begin(chapter, *names, key=str(uuid.uuid4()))
    assert commit_attempt(attempt, "I go.")
    return attempt


def play_again(chapter: Session, *names: str) -> Attempt:
    attempt = open_reroll(chapter.pk, submission_key=str(uuid.uuid4())).attempt
    assert store_changes(attempt, note(*names))
    assert commit_attempt(attempt, "I go otherwise.")
    return attempt


def result(name: str = "done") -> LateResult:
    return LateResult(uuid.uuid4(), "note", {"name": name})


class TestChangesThatCount:
    def test_the_world_follows_the_chosen_attempts_in_order(self, chapter: Session) -> None:
        first = play(chapter, "a", "b")
        again = play_again(chapter, "c")
        assert world_of(chapter) == ["c"]
        choose_attempt(chapter.pk, 1, first.pk)
        play(chapter, "d")
        assert world_of(chapter) == ["a", "b", "d"]
        assert world_of(chapter, before=2) == ["a", "b"]
        assert world_of(chapter, attempt=again) == ["c"]

    def test_a_run_sees_its_own_steps_and_nobody_else_does(self, chapter: Session) -> None:
        play(chapter, "a")
        attempt = begin(chapter, "b")
        store_changes(attempt, note("c"))
        assert world_of(chapter) == ["a"]
        assert world_of(chapter, attempt=attempt) == ["a", "b", "c"]

    def test_a_retry_begins_from_the_world_before(self, chapter: Session) -> None:
        broken = begin(chapter, "lost")
        fail_attempt(broken, error="No answer.", partial_text="")
        retry = begin(chapter, "a")
        assert retry.pk == broken.pk
        assert world_of(chapter, attempt=retry) == ["a"]
        commit_attempt(retry, "I go.")
        assert world_of(chapter) == ["a"]

    def test_a_run_that_lost_its_claim_stores_nothing(self, chapter: Session) -> None:
        lost = begin(chapter, "a")
        Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        retry = begin(chapter, "b")
        assert not store_changes(lost, note("late"))
        commit_attempt(retry, "I go.")
        assert not store_changes(retry, note("later"))
        assert not store_changes(lost, note("late"))
        assert world_of(chapter) == ["b"]

    def test_no_run_has_a_position_or_a_result_twice(self, chapter: Session) -> None:
        attempt = play(chapter, "a")
        [stored] = chapter.changes.all()
        act(chapter.pk, note("b"))
        act_row = chapter.changes.get(run_id=None)
        doubled: list[dict[str, Any]] = [
            {"run_id": stored.run_id, "position": 0},
            {"run_id": None, "position": act_row.position},
        ]
        for fields in doubled:
            with pytest.raises(IntegrityError), transaction.atomic():
                Change.objects.create(session=chapter, attempt=attempt, kind="note", **fields)
        taken = {"run_id": stored.run_id, "result": uuid.uuid4()}
        Change.objects.create(session=chapter, attempt=attempt, kind="note", position=1, **taken)
        with pytest.raises(IntegrityError), transaction.atomic():
            Change.objects.create(
                session=chapter, attempt=attempt, kind="note", position=2, **taken
            )

    def test_a_change_is_never_changed(self, chapter: Session) -> None:
        play(chapter, "a")
        with pytest.raises(TypeError):
            chapter.changes.get().save()


class TestKeptAndEdited:
    def test_an_edited_reply_has_the_changes_of_its_source(self, chapter: Session) -> None:
        play(chapter, "a")
        source = begin(chapter, key="k2")
        take_results(source, [result()])
        store_changes(source, [NewChange("note", {"name": "b"}, cause="go", step=2)])
        commit_attempt(source, "I go.")
        edit = edit_reply(chapter.pk, 2, "By hand.")
        assert world_of(chapter) == ["a", "done", "b"]
        copied = ("position", "kind", "payload", "cause", "step", "result")
        of_source, of_edit = (list(one.changes.values_list(*copied)) for one in (source, edit))
        assert of_edit == of_source

    @pytest.mark.parametrize("how", ["failed", "stopped", "renewed", "extended"])
    def test_a_kept_reply_has_the_steps_of_the_run_that_brought_its_text(
        self, chapter: Session, how: str
    ) -> None:
        broken = begin(chapter, "a")
        match how:
            case "failed":
                fail_attempt(broken, error="No answer.", partial_text="I go")
            case "stopped":
                stop_attempt(broken, partial_text="I go")
            case "renewed":
                renew_attempts([(broken, "I go")])
                fail_attempt(broken, error="No answer.", partial_text="")
            case "extended":
                stop_attempt(broken)
                extend_broken_text(broken, "I go")
        # The retry makes a change and then fails without any text.
        fail_attempt(begin(chapter, "b"), error="No answer.", partial_text="")
        broken.refresh_from_db()
        kept = start_keeping(broken)
        assert commit_attempt(kept, kept.partial_text)
        assert world_of(chapter) == ["a"]


class TestActs:
    def test_an_act_counts_at_once_and_last_in_its_turn(self, chapter: Session) -> None:
        play(chapter, "a")
        act(chapter.pk, note("b"))
        act(chapter.pk, note("c"))
        assert world_of(chapter) == ["a", "b", "c"]
        play(chapter, "d")
        assert world_of(chapter) == ["a", "b", "c", "d"]

    def test_an_act_waits_while_a_reply_is_being_written(self, chapter: Session) -> None:
        play(chapter, "a")
        attempt = begin(chapter, "b")
        with pytest.raises(TurnInFlight):
            act(chapter.pk, note("c"))
        commit_attempt(attempt, "I go.")
        act(chapter.pk, note("c"))
        assert world_of(chapter) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        "fields", [{"state": State.ENDED}, {"is_ending": True}, {"state": State.NARRATING}]
    )
    def test_there_is_none_outside_play(self, chapter: Session, fields: dict[str, Any]) -> None:
        play(chapter, "a")
        Session.objects.filter(pk=chapter.pk).update(**fields)
        with pytest.raises(WrongState, match="not in play"):
            act(chapter.pk, note("b"))
        assert world_of(chapter) == ["a"]

    def test_an_act_closes_its_turn(self, chapter: Session) -> None:
        first = play(chapter, "a")
        chosen = play_again(chapter, "b")
        trial = open_trial(chapter.pk, source=chosen, changed_layer={}, submission_key="t").attempt
        act(chapter.pk, note("c"))
        # The running trial may still end, but it cannot be chosen.
        assert commit_attempt(trial, "Another way.")
        refused: Sequence[Any] = [
            lambda: choose_attempt(chapter.pk, 1, first.pk),
            lambda: choose_attempt(chapter.pk, 1, trial.pk),
            lambda: edit_reply(chapter.pk, 1, "By hand."),
            lambda: open_reroll(chapter.pk, submission_key="r"),
            lambda: open_trial(chapter.pk, source=chosen, changed_layer={}, submission_key="t2"),
        ]
        for refuse in refused:
            with pytest.raises(WrongState, match=USER_HAS_ACTED):
                refuse()
        assert world_of(chapter) == ["b", "c"]
        chapter.refresh_from_db()
        assert chapter.turn_in_flight is None
        play(chapter, "d")
        play_again(chapter, "e")
        assert world_of(chapter) == ["b", "c", "e"]

    def test_an_act_sets_a_broken_attempt_aside(self, chapter: Session) -> None:
        play(chapter)
        broken = begin(chapter)
        fail_attempt(broken, error="No answer.", partial_text="I go")
        act(chapter.pk, note("a"))
        broken.refresh_from_db()
        assert broken.status == Attempt.Status.SET_ASIDE
        with pytest.raises(WrongState):
            begin(chapter)
        with pytest.raises(ChapterError):
            start_keeping(broken)

    def test_what_was_sent_before_the_act_is_answered_as_before(self, chapter: Session) -> None:
        play(chapter, "a")
        reroll = open_reroll(chapter.pk, submission_key="r").attempt
        commit_attempt(reroll, "I go otherwise.")
        act(chapter.pk, note("b"))
        again = open_reroll(chapter.pk, submission_key="r")
        assert (again.attempt, again.must_run) == (reroll, False)
