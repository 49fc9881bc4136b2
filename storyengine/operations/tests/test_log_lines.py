"""Tests of the lines that the program logs. No line contains words of a story or a secret."""

import asyncio
import errno
import json
import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError
from django.test import Client
from pytest_django import Settings

from agents.calling.consent import ConsentMissing
from agents.exceptions import BudgetSpent, ModelNotReady
from agents.flows.beginning.locking import request_lock
from agents.flows.replies.turns import start_prompt, stop_reply
from agents.flows.tests.playing import play, reply_is_over
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnreachable,
    UnusableReply,
)
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.running.jobs import queue_job
from agents.running.recovery import recover
from agents.running.work import work_on
from sessions.log_lines import working_for
from sessions.models import Attempt, Tab1Inputs
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.access.log_format import JsonFormatter, LogFile
from storyengine.operations.tests.reading import Written

# The program logs lines about a transaction after the commit, so these tests commit real
# transactions.
pytestmark = pytest.mark.django_db(transaction=True)

RunJobs = Callable[[], int]
WORDS = "marked-words-of-a-story"
KEY = "sk-marked-key-of-a-server"
FAILURES: list[Exception] = [
    *(
        kind(f"{WORDS} {KEY}")
        for kind in (
            ProviderBusy,
            ProviderRefused,
            ProviderTimeout,
            ProviderUnreachable,
            UnusableReply,
        )
    ),
    ModelNotReady(WORDS, is_coming=False),
    ConsentMissing(f"{WORDS}.example"),
    BudgetSpent(WORDS),
    KeyError(WORDS),
    ValueError(f"{KEY} {WORDS}"),
    IntegrityError(f"DETAIL:  Failing row contains ({WORDS})."),
]


def named(error: Exception) -> str:
    return type(error).__name__


def ended_as(error: Exception) -> str:
    """Return the name of the failure that is stored with the attempt or the job after this
    error."""
    return "ProgramFailed" if isinstance(error, KeyError | ValueError) else named(error)


@pytest.fixture(autouse=True)
def _marked_key(settings: Settings) -> None:
    settings.OPENAI_API_KEY = KEY


def check(written: Written) -> None:
    """Check that each line in the JSON format is a JSON object, and that no line has the story's
    words or the API key."""
    assert written.as_json
    assert WORDS not in written.all
    assert KEY not in written.all
    for line in written.as_json:
        assert "\n" not in line
        assert {"time", "level", "logger", "event"} <= json.loads(line).keys()


class TestTurns:
    def test_a_reply_is_told_from_its_prompt_to_its_end(
        self, provider: ScriptedProvider, written: Written
    ) -> None:
        chapter = make_active_chapter()
        provider.enqueue(f"{WORDS} she says")
        with working_for(request_id="request-1"):
            attempt = play(chapter, f"He says {WORDS}.")
        ids = {
            "request_id": "request-1",
            "session_id": str(chapter.pk),
            "attempt_id": str(attempt.pk),
        }
        for name in ("attempt stored", "model call", "attempt committed"):
            line = written.event(name)
            assert ids.items() <= line.items()
        called = written.event("model call")
        assert (called["agent"], called["outcome"], called["is_reply"]) == (1, "finished", True)
        assert called["output"] == 3
        assert {"ms", "first_token_ms", "input", "cached", "model"} <= called.keys()
        committed = written.event("attempt committed")
        assert (committed["prompt"], committed["attempt_kind"]) == (1, "prompt")
        check(written)

    @pytest.mark.parametrize("error", FAILURES, ids=named)
    def test_one_that_failed_is_told_by_its_kind(
        self, provider: ScriptedProvider, written: Written, error: Exception
    ) -> None:
        chapter = make_active_chapter()
        provider.enqueue(Script(WORDS, error=error))
        attempt = play(chapter, WORDS)
        if isinstance(error, IntegrityError):
            # The database refuses to store the end of the attempt. The attempt ends only when its
            # lease has run out.
            assert attempt.status == Attempt.Status.RUNNING
            Attempt.objects.update(lease_until="2020-01-01T00:00Z")
            recover()
            assert written.event("sweep found")["attempts"] == 1
            kind = "Interrupted"
        else:
            kind = ended_as(error)
        assert written.event("attempt failed")["kind"] == kind
        assert written.event("model call")["outcome"] == "failed"
        check(written)

    def test_one_that_was_stopped(self, provider: ScriptedProvider, written: Written) -> None:
        chapter = make_active_chapter()
        gate = asyncio.Event()
        provider.enqueue(Script(f"{WORDS} and so on", gate=gate, gate_at=1))

        async def run() -> None:
            opened = await start_prompt(chapter.pk, actor=1, words=WORDS, submission_key="k")
            while not provider.history:
                await asyncio.sleep(0)
            await stop_reply(chapter.pk)
            await reply_is_over(opened.attempt.pk)

        async_to_sync(run)()
        assert written.event("attempt stopped")["session_id"] == str(chapter.pk)
        assert written.event("model call")["outcome"] == "stopped"
        check(written)


