"""Late results are worked out in the order of their turns.

The next run that begins takes all finished results.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from agents.calling.tests.bookkeeping import expire
from agents.flows.remembering.late_results import finish_with_result
from agents.flows.replies.tests.trying import try_again
from agents.flows.tests.playing import play, reroll
from agents.llm.providers.failures.call_errors import (
    ProviderRefused,
    ProviderTimeout,
)
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.modes.declaration import Mode
from agents.modes.registry import find_mode
from agents.modes.world_rules import NO_WORLD, WorldRules
from agents.prompting.forms.schemas import InvalidReply
from agents.running.job_kinds import JobKind, Watch
from agents.running.jobs import MAX_ATTEMPTS, claim, fail, latest_jobs
from agents.running.recovery import recover
from agents.running.results import (
    ask_for_result,
    void_results,
    waiting_results,
)
from agents.tests.replies import world_lock
from agents.tests.second_mode import install
from memory.tests.factories import add_lock
from sessions.exceptions import WrongState
from sessions.models import Attempt, Change, Session
from sessions.play.played_world import NewChange, add_changes, changes_that_count
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db


async def run(job: Job, watch: Watch) -> None:
    """Do nothing, because the tests finish their jobs themselves."""


CHANGE_KINDS = frozenset({"tide", "weather"})


def tidal(
    world: WorldRules[Any] | None = None, after_commit: Callable[[Attempt], None] | None = None
) -> Mode:
    """Make a mode like the Game Master's, with two kinds of job of its own."""
    mode = find_mode("gamemaster")
    assert mode is not None
    kinds = dict.fromkeys(("simulate", "measure"), JobKind(run))
    play = replace(mode.play, job_kinds=kinds, after_commit=after_commit)
    world = world or replace(NO_WORLD, change_kinds=CHANGE_KINDS)
    return replace(mode, name="tidal", play=play, world=world)


def sea(level: int, change: Change) -> int:
    """Fold a change into the world of these tests, which is the level of the sea."""
    if change.kind != "tide":
        return level
    if "at" in change.payload:
        raise LookupError
    return level + int(change.payload["level"])


SEA = WorldRules(lambda chapter: 0, sea, CHANGE_KINDS)


