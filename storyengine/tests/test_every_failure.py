"""Tests that let each write, each message and each model call of a chapter fail in turn.

A chapter is played from its lock to its draft while the N-th of these moments fails, for N = 1, 2,
3 and so on. The sweep ends with the first chapter that is finished before its N-th moment. After
each failure, the work of dead processes is recovered, every invariant is checked, and the chapter
is finished.

Of the many writes and commits only every fifteenth fails, unless STORYENGINE_TEST_STRIDE gives
another number. The first one is random. It is the same with the same `--randomly-seed`, which
pytest prints.
"""

import builtins
import io
import os
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from celery import Celery
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

import storyengine.celery  # noqa: F401 - it puts the folder's transport in kombu's place
from agents.calling.model_access import substitute_provider
from agents.flows.ending import request_end
from agents.flows.locking import request_lock
from agents.flows.narrating import request_build
from agents.flows.replies import start_prompt
from agents.flows.tests.playing import reply_is_over
from agents.models import Job
from agents.providers.base import ModelRequest, StreamPart, TextDelta
from agents.providers.exceptions import ProviderBusy, ProviderRefused, StreamBroken
from agents.providers.scripted import ScriptedProvider
from agents.running.jobs import due_jobs
from agents.running.recovery import recover
from agents.running.work import work_on
from agents.tests.replies import answer_in_form
from bench.session_data import Setup
from chaos.invariants import find_violations
from chaos.journal import Journal, Reply, Words
from chaos.rows import read_rows
from sessions.access import get_chapter
from sessions.chapters import delete_chapter
from sessions.committing import reply_of
from sessions.exceptions import TurnInFlight
from sessions.models import Attempt, Session
from sessions.states import State
from sessions.tests.factories import make_chapter
from storyengine.stack.folder_broker import Transport

pytestmark = pytest.mark.django_db(transaction=True)

# Each memory block covers two prompts, so that a chapter has few moments. The second prompt makes a
# summary due, and the end of the chapter makes another one due for the third prompt.
CHUNK = 2
PROMPTS = 3
TARGET_WORDS = 200
# No chapter needs so many steps.
MOST_STEPS = 20
# A sweep with so many failures would never end.
MOST_FAILURES = 500
STRIDE = int(os.environ.get("STORYENGINE_TEST_STRIDE", "15"))


class Standstill(Exception):
    """The chapter waits for work that nobody does, or its work fails however often it is tried."""


@dataclass
class Failing:
    """A counter of moments that raises its error at the N-th one, or at each one from the N-th
    on."""

    at: int
    error: Exception
    lasts: bool = False
    count: int = 0
    is_off: bool = False

    @property
    def was_reached(self) -> bool:
        return self.count >= self.at

    def pass_by(self, *, counts: bool = True) -> None:
        if self.is_off:
            return
        self.count += counts
        if (counts and self.count == self.at) or (self.lasts and self.was_reached):
            raise self.error


@dataclass
class Play:
    """A chapter of a few prompts, which can be played on from any state."""

    chapter: Session
    journal: Journal = field(default_factory=Journal)

    def begin(self) -> None:
        tab1 = self.chapter.tab1
        self.journal.setups[str(self.chapter.pk)] = Setup(
            tab1.world_text, tab1.chapter_text, self.chapter.agent_texts("identity_text"), {}
        )

    def go_on(self) -> None:
        """Play until the chapter has a draft. Raise the error that a client's request would get."""
        for _ in range(MOST_STEPS):
            chapter = get_chapter(self.chapter.pk)
            if chapter.narrative_drafts.exists():
                return
            if chapter.is_ending or chapter.state in (State.LOCKING, State.NARRATING):
                break
            self._do_next(chapter)
            run_due_jobs()
        raise Standstill(chapter.state)

    def _do_next(self, chapter: Session) -> None:
        if chapter.state == State.DRAFT_TAB1:
            request_lock(chapter.pk)
        elif chapter.state == State.ENDED:
            request_build(chapter.pk)
        elif chapter.prompt_index < PROMPTS:
            self._prompt(chapter, chapter.prompt_index + 1)
        else:
            request_end(chapter.pk)

    def _prompt(self, chapter: Session, number: int) -> None:
        words = Words(chapter.next_agent_slot, f"Beat {number}.")
        key = (str(chapter.pk), f"key-{number}")
        # A prompt that was stored before is sent again with the same words.
        words = self.journal.kept.get(key, words)

        async def run() -> Attempt:
            opened = await start_prompt(
                chapter.pk,
                actor=words.agent_slot,
                words=words.text,
                submission_key=key[1],
            )
            self.journal.kept[key] = words
            await reply_is_over(opened.attempt.pk)
            return opened.attempt

        attempt = async_to_sync(run)()
        attempt.refresh_from_db()
        if attempt.status == Attempt.Status.COMMITTED:
            last = reply_of(attempt)
            self.journal.answered[key] = Reply(last.prompt_index, ((str(last.pk), last.text),))


