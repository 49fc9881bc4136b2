"""Tests that a chapter is decided by its chosen attempts alone, however it was played.

Chapters are played at random, with attempts, kills, retries, choices, edits, trials, acts, late
results, turns without a prompt, memory, rulings, ends, forks and files. After each step the rows
are compared with a small model of the chapter (`chapter_machine/expected.py`). At the end the
chosen attempts alone are played in another chapter. This chapter must be the same as the first one.

Replies are not streamed. The rules call the functions that a task or a worker calls, so that these
functions can be called in any order.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test
from pytest_django import Settings

from agents.calling.model_access import substitute_provider
from agents.flows.replies import finishing
from agents.flows.telling.ending import reopen
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.modes.registry import find_mode
from memory.blocks import stretches
from memory.blocks.stretches import StretchRule
from sessions.chapter.chapters import delete_chapter
from sessions.models import State, Turn
from sessions.play.breaking import pending_attempt, stop_attempt
from sessions.tests.weekly import few
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.tests.chapter_machine.checks import (
    check_memory,
    check_prompts,
    check_results,
    check_world,
    play_the_chosen,
)
from storyengine.tests.chapter_machine.expected import AFTER, Try
from storyengine.tests.chapter_machine.readings import parrot, reads, rows_by_replies
from storyengine.tests.chapter_machine.work import PlaysWithWorkers
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.lighthouse.state import WIND, WORLD
from storyengine.tests.lighthouse.tide import TIDE

# The number of chapters that are played. With CI=true each run plays the same few chapters,
# to save time. The weekly run plays more. Without CI=true each run plays other
# chapters. The option `--hypothesis-seed` repeats the chapters of a run:
# STORYENGINE_TEST_CHAPTERS=200 pytest storyengine/tests/test_chapter_machine.py --hypothesis-seed=8
ON_SERVERS = bool(os.environ.get("STORYENGINE_TEST_DATABASE_URL"))
CHAPTERS = int(
    os.environ.get("STORYENGINE_TEST_CHAPTERS", few(2, 12) if ON_SERVERS else few(2, 40))
)
# The largest number of copies of a chapter. It is small, because making a copy takes longer than
# any other step.
COPIES = 4
APP = "storyengine.tests.lighthouse"


class Play(PlaysWithWorkers):
    """The rules for forks and files, and the checks after each step."""

    # The following rules make copies.

    @precondition(lambda self: len(self.made) <= COPIES)
    @rule(data=st.data(), goes_on=st.booleans())
    def fork(self, data: st.DataObject, goes_on: bool) -> None:
        number = data.draw(st.integers(1, self.number))
        self.follow(fork_chapter(self.pk, number).pk, number, goes_on=goes_on)

    @precondition(lambda self: len(self.made) <= COPIES)
    @rule(goes_on=st.booleans())
    def read_back(self, goes_on: bool) -> None:
        """Export the chapter and import the file.

        If an attempt was in flight, its copy is broken. The user can retry a broken attempt in the
        copy.
        """
        broken = self.in_flight or self.broken
        copy = import_chapter(export_chapter(self.pk).to_json())
        row = pending_attempt(copy)
        assert (row is None) == (broken is None)
        self.follow(copy.pk, self.number, goes_on=goes_on)
        if goes_on and row and broken:
            self.broken = Try(
                row,
                broken.turn,
                broken.words,
                broken.witnesses,
                broken.run,
                broken.kept_run,
                broken.kept_text,
            )

    def follow(self, copy: uuid.UUID, number: int, *, goes_on: bool) -> None:
        """Check that the copy is the same as its origin. Then go on in the copy or in the
        origin."""
        self.made.append(copy)
        assert reads(copy, until=number) == reads(self.pk, until=number)
        expected = self.expected.until(number, rows_by_replies(copy))
        check_world(copy, expected)
        check_results(copy, expected)
        check_memory(copy, expected)
        check_prompts(copy, expected, turn=self.checks)
        if goes_on:
            self.pk, self.expected = copy, expected
            self.asks_again = False
            heard = {id(one.asker) for one in expected.results}
            self.left_out = {id(one.chosen) for one in expected.turns[:-1]} - heard
            self.in_flight = self.broken = None
            self.trials, self.claimed, self.lost, self.lost_jobs = [], [], [], []

    @precondition(lambda self: not self.in_flight)
    @rule(data=st.data(), is_copied=st.booleans())
    def end_and_reopen(self, data: st.DataObject, is_copied: bool) -> None:
        """End the chapter, try every action on it, and reopen it.

        The engine refuses to play on in an ended chapter. A running trial may end, and the user may
        rule on canon.
        """
        self.end()
        self.send_prompt(data, 1)
        self.reroll(data)
        self.try_beside_play()
        self.edit()
        self.act(1)
        self.choose(data)
        self.rule_on_canon(data)
        if self.broken:
            self.retry()
        if self.trials:
            self.end_a_trial(data, True)
        if is_copied:
            self.read_back(goes_on=True)
        assert reopen(self.pk).state == State.ACTIVE
        self.has_ended = False

    # The following checks run after each step.

    @invariant()
    def the_world_is_that_of_the_chosen(self) -> None:
        check_world(self.pk, self.expected)
        for one in self.running:
            light = self.expected.light(before=one.turn, run=one.run)
            assert WORLD.of(one.row) == light

    @invariant()
    def each_result_is_taken_once_or_waits_or_is_void(self) -> None:
        check_results(self.pk, self.expected)
        for step in self.expected.turns[:-1]:
            is_left_out = id(step.chosen) in self.left_out
            if step.chosen.actor is None and self.asks_again and not is_left_out:
                [job] = Job.objects.filter(attempt=step.chosen.row, kind=TIDE)
                assert job.status != Job.Status.CANCELLED

    @invariant()
    def nobody_acts_alone_more_often_than_the_mode_allows(self) -> None:
        turns = Turn.objects.filter(session=self.pk).order_by("number")
        keys = turns.values_list("chosen__submission_key", flat=True)
        alone = "".join("x" if key.startswith(AFTER) else " " for key in keys)
        assert all(len(some) <= MODE.play.most_turns_alone for some in alone.split())

    @invariant()
    def memory_tiles_up_to_the_pointer(self) -> None:
        check_memory(self.pk, self.expected)

    @invariant()
    def everybody_reads_what_he_knows(self) -> None:
        self.checks += 1
        check_prompts(self.pk, self.expected, turn=self.checks)

    def teardown(self) -> None:
        """Play until no job is waiting, end the chapter, and play its chosen attempts in another
        chapter."""
        try:
            # If a step has failed, the chapter may be ended already.
            if self.number and not self.has_ended:
                self.play_to_the_end()
                self.made.append(play_the_chosen(self.pk, self.expected))
        finally:
            for pk in self.made:
                delete_chapter(pk)

    def play_to_the_end(self) -> None:
        if self.in_flight:
            assert stop_attempt(self.in_flight.row)
            self.in_flight = None
        self.finish_claimed()
        last = self.number
        # The first prompt asks for the late results that the chapter lacks. The second prompt takes
        # these results. The third one finds none.
        for _ in range(3):
            self.broken = None
            who, words = None, f"Words {self.mark()}."
            row = self.begin(self.prompt(1, words, who, self.mark()))
            one = self.take(row, self.number + 1, words, who)
            text = f"Reply {self.mark()}."
            assert finishing.commit_reply(row, text)
            self.choose_committed(one, text)
            self.work_until_none_is_due()
        taken = self.expected.light().tides
        levels = {id(one.asker): one.level for one in self.expected.results}
        for step in self.expected.turns[:last]:
            is_expected = step.chosen.actor is None and id(step.chosen) not in self.left_out
            assert not is_expected or taken.count(levels[id(step.chosen)]) == 1
        self.end()
        check_prompts(self.pk, self.expected)


@contextmanager
def lighthouse_installed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.MODES = [*settings.MODES, APP]
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, APP]
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 1_000_000
    assert find_mode("lighthouse") is not None
    rule = StretchRule(ended_by=frozenset({WIND}))
    monkeypatch.setitem(stretches._rules, "lighthouse", rule)
    # These leases are long, because the tests renew no leases and a machine may be slow.
    for lease in ("sessions.play.attempts.LEASE", "agents.running.jobs.JOB_LEASE"):
        monkeypatch.setattr(lease, timedelta(hours=1))
    # With so many tries, no job is given up, however often its worker is killed.
    for limit in ("agents.running.jobs.MAX_ATTEMPTS", "agents.flows.replies.going_on.MAX_ATTEMPTS"):
        monkeypatch.setattr(limit, 1_000)
    with substitute_provider(ScriptedProvider(fallback=parrot)):
        yield


@pytest.mark.django_db
def test_a_chapter_is_the_one_in_which_only_the_chosen_were_made(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lighthouse_installed(settings, monkeypatch):
        run_state_machine_as_test(
            Play,
            settings=hypothesis_settings(
                max_examples=CHAPTERS,
                stateful_step_count=20,
                suppress_health_check=list(HealthCheck),
            ),
        )