class TestJobs:
    def test_a_worker_tells_whose_request_it_works_for(
        self, provider: ScriptedProvider, written: Written, run_jobs: RunJobs
    ) -> None:
        chapter = make_chapter()
        Tab1Inputs.objects.filter(session=chapter).update(world_text=WORDS)
        with working_for(request_id="request-2"):
            job = request_lock(chapter.pk)
        run_jobs()
        ids = {
            "request_id": "request-2",
            "session_id": str(chapter.pk),
            "job_id": str(job.pk),
        }
        for name in ("job claimed", "model call", "job done"):
            assert ids.items() <= written.event(name).items()
        assert written.event("job done")["kind"] == "lock"
        assert written.event("model call")["is_reply"] is False
        check(written)

    @pytest.mark.parametrize("error", FAILURES, ids=named)
    @pytest.mark.parametrize("kind", [Job.Kind.LOCK, Job.Kind.SUMMARIZE])
    def test_one_that_failed_is_told_by_its_kind(
        self,
        provider: ScriptedProvider,
        written: Written,
        kind: Job.Kind,
        error: Exception,
    ) -> None:
        job = lock() if kind == Job.Kind.LOCK else summarize(provider)
        provider.enqueue(Script(WORDS, error=error), Script(WORDS, error=error))
        work_on(job.pk)
        calls = [line for line in written.events("model call") if line.get("job_id")]
        assert {line["outcome"] for line in calls} == {"failed"}
        ends = [*written.events("job failed"), *written.events("job postponed")]
        assert bool(ends) != isinstance(error, IntegrityError)
        for line in ends:
            assert line["failure"] == ended_as(error)
        check(written)

    def test_what_a_dead_worker_left_is_told_by_the_sweep(self, written: Written) -> None:
        chapter = make_active_chapter()
        queue_job(chapter.pk, Job.Kind.NARRATE, "k")
        Job.objects.update(status=Job.Status.RUNNING, lease_until="2020-01-01T00:00Z")
        recover()
        assert written.event("sweep found")["jobs"] == 1
        recover()
        assert len(written.events("sweep found")) == 1


def lock() -> Job:
    chapter = make_chapter()
    Tab1Inputs.objects.filter(session=chapter).update(world_text=WORDS)
    return request_lock(chapter.pk)


def summarize(provider: ScriptedProvider) -> Job:
    chapter = make_active_chapter()
    add_prompts(chapter, 6)
    provider.enqueue("A reply.")
    play(chapter, WORDS)
    return Job.objects.get()


def test_a_wrong_password_is_told_and_not_repeated(
    client: Client, settings: Settings, written: Written
) -> None:
    settings.PASSWORD = "correct horse battery"
    client.post("/login", {"password": WORDS})
    line = written.event("login failed")
    assert (line["level"], line["address"], line["tried"]) == ("WARNING", "127.0.0.1", True)
    check(written)


class TestForm:
    def record(self, message: str, *arguments: object, **fields: object) -> logging.LogRecord:
        record = logging.LogRecord("x", logging.INFO, "x", 1, message, arguments, None)
        record.fields = fields
        return record

    def test_a_line_is_one_whatever_it_is_told(self) -> None:
        line = JsonFormatter().format(self.record("two\nlines", a='"\n{', b=3))
        assert "\n" not in line
        assert json.loads(line)["event"] == "two\nlines"
        assert (json.loads(line)["a"], json.loads(line)["b"]) == ('"\n{', 3)

    def test_a_field_cannot_pass_for_what_the_line_says_of_itself(self) -> None:
        line = JsonFormatter().format(self.record("what", level="none", logger="nobody"))
        assert (json.loads(line)["level"], json.loads(line)["logger"]) == ("INFO", "x")

    def test_a_secret_that_json_writes_otherwise_is_one_as_well(self, settings: Settings) -> None:
        settings.OPENAI_API_KEY = 'with"quotes\\and ü'
        secret = settings.OPENAI_API_KEY
        line = JsonFormatter().format(self.record("x %s", secret, name=secret))
        assert json.loads(line)["event"] == "x [secret]"
        assert json.loads(line)["name"] == "[secret]"


@pytest.mark.parametrize(("kind", "complains"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_full_disk_fills_no_console_with_tracebacks(
    kind: int,
    complains: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(kind, "no")

    with closing(LogFile(tmp_path / "web.log", maxBytes=1_000)) as file:
        with monkeypatch.context() as broken:
            broken.setattr(file, "shouldRollover", fail)
            file.handle(logging.makeLogRecord({"msg": "lost"}))
        file.handle(logging.makeLogRecord({"msg": "kept"}))
    assert ("Traceback" in capsys.readouterr().err) is complains
    assert (tmp_path / "web.log").read_text() == "kept\n"