@pytest.fixture
def chapter(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> Session:
    install(monkeypatch, settings, tidal=tidal())
    chapter = make_active_chapter(mode="tidal")
    add_lock(chapter, world_lock())
    add_prompts(chapter, 1)
    return chapter


def latest(chapter: Session) -> Attempt:
    return chapter.turns.select_related("chosen__turn").latest("number").chosen


def ask(attempt: Attempt, result_kind: str = "tide") -> Job:
    return ask_for_result(attempt, "simulate", result_kind)


def finish(job: Job, **payload: object) -> None:
    claimed = claim(job.pk)
    assert claimed is not None
    assert finish_with_result(claimed, payload)


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def taken(chapter: Session) -> list[object]:
    return list(changes_that_count(chapter).values_list("kind", "payload", "cause"))


def test_a_prompt_takes_a_finished_result_first(chapter: Session) -> None:
    finish(ask(latest(chapter)), level=3)
    play(chapter)
    assert taken(chapter) == [("tide", {"level": 3}, "result")]
    play(chapter)
    assert len(taken(chapter)) == 1


def test_a_retry_takes_it_again_and_it_counts_once(
    chapter: Session, provider: ScriptedProvider
) -> None:
    finish(ask(latest(chapter)), level=3)
    provider.enqueue(Script(error=ProviderTimeout("too slow")))
    play(chapter, key="k")
    assert taken(chapter) == []
    play(chapter, key="k")
    assert chapter.changes.count() == 2
    assert taken(chapter) == [("tide", {"level": 3}, "result")]


@contextmanager
def count_read_jobs() -> Iterator[list[Job]]:
    read: list[Job] = []

    def note(instance: Job, **_: object) -> None:
        read.append(instance)

    post_init.connect(note, sender=Job)
    yield read
    post_init.disconnect(note, sender=Job)


def test_what_is_read_does_not_grow_with_the_results(chapter: Session) -> None:
    for level in range(5):
        finish(ask(latest(chapter)), level=level)
        play(chapter)
    waiting, other = ask(latest(chapter)), ask(latest(chapter), "weather")
    with count_read_jobs() as read:
        jobs = latest_jobs(chapter)
    assert list(jobs) == ["simulate"]
    assert (len(read), jobs["simulate"].status) == (1, Job.Status.QUEUED)
    finish(waiting, level=5)
    with count_read_jobs() as read:
        results = waiting_results(Attempt(session=chapter))
    assert ([one.payload for one in results], len(read)) == ([{"level": 5}], 1)
    assert other.pk not in [one.result_id for one in results]
    assert len(taken(chapter)) == 5


@pytest.mark.parametrize(("mode", "asks"), [("gamemaster", False), ("tidal", True)])
def test_a_prompt_asks_for_results_only_where_the_mode_has_some(
    chapter: Session, mode: str, asks: bool
) -> None:
    Session.objects.update(mode=mode)
    with CaptureQueriesContext(connection) as queries:
        assert play(chapter).status == Attempt.Status.COMMITTED
    about = [one["sql"] for one in queries if "\"result_kind\" = ''" in one["sql"]]
    assert ("SELECT" in [sql[:6] for sql in about]) is asks


def test_results_of_a_kind_are_finished_in_the_order_of_their_turns(chapter: Session) -> None:
    first = ask(latest(chapter))
    add_prompts(chapter, 1)
    second, other = ask(latest(chapter)), ask(latest(chapter), "weather")
    assert claim(second.pk) is None
    finish(other, wind="north")
    running = claim(first.pk)
    assert running is not None
    assert claim(second.pk) is None
    fail(running, "It went wrong.")
    assert claim(second.pk) is None
    ask_for_result(running.attempt or latest(chapter), "simulate", "tide")
    finish(first, level=1)
    finish(second, level=2)
    assert [one.payload for one in waiting_results(Attempt(session=chapter))] == [
        {"level": 1},
        {"level": 2},
        {"wind": "north"},
    ]


class TestVoid:
    """Play goes on after a result that can never be taken, and such a result is not tried again."""

    @pytest.fixture(autouse=True)
    def _fold(
        self, chapter: Session, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> Iterator[None]:
        """Install a mode whose world is the level of the sea."""
        install(monkeypatch, settings, tidal=tidal(SEA))
        yield
        monkeypatch.undo()
        install(monkeypatch, settings)

    @pytest.mark.parametrize(
        ("result_kind", "payload", "reason"),
        [
            # The fold cannot read a level from these two payloads.
            ("tide", {"level": "high"}, "cannot take it into its world (ValueError)"),
            ("tide", {}, "cannot take it into its world (KeyError)"),
            # The payload refers to a place that is gone.
            ("tide", {"level": 3, "at": "the quay"}, "cannot take it into its world (LookupError)"),
            # Somebody else in the story already has this name.
            ("person", {"name": "Agent Red"}, "needs a name that nobody else has"),
        ],
    )
    def test_what_the_world_cannot_take_is_void_and_play_goes_on(
        self, chapter: Session, result_kind: str, payload: dict[str, object], reason: str
    ) -> None:
        asker = latest(chapter)
        job, good = ask(asker, result_kind), ask_for_result(asker, "measure", "tide")
        finish(job, **payload)
        finish(good, level=7)
        assert play(chapter).status == Attempt.Status.COMMITTED
        assert status_of(job) == Job.Status.VOID
        assert reason in job.error
        assert taken(chapter) == [("tide", {"level": 7}, "result")]
        # The void result is neither tried again nor asked for again.
        assert play(chapter).status == Attempt.Status.COMMITTED
        assert ask(asker, result_kind) == job
        assert (status_of(job), len(taken(chapter))) == (Job.Status.VOID, 1)
        assert list(void_results(chapter)) == [job]

    @pytest.mark.parametrize("other", ["re-roll", "trial"])
    def test_another_attempt_goes_on_without_it_and_the_next_prompt_takes_it(
        self,
        chapter: Session,
        provider: ScriptedProvider,
        monkeypatch: pytest.MonkeyPatch,
        settings: Settings,
        other: str,
    ) -> None:
        def at_sea(level: int, change: Change) -> int:
            if change.result and not level:
                raise ValueError("The harbour is dry.")
            return sea(level, change)

        settings.LLM = "scripted"
        install(monkeypatch, settings, tidal=tidal(replace(SEA, apply_change=at_sea)))
        job = ask(latest(chapter))
        first = play(chapter)
        add_changes(first, [NewChange("tide", {"level": 5})], run_id=first.run_id)
        finish(job, level=3)
        # The other attempt has the world without the change of the first one.
        if other == "trial":
            assert try_again(chapter).status == Attempt.Status.COMMITTED
        else:
            provider.enqueue(Script(error=ProviderTimeout("too slow")))
            assert reroll(chapter).status == Attempt.Status.FAILED
        assert status_of(job) == Job.Status.DONE
        play(chapter)
        assert taken(chapter)[-1] == ("tide", {"level": 3}, "result")

    @pytest.mark.parametrize(
        ("result_kind", "payload", "reason"),
        [
            ("tide", ["level", 3], "is no JSON object that can be stored"),
            ("tide", [], "is no JSON object that can be stored"),
            ("tide", {"level": {1, 2}}, "a value has no form in JSON"),
            ("tide", {"level": 10**5_000}, "is no JSON object that can be stored"),
            ("tide", {"level": float("nan")}, "a number is not finite"),
            ("tide", {"level": "a\0b"}, "characters that are not text"),
            ("tide", {"level": 3, "told": "a" * 20_000}, "it has more than 20,000 characters"),
            ("quake", {"level": 3}, "has no such change of its world"),
            ("person", {"name": ""}, "needs a name"),
            ("person", {"name": "Ann", "slot": 3}, "the program gives the number"),
        ],
        ids=["list", "empty", "set", "digits", "nan", "nul", "long", "kind", "nameless", "slot"],
    )
    def test_what_can_be_stored_as_no_change_is_void_as_the_job_ends(
        self, chapter: Session, result_kind: str, payload: Any, reason: str
    ) -> None:
        claimed = claim(ask(latest(chapter), result_kind).pk)
        assert claimed is not None
        assert finish_with_result(claimed, payload)
        assert status_of(claimed) == Job.Status.VOID
        assert reason in claimed.error
        assert claimed.result is None
        assert not finish_with_result(claimed, {"level": 3})

    def test_unusable_answers_void_it_after_as_many_runs_as_a_job_may_have(
        self, chapter: Session
    ) -> None:
        job = ask(latest(chapter))
        for runs in range(1, MAX_ATTEMPTS + 1):
            claimed = claim(job.pk)
            assert claimed is not None
            assert claimed.attempts == runs
            assert fail(claimed, "It lacks a level.", cause=InvalidReply("It lacks a level."))
            play(chapter)
        assert (status_of(job), job.error) == (Job.Status.VOID, "It lacks a level.")

    def test_one_that_ends_every_worker_is_void_in_the_end(self, chapter: Session) -> None:
        job = ask(latest(chapter))
        for _ in range(MAX_ATTEMPTS):
            claimed = claim(job.pk)
            assert claimed is not None
            expire(claimed)
            recover()
        assert status_of(job) == Job.Status.VOID
        play(chapter)
        assert status_of(job) == Job.Status.VOID

    @pytest.mark.parametrize("error", [ProviderRefused("A bad key."), WrongState("No consent.")])
    def test_where_no_model_answers_it_is_asked_for_as_often_as_it_takes(
        self, chapter: Session, error: Exception
    ) -> None:
        job = ask(latest(chapter))
        for _ in range(MAX_ATTEMPTS + 1):
            claimed = claim(job.pk)
            assert claimed is not None
            assert fail(claimed, str(error), cause=error)
            assert status_of(job) == Job.Status.FAILED
            play(chapter)
        finish(job, level=3)
        play(chapter)
        assert taken(chapter) == [("tide", {"level": 3}, "result")]