class FailingProvider(ScriptedProvider):
    """A provider that can fail in the middle of its answer."""

    failing: Failing

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        try:
            self.failing.pass_by()
        except StreamBroken:
            yield TextDelta('{"memory_type": "turn_delta", "range": ')
            raise
        async for part in super().stream(request):
            yield part


def run_due_jobs() -> None:
    while job_id := due_jobs().values_list("pk", flat=True).first():
        work_on(job_id)


def let_time_pass() -> None:
    """End every lease and every pause before a retry."""
    past = timezone.now() - timedelta(seconds=1)
    Job.objects.filter(status=Job.Status.RUNNING).update(lease_until=past)
    Job.objects.filter(status=Job.Status.QUEUED).update(run_after=past)
    Attempt.objects.filter(status=Attempt.Status.RUNNING).update(lease_until=past)


def check(play: Play) -> None:
    assert find_violations(read_rows(), play.journal) == []


def sweep(
    make: Callable[[int], Failing],
    arm: Callable[[Failing], AbstractContextManager[None]],
    *expected: type[Exception],
    stride: int = 1,
) -> int:
    """Let each moment fail in turn, and return how many moments there are.

    A client's request may end with an error of `expected` while a moment fails.
    """
    first = random.randint(1, stride)  # noqa: S311 - no secret
    for at in range(first, MOST_FAILURES, stride):
        failing = make(at)
        play = Play(make_chapter(target_words=TARGET_WORDS, chunk_size_prompts=CHUNK))
        play.begin()
        with arm(failing), suppress(Standstill, TurnInFlight, *expected):
            play.go_on()
        failing.is_off = True
        try:
            check(play)
            let_time_pass()
            recover()
            run_due_jobs()
            check(play)
            assert not Job.objects.filter(status__in=("queued", "running")).exists()
            assert not Attempt.objects.filter(status="running").exists()
            play.go_on()
            check(play)
            assert len(play.journal.answered) == PROMPTS
            assert play.chapter.narrative_drafts.count() == 1
        except Exception as error:
            # Any error is raised again with the numbers that are needed to find the failed moment.
            error.add_note(f"after the failure of number {at}; the first one was number {first}")
            raise
        delete_chapter(play.chapter.pk)
        if not failing.was_reached:
            return failing.count
    raise AssertionError("The chapter never came to its end.")


@pytest.fixture(autouse=True)
def _small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.running.database.PAUSES", (0, 0, 0))
    monkeypatch.setattr("agents.running.work.GONE_TOGETHER_SECONDS", 0)


def is_write(sql: str) -> bool:
    return sql.lstrip("( \n").split(" ", 1)[0] in ("INSERT", "UPDATE", "DELETE", "WITH")


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from-then-on"])
def test_every_write_of_the_database(provider: ScriptedProvider, lasts: bool) -> None:
    @contextmanager
    def arm(failing: Failing) -> Iterator[None]:
        def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            failing.pass_by(counts=is_write(sql))
            return run(sql, params, many, context)

        with connection.execute_wrapper(execute):
            yield

    def make(at: int) -> Failing:
        return Failing(at, OperationalError("disk I/O error"), lasts=lasts)

    assert sweep(make, arm, DatabaseError, stride=STRIDE) > 10 * PROMPTS


