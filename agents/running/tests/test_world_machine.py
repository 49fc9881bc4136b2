"""Tests that a chapter's world is the same as if only the chosen attempts had ever been made."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agents.models import Job
from agents.running.results import waiting_results
from agents.running.tests.finished_results import store_finished_result
from sessions.exceptions import WrongState
from sessions.models import Attempt, Session, State
from sessions.play.attempts import open_prompt, open_reroll, open_trial, start_keeping
from sessions.play.breaking import fail_attempt, recover_dead_attempts, stop_attempt
from sessions.play.committing import choose_attempt, commit_attempt, edit_reply
from sessions.play.played_world import (
    NewChange,
    changes_that_count,
    fold_world,
    store_changes,
    take_results,
)
from sessions.tests.factories import act, make_active_chapter
from sessions.tests.weekly import few


@dataclass
class Run:
    """The changes of a run. The first of them are the late results that the run took."""

    taken: list[str]
    steps: list[str] = field(default_factory=list)

    @property
    def changes(self) -> list[str]:
        return self.taken + self.steps


@dataclass
class Try:
    """An attempt, as the test expects it to be stored. `kept` is the run whose text can be kept."""

    row: Attempt
    turn: int
    run: Run
    kept: Run | None = None


@dataclass
class Step:
    tries: list[Try]
    chosen: Try
    acts: list[str] = field(default_factory=list)


@dataclass
class Result:
    asker: Try
    name: str
    is_finished: bool = False


def take(attempt: Attempt) -> None:
    assert take_results(attempt, waiting_results(attempt))


def notes(*names: str) -> list[NewChange]:
    return [NewChange("note", {"name": name}) for name in names]


def world_of(session_id: uuid.UUID, **how: Any) -> list[str]:
    changes = changes_that_count(Session.objects.get(pk=session_id), **how)
    initial: list[str] = []
    return fold_world(initial, changes, lambda world, one: [*world, one.payload["name"]])


class Play(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pk = make_active_chapter().pk
        self.turns: list[Step] = []
        self.results: list[Result] = []
        self.trials: list[Try] = []
        self.in_flight: Try | None = None
        self.broken: Try | None = None
        # The attempts whose runs have ended while their processes do not know it yet.
        self.lost: list[Attempt] = []
        self.has_ended = False
        self.count = 0

    # The following methods compute the state that the test expects of the chapter.

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what} {self.count}"

    def world(self, before: int | None = None) -> list[str]:
        told: list[str] = []
        for step in self.turns[: None if before is None else before - 1]:
            told += step.chosen.run.changes + step.acts
        return told

    def waiting(self, number: int) -> list[Result]:
        """Return the late results that an attempt at this turn should take."""
        taken = self.world(before=number)
        chosen = {id(step.chosen) for step in self.turns[: number - 1]}
        found = [
            one
            for one in self.results
            if one.is_finished and id(one.asker) in chosen and one.name not in taken
        ]
        return sorted(found, key=lambda one: one.asker.turn)

    @property
    def latest(self) -> Step:
        return self.turns[-1]

    @property
    def can_change(self) -> bool:
        """Return whether another attempt at the latest turn can be made or chosen."""
        return not (self.has_ended or self.in_flight or self.latest.acts)

    def begin(self, row: Attempt, number: int) -> Try:
        waiting = self.waiting(number)
        take(row)
        run = Run([one.name for one in waiting])
        run.steps.append(self.name("step"))
        assert store_changes(row, notes(*run.steps))
        return Try(row, number, run)

    def refused_unless(self, is_allowed: bool, do: Callable[[], Any]) -> Any:
        if is_allowed:
            return do()
        with pytest.raises(WrongState):
            do()
        return None

    # The following rules make attempts.

    @initialize()
    def play_one(self) -> None:
        self.send_prompt()
        self.commit()

    @precondition(lambda self: not self.in_flight)
    @rule(is_committed=st.booleans())
    def play(self, is_committed: bool) -> None:
        self.send_prompt()
        if is_committed:
            self.commit()

    @precondition(lambda self: self.turns and self.can_change)
    @rule(is_committed=st.booleans())
    def play_again(self, is_committed: bool) -> None:
        self.reroll()
        if is_committed:
            self.commit()

    def send_prompt(self) -> None:
        opened = self.refused_unless(
            not (self.has_ended or self.in_flight),
            lambda: (
                open_prompt(self.pk, actor=1, words="Go.", submission_key=self.name("key")).attempt
            ),
        )
        if opened:
            self.in_flight, self.broken = self.begin(opened, len(self.turns) + 1), None

    def reroll(self) -> None:
        opened = self.refused_unless(
            self.can_change,
            lambda: open_reroll(self.pk, submission_key=self.name("key")).attempt,
        )
        if opened:
            self.in_flight, self.broken = self.begin(opened, len(self.turns)), None

    @precondition(lambda self: not self.latest.acts)
    @rule()
    def try_beside_play(self) -> None:
        opened = self.refused_unless(
            not (self.has_ended or self.latest.acts),
            lambda: (
                open_trial(
                    self.pk,
                    source=self.latest.chosen.row,
                    changed_layer={},
                    submission_key=self.name("key"),
                ).attempt
            ),
        )
        if opened:
            self.trials.append(self.begin(opened, len(self.turns)))

    @precondition(lambda self: self.in_flight or self.trials)
    @rule(data=st.data(), count=st.integers(1, 2))
    def take_a_step(self, data: st.DataObject, count: int) -> None:
        running = [*self.trials, *([self.in_flight] if self.in_flight else [])]
        one = data.draw(st.sampled_from(running))
        names = [self.name("step") for _ in range(count)]
        assert store_changes(one.row, notes(*names))
        one.run.steps += names

    @precondition(lambda self: self.in_flight)
    @rule()
    def commit(self) -> None:
        one, self.in_flight = self.in_flight, None
        assert one is not None
        assert commit_attempt(one.row, "I go.")
        if one.turn > len(self.turns):
            self.turns.append(Step([one], one))
        else:
            self.latest.tries.append(one)
            self.latest.chosen = one

    @precondition(lambda self: self.trials)
    @rule(is_committed=st.booleans())
    def end_a_trial(self, is_committed: bool) -> None:
        one = self.trials.pop(0)
        if is_committed:
            assert commit_attempt(one.row, "On trial.")
            self.turns[one.turn - 1].tries.append(one)
        else:
            assert fail_attempt(one.row, error="No answer.", partial_text="On tri")
            self.lost.append(one.row)

    @precondition(lambda self: self.in_flight)
    @rule(text=st.sampled_from(["", "I go"]), how=st.sampled_from(["fail", "stop", "kill"]))
    def break_off(self, text: str, how: str) -> None:
        one, self.in_flight = self.in_flight, None
        assert one is not None
        if how == "fail":
            assert fail_attempt(one.row, error="No answer.", partial_text=text)
        elif how == "stop":
            assert stop_attempt(one.row, partial_text=text)
        else:
            past = timezone.now() - timedelta(seconds=1)
            Attempt.objects.filter(pk=one.row.pk).update(lease_until=past)
            assert recover_dead_attempts(self.pk) == 1
            text = ""
        self.lost.append(one.row)
        if text:
            one.kept = one.run
        self.broken = one

    @precondition(lambda self: not self.in_flight)
    @rule(
        text=st.sampled_from(["", "I go"]),
        how=st.sampled_from(["fail", "stop", "kill"]),
        then=st.sampled_from(["retry", "keep", "act", "fail again and keep"]),
        is_again=st.booleans(),
    )
    def break_off_and_go_on(self, text: str, how: str, then: str, is_again: bool) -> None:
        if is_again and self.can_change:
            self.reroll()
        else:
            self.send_prompt()
        self.break_off(text, how)
        if then == "fail again and keep":
            self.retry()
            self.break_off("", "fail")
        if then == "act":
            self.act()
        elif then != "retry" and self.broken and self.broken.kept:
            self.keep()
        else:
            self.retry()
            self.commit()

    @precondition(lambda self: self.broken and not self.in_flight)
    @rule()
    def retry(self) -> None:
        one = self.broken
        assert one is not None
        key, is_reroll = one.row.submission_key, one.row.kind == Attempt.Kind.REROLL
        opened = self.refused_unless(
            not (self.has_ended or self.in_flight),
            lambda: (
                (
                    open_reroll(self.pk, submission_key=key)
                    if is_reroll
                    else open_prompt(self.pk, actor=1, words="Go.", submission_key=key)
                ).attempt
            ),
        )
        if opened:
            again = self.begin(opened, one.turn)
            again.kept = one.kept
            self.in_flight, self.broken = again, None

    @precondition(lambda self: self.broken and self.broken.kept)
    @rule()
    def keep(self) -> None:
        one = self.broken
        assert one is not None
        assert one.kept is not None
        row = start_keeping(Attempt.objects.get(pk=one.row.pk))
        self.in_flight, self.broken = Try(row, one.turn, one.kept), None
        self.commit()

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def write_without_a_claim(self, data: st.DataObject) -> None:
        lost = data.draw(st.sampled_from(self.lost))
        assert not store_changes(lost, notes("late"))
        assert commit_attempt(lost, "Late.") is None

    # The following rules are the user's actions at the latest turn.

    @precondition(lambda self: self.can_change)
    @rule(data=st.data())
    def choose(self, data: st.DataObject) -> None:
        if len(self.turns) > 1:
            with pytest.raises(WrongState):
                choose_attempt(self.pk, 1, self.turns[0].tries[0].row.pk)
        number, one = len(self.turns), data.draw(st.sampled_from(self.latest.tries))
        done = self.refused_unless(
            self.can_change, lambda: choose_attempt(self.pk, number, one.row.pk)
        )
        if done and self.latest.chosen is not one:
            self.latest.chosen, self.broken = one, None

    @precondition(lambda self: self.can_change)
    @rule()
    def edit(self) -> None:
        number = len(self.turns)
        row = self.refused_unless(self.can_change, lambda: edit_reply(self.pk, number, "By hand."))
        if row:
            source = self.latest.chosen.run
            run = Run(list(source.taken), list(source.steps))
            edited = Try(row, number, run)
            self.latest.tries.append(edited)
            self.latest.chosen, self.broken = edited, None

    @precondition(lambda self: not self.in_flight)
    @rule()
    def act(self) -> None:
        name = self.name("act")
        is_allowed = bool(self.turns) and not (self.has_ended or self.in_flight)
        if self.refused_unless(is_allowed, lambda: act(self.pk, notes(name))):
            self.latest.acts.append(name)
            self.broken = None

    @precondition(lambda self: self.in_flight or self.latest.acts)
    @rule(data=st.data())
    def do_what_is_refused(self, data: st.DataObject) -> None:
        self.reroll()
        self.edit()
        self.choose(data)
        if self.in_flight:
            self.send_prompt()
            self.act()
        else:
            self.try_beside_play()

    @precondition(lambda self: not self.in_flight)
    @rule(data=st.data())
    def end_and_reopen(self, data: st.DataObject) -> None:
        """End the chapter and reopen it.

        While the chapter is ended, every action is refused, but a running trial may end.
        """
        self.has_ended = True
        Session.objects.filter(pk=self.pk).update(state=State.ENDED)
        for refused in (self.send_prompt, self.reroll, self.try_beside_play, self.edit, self.act):
            refused()
        self.choose(data)
        if self.broken:
            self.retry()
        if self.trials:
            self.end_a_trial(True)
        self.has_ended = False
        Session.objects.filter(pk=self.pk).update(state=State.ACTIVE)

    # The following rules ask for late results and finish them.

    @rule(data=st.data(), is_finished=st.booleans())
    def ask(self, data: st.DataObject, is_finished: bool) -> None:
        """Ask for a late result of a random attempt, most often of an attempt at the latest
        turn."""
        steps = data.draw(st.sampled_from([self.turns, self.turns[-1:]]))
        asker = data.draw(st.sampled_from([one for step in steps for one in step.tries]))
        result = Result(asker, self.name("result"), is_finished)
        self.results.append(result)
        job = store_finished_result(asker.row, asker.turn, result.name)
        if not is_finished:
            Job.objects.filter(pk=job.pk).update(status=Job.Status.QUEUED)

    @precondition(lambda self: any(not one.is_finished for one in self.results))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        unfinished = [one for one in self.results if not one.is_finished]
        result = data.draw(st.sampled_from(unfinished))
        result.is_finished = True
        jobs = Job.objects.filter(session_id=self.pk, key=result.name)
        jobs.update(status=Job.Status.DONE)

    # The following invariants are checked after each rule.

    @invariant()
    def the_world_is_that_of_the_chosen(self) -> None:
        assert world_of(self.pk) == self.world()

    @invariant()
    def each_attempt_sees_the_world_before_it_and_what_it_did(self) -> None:
        for one in (*self.trials, *([self.in_flight] if self.in_flight else [])):
            seen = world_of(self.pk, attempt=one.row)
            assert seen == self.world(before=one.turn) + one.run.changes

    @invariant()
    def each_result_is_taken_once_or_waits_or_is_void(self) -> None:
        told = world_of(self.pk)
        chosen = {id(step.chosen) for step in self.turns}
        following = Attempt(session=Session.objects.get(pk=self.pk))
        waiting = {one.payload["name"] for one in waiting_results(following)}
        for one in self.results:
            is_void = id(one.asker) not in chosen
            times = told.count(one.name)
            assert times <= (0 if is_void or not one.is_finished else 1)
            is_waiting = one.is_finished and not (is_void or times)
            assert is_waiting == (one.name in waiting)

    def teardown(self) -> None:
        """Check that a second chapter, in which only the chosen attempts are made, has the same
        world as this chapter."""
        other = make_active_chapter().pk
        rows: dict[int, Attempt] = {}
        for step in self.turns:
            run = step.chosen.run
            sent = {"actor": 1, "words": "Go.", "submission_key": str(uuid.uuid4())}
            attempt = open_prompt(other, **sent).attempt  # type: ignore[arg-type]
            for one in self.results:
                if one.name in run.taken:
                    store_finished_result(rows[id(one.asker)], one.asker.turn, one.name)
            take(attempt)
            assert store_changes(attempt, notes(*run.steps))
            assert commit_attempt(attempt, "I go.")
            rows[id(step.chosen)] = attempt
            for name in step.acts:
                act(other, notes(name))
        assert world_of(other) == world_of(self.pk)


# The test runs on SQLite only, where its examples take half a minute. On PostgreSQL they take more
# than ten minutes, because PostgreSQL has no statistics of rows that an open transaction has made,
# and therefore plans its queries badly.
@pytest.mark.one_stack
@pytest.mark.django_db
def test_the_world_is_that_of_a_chapter_in_which_only_the_chosen_were_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The lease is long, because the test renews no leases and a machine may be slow.
    monkeypatch.setattr("sessions.play.attempts.LEASE", timedelta(hours=1))
    run_state_machine_as_test(
        Play,
        settings=settings(
            max_examples=few(5, 60),
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )
