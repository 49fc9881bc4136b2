"""Tests in which each write, each message and each model call of a chapter fails once.

A chapter is played from its lock to its draft while its first write fails, another chapter while
its second write fails, and so on. The last chapter has fewer writes than the number of the write
that should fail. Messages and model calls fail in the same way. After each failure, the work of
dead processes is recovered, every invariant is checked, and the chapter is played to its end.

There are many writes and commits, so only every fifteenth of them fails. STORYENGINE_TEST_STRIDE
gives another number. The first write that fails is chosen at random. A run with the same
`--randomly-seed`, which pytest prints, chooses the same one.
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

import storyengine.operations.celery  # noqa: F401 - it puts the folder's transport in kombu's place
from agents.calling.model_access import substitute_provider
from agents.flows.beginning.locking import request_lock
from agents.flows.replies.turns import start_prompt
from agents.flows.telling.ending import request_end
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import reply_is_over
from agents.llm.providers.base import ModelRequest, StreamPart, TextDelta
from agents.llm.providers.failures.call_errors import ProviderBusy, ProviderRefused, StreamBroken
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.jobs import due_jobs
from agents.running.recovery import recover
from agents.running.work import work_on
from agents.tests.replies import answer_in_form
from chaos.invariants import find_violations
from chaos.journal import Journal, Reply, Words
from chaos.rows import read_rows
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import delete_chapter
from sessions.exceptions import TurnInFlight
from sessions.models import Attempt, Session, State
from sessions.play.committing import reply_of
from sessions.tests.factories import make_chapter
from storyengine.stack.folder_broker import Transport
from testing.session_data import Setup

pytestmark = pytest.mark.django_db(transaction=True)

# Each delta covers two prompts, so that the chapter is short. A summary is due after the second
# prompt, and another one at the end of the chapter for the third prompt.
CHUNK = 2
PROMPTS = 3
TARGET_WORDS = 200
# A chapter needs fewer steps than this.
MOST_STEPS = 20
# Each of the tests below has fewer failures than this.
MOST_FAILURES = 500
STRIDE = int(os.environ.get("STORYENGINE_TEST_STRIDE", "15"))


class Standstill(Exception):
    """An error for a chapter that waits for work which nobody does, or whose work fails each
    time."""


@dataclass
class Failing:
    """A counter of writes, messages or calls. The one with the number `at` fails, and with `lasts`
    all later ones fail too."""

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
    """A chapter of a few prompts. It can be played on from any state."""

    chapter: Session
    journal: Journal = field(default_factory=Journal)

    def begin(self) -> None:
        tab1 = self.chapter.tab1
        self.journal.setups[str(self.chapter.pk)] = Setup(
            tab1.world_text, tab1.chapter_text, self.chapter.agent_texts("identity_text"), {}
        )

    def go_on(self) -> None:
        """Play until the chapter has a draft. Raise the error that a client's request would
        meet."""
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
        # If the prompt was stored before the failure, its words are sent again.
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
    """Let all leases run out, and all pauses before a retry end."""
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
    """Play one chapter for each failure, and return the number of possible failures.

    While a failure lasts, a client's request may end with one of the `expected` errors.
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
            # The note names the numbers by which this failure can be found again.
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
        # `_commit` is patched, because every function of Django that commits calls it. With a
        # failing disk, `_commit` would fail too.
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
                "agents.running.notices.current_app.send_task", lambda *_, **__: failing.pass_by()
            )
            yield

    def make(at: int) -> Failing:
        return Failing(at, BrokerError("connection refused"), lasts=lasts)

    assert sweep(make, arm) >= 3


class Writing:
    """A way to write files that fails in one folder. With `leaves_empty`, it fails only after it
    has made an empty file.

    Playing a chapter writes at least `times` times in this way.
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


# `open` is replaced in two modules, because pathlib opens files through `io`. A chapter opens six
# files: four messages, the table of the queues, and the lock of this table.
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
    """Playing a chapter writes only the files of the queue in a folder."""

    @contextmanager
    def arm(failing: Failing) -> Iterator[None]:
        # Each chapter has a new folder. In an old folder, the table of queues would be complete
        # already and not be written.
        folder = tmp_path / str(failing.at)
        monkeypatch.setattr(
            "agents.running.notices.current_app.send_task", broker_in(folder).send_task
        )
        with writing.failing_in(folder, failing):
            yield

    def make(at: int) -> Failing:
        return Failing(at, OSError(28, "No space left on device"), lasts=lasts)

    assert sweep(make, arm) >= writing.times


def broker_in(folder: Path) -> Celery:
    """Return a broker for this folder, as a new process has it."""
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
    # The calls write the lock, the replies, two deltas and the narrative.
    assert count == 1 + PROMPTS + 2 + 1