def test_every_commit_of_the_database(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def arm(failing: Failing) -> Iterator[None]:
        # The commit itself fails, as on a failing disk, so every function of Django that commits
        # fails too.
        backend: Any = connection
        with monkeypatch.context() as patch:
            commit = backend._commit

            def fail_or_commit() -> None:
                failing.pass_by()
                commit()

            patch.setattr(backend, "_commit", fail_or_commit)
            yield

    def make(at: int) -> Failing:
        return Failing(at, OperationalError("disk I/O error"))

    assert sweep(make, arm, DatabaseError, stride=STRIDE) > 2 * PROMPTS


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from-then-on"])
def test_every_send_to_the_broker(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    @contextmanager
    def arm(failing: Failing) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(
                "agents.running.jobs.current_app.send_task", lambda *_, **__: failing.pass_by()
            )
            yield

    def make(at: int) -> Failing:
        return Failing(at, BrokerError("connection refused"), lasts=lasts)

    assert sweep(make, arm) >= 3


class Writing:
    """A kind of write that fails in a folder, either before it or after it has left an empty file.

    A chapter writes in this way at least `times` times.
    """

    def __init__(self, *owners: Any, name: str, leaves_empty: bool = False, times: int = 3) -> None:
        self.owners, self.name, self.leaves_empty, self.times = owners, name, leaves_empty, times

    @contextmanager
    def failing_in(self, folder: Path, failing: Failing) -> Iterator[None]:
        write = getattr(self.owners[0], self.name)

        def fail_or_write(file: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_write(file, folder, *args, **kwargs):
                return write(file, *args, **kwargs)
            opened = write(file, *args, **kwargs) if self.leaves_empty else None
            try:
                failing.pass_by()
            except OSError:
                if opened is not None:
                    opened.close()
                raise
            return opened or write(file, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            for owner in self.owners:
                patch.setattr(owner, self.name, fail_or_write)
            yield

    def _is_write(self, file: Any, folder: Path, mode: Any = "r", *_: Any, **__: Any) -> bool:
        if isinstance(file, int) or folder not in Path(file).parents:
            return False
        return self.name != "open" or not set("wax+").isdisjoint(mode)


# pathlib opens files through `io`, so `open` is patched there too. A chapter opens six files: four
# messages, the table of the queues and the lock of this table.
WRITES = {
    "text": Writing(Path, name="write_text"),
    "name": Writing(os, name="replace"),
    "opening": Writing(io, builtins, name="open", times=6),
    "opened": Writing(io, builtins, name="open", leaves_empty=True, times=6),
}


@pytest.mark.skipif(
    not settings.CELERY_BROKER_URL.startswith("filesystem://"),
    reason="with a broker of its own, play writes no files",
)
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("writing", WRITES.values(), ids=WRITES)
def test_every_write_of_a_file(
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    writing: Writing,
    lasts: bool,
) -> None:
    """Play writes no other files than those of the queue in a folder."""

    @contextmanager
    def arm(failing: Failing) -> Iterator[None]:
        # Each chapter has a folder of its own, because a queue is entered in the table of its
        # exchange only once.
        folder = tmp_path / str(failing.at)
        monkeypatch.setattr(
            "agents.running.jobs.current_app.send_task", broker_in(folder).send_task
        )
        with writing.failing_in(folder, failing):
            yield

    def make(at: int) -> Failing:
        return Failing(at, OSError(28, "No space left on device"), lasts=lasts)

    assert sweep(make, arm) >= writing.times


def broker_in(folder: Path) -> Celery:
    """Return a broker for this folder, in the state of a process that has sent nothing yet."""
    Transport.global_state.clear()
    (folder / "control").mkdir(parents=True)
    broker = Celery("folder", broker="filesystem://localhost", set_as_current=False)
    broker.conf.broker_transport_options = {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
    }
    return broker


@pytest.mark.parametrize(
    ("error", "lasts"),
    [
        (ProviderBusy("Try again in a moment."), True),
        (ProviderRefused("That model is unknown."), False),
        (StreamBroken("The server broke off."), False),
        (ZeroDivisionError("a mistake of the program"), False),
    ],
    ids=["busy-from-then-on", "refused-once", "broken-off-once", "mistake-once"],
)
def test_every_call_of_a_model(error: Exception, lasts: bool) -> None:
    scripted = FailingProvider(fallback=answer_in_form)

    @contextmanager
    def arm(failing: Failing) -> Iterator[None]:
        scripted.failing = failing
        yield

    with substitute_provider(scripted):
        count = sweep(lambda at: Failing(at, error, lasts=lasts), arm)
    # The calls are the lock, the replies, two summaries and the narration.
    assert count == 1 + PROMPTS + 2 + 1
