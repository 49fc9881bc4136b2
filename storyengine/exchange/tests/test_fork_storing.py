"""Tests that one form makes one whole fork or none, and that forks keep to the operator's
limits."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError, connection

from agents.models import Job
from agents.running.recovery import recover
from agents.running.results import ask_for_result
from sessions.chapter import storing_imports
from sessions.chapter.access import get_chapter
from sessions.chapter.stories import hide_chapter
from sessions.exceptions import KeyReused, UnknownChapter
from sessions.models import Session, State, Turn
from sessions.play.played_world import NewChange, add_changes
from sessions.tests.racing import at_once, successes
from sessions.tests.weekly import few
from storyengine.exchange import exporting, forking
from storyengine.exchange import importing as file_importing
from storyengine.exchange.forking import ForkUnderWay, TooLargeToFork, fork_chapter
from storyengine.exchange.tests.chapters import (
    OWN,
    exported,
    make_whole_chapter,
)
from storyengine.exchange.tests.test_large_imports import counts, let_lease_run_out
from storyengine.settings.import_limits import OF_THE_OPERATOR

pytestmark = pytest.mark.django_db


class TestOnce:
    def test_the_same_form_for_another_turn_is_refused(self) -> None:
        origin = make_whole_chapter()
        fork_chapter(origin.pk, 4, submission_key="form")
        with pytest.raises(KeyReused):
            fork_chapter(origin.pk, 5, submission_key="form")
        assert Session.objects.count() == 2

    @pytest.mark.django_db(transaction=True)
    def test_two_at_once_make_one(self) -> None:
        origin = make_whole_chapter()
        results = at_once(*[lambda: fork_chapter(origin.pk, 4, submission_key="form")] * 3)
        made = Session.everything.exclude(pk=origin.pk).get()
        assert made.state == State.ACTIVE
        assert set(successes(results)) == {made}
        refused = [one for one in results if one != made]
        assert all(isinstance(one, ForkUnderWay) for one in refused)
        assert fork_chapter(origin.pk, 4, submission_key="form") == made

    def test_the_story_goes_by_it_if_its_origin_is_deleted_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = make_whole_chapter()
        store = file_importing._unanswered

        def delete_first(*given: Any) -> Any:
            hide_chapter(origin.pk)
            return store(*given)

        monkeypatch.setattr(file_importing, "_unanswered", delete_first)
        assert fork_chapter(origin.pk, 4).is_chosen


class TestHalfAFork:
    @pytest.fixture
    def half_way(self, monkeypatch: pytest.MonkeyPatch) -> Session:
        """Return a fork that is stored only in part, because its process died."""
        origin = make_whole_chapter()

        def die(*_: object) -> None:
            raise SystemExit

        with monkeypatch.context() as patched:
            patched.setattr(storing_imports, "remove_in_pieces", lambda _chapter: None)
            patched.setattr(file_importing, "_unanswered", die)
            with pytest.raises(SystemExit):
                fork_chapter(origin.pk, 4, submission_key="form")
        left = Session.everything.get(state=State.IMPORTING)
        assert (left.origin_id, left.events.count()) == (origin.pk, 8)
        return left

    def test_it_is_there_for_nobody_and_swept_with_its_lease(self, half_way: Session) -> None:
        origin = Session.objects.get()
        with pytest.raises(UnknownChapter):
            get_chapter(half_way.pk)
        recover()
        assert Session.everything.filter(pk=half_way.pk).exists()
        let_lease_run_out()
        recover()
        assert list(Session.everything.all()) == [origin]
        assert Turn.objects.count() == 10

    def test_the_same_form_waits_for_it_and_then_makes_it_anew(self, half_way: Session) -> None:
        origin = Session.objects.get()
        with pytest.raises(ForkUnderWay) as refused:
            fork_chapter(origin.pk, 4, submission_key="form")
        assert refused.value.retry_seconds
        let_lease_run_out()
        fork = fork_chapter(origin.pk, 4, submission_key="form")
        assert fork.prompt_index == 4
        assert Session.everything.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dies", [True, False])
def test_whichever_write_fails_the_same_form_makes_one_whole_fork(
    monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """A process whose write fails removes the rows of its fork as far as the database allows. A
    process that dies removes nothing."""
    origin = make_whole_chapter()
    before = counts()
    monkeypatch.setattr(storing_imports, "PIECE_ROWS", 5)
    whole = exported(fork_chapter(origin.pk, 4), *OWN)
    after = counts()
    for at in range(1, 1_000, few(4, 1)):
        Session.objects.exclude(pk=origin.pk).delete()
        assert counts() == before
        failing = FailingWrite(at)
        with monkeypatch.context() as patched, connection.execute_wrapper(failing):
            if dies:
                patched.setattr(storing_imports, "remove_in_pieces", lambda _chapter: None)
            with suppress(OperationalError):
                fork_chapter(origin.pk, 4, submission_key="form")
        assert {one.prompt_index for one in Session.objects.all()} <= {4, 10}
        let_lease_run_out()
        fork = fork_chapter(origin.pk, 4, submission_key="form")
        assert exported(fork, *OWN) == whole
        assert counts() == after
        if failing.at > 0:
            break
    assert at > 10


class FailingWrite:
    """A wrapper of queries in which the write with the number `at` fails. Each write counts `at`
    down by one."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and self.at > 0:
            self.at -= 1
            if not self.at:
                raise OperationalError("the disk is full")
        return execute(sql, *args)


class TestLimits:
    @pytest.mark.parametrize(
        ("name", "most"),
        [
            *[("turns", 3), ("attempts", 5), ("events", 7), ("memory_blocks", 1)],
            *[("changes", 1), ("results", 1), ("file_bytes", 5_000)],
        ],
    )
    def test_more_than_the_operator_may_import_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, name: str, most: int
    ) -> None:
        origin = make_whole_chapter()
        for attempt in origin.attempts.filter(turn__number__in=(2, 9)).select_related("turn"):
            add_changes(attempt, [NewChange("went", {})], run_id=attempt.run_id)
            ask_for_result(attempt, "simulate", "tide")
        Job.objects.update(status=Job.Status.DONE, result={})
        # The kind of the late results is not declared. The export leaves out such results, except
        # in a chapter whose mode is not installed. So the mode is made unknown here.
        monkeypatch.setattr(exporting, "find_mode", lambda name: None)
        number = 4 if name in ("turns", "events") else 10
        before = counts()
        limit: Any = {name: most}
        monkeypatch.setattr(forking, "OF_THE_OPERATOR", replace(OF_THE_OPERATOR, **limit))
        with pytest.raises(TooLargeToFork, match=f"{most:,}"):
            fork_chapter(origin.pk, number)
        assert counts() == before
        assert fork_chapter(origin.pk, 1).prompt_index == 1

    def test_only_what_the_fork_would_have_is_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = make_whole_chapter()
        few = replace(OF_THE_OPERATOR, turns=4, attempts=4, events=8, memory_blocks=1)
        monkeypatch.setattr(forking, "OF_THE_OPERATOR", few)
        assert fork_chapter(origin.pk, 4).prompt_index == 4
