"""Tests of the caps on calls in a minute, for each chapter and for all chapters together, and of
what calls reserve of the caps on spending. All caps count the calls of all processes."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as settings_of_django
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from agents.calling.admission import Admission, Reservation, admit, end_reservation
from agents.calling.calls import check_allowed
from agents.exceptions import (
    BudgetReserved,
    BudgetSpent,
    RateLimited,
)
from agents.flows.beginning.locking import request_lock
from agents.flows.replies.tests.trying import try_again
from agents.flows.replies.turns import start_prompt
from agents.flows.telling.ending import request_end
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play, play_many, replies_are_over
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall
from agents.tests.declared import CHARACTERS
from agents.tests.recorded_calls import add_call
from agents.tests.replies import turn_delta
from agents.worker.sweeping import sweep
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter, make_chapter
from sessions.tests.racing import at_once, refusals, successes

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
LONG = 60


@pytest.fixture(autouse=True)
def _scripted(settings: Settings, provider: ScriptedProvider) -> None:
    settings.LLM = "scripted"


def count_call(session_id: uuid.UUID) -> None:
    admit(session_id, Reservation("openai", "nobody-knows", 100, 50))


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def add_calls(chapter: Session, count: int, *, ago: timedelta = timedelta(0)) -> None:
    """Store the rows of calls that another process, such as a worker, was allowed to make."""
    at = timezone.now() - ago
    rows = [AdmittedCall(session_id=chapter.pk, admitted_at=at) for _ in range(count)]
    AdmittedCall.objects.bulk_create(rows)


def send_to_all(chapters: Sequence[Session], provider: ScriptedProvider) -> list[str]:
    """Send a prompt to each chapter, and return the statuses of the attempts.

    No reply ends before all prompts are sent.
    """

    async def run() -> None:
        gate = asyncio.Event()
        provider.enqueue(*(Script("Yes.", gate=gate) for _ in chapters))
        for chapter in chapters:
            await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="")
        gate.set()
        await replies_are_over()

    async_to_sync(run)()
    return list(Attempt.objects.order_by("submitted_at").values_list("status", flat=True))


class TestCaps:
    def test_calls_that_are_in_flight_count(
        self, provider: ScriptedProvider, settings: Settings
    ) -> None:
        settings.CALLS_PER_MINUTE = 3
        states = send_to_all([make_active_chapter() for _ in range(5)], provider)
        assert states == [Attempt.Status.COMMITTED] * 3 + [Attempt.Status.FAILED] * 2
        assert len(provider.history) == 3
        assert AdmittedCall.objects.count() == 3

    def test_a_chapter_that_is_gone_forgives_nothing(
        self, provider: ScriptedProvider, settings: Settings
    ) -> None:
        settings.CALLS_PER_MINUTE = 2
        for _ in range(2):
            gone = make_active_chapter()
            assert play(gone).status == Attempt.Status.COMMITTED
            gone.delete()
        assert play(make_active_chapter()).status == Attempt.Status.FAILED
        assert len(provider.history) == 2

    def test_calls_of_other_processes_count(self, chapter: Session, settings: Settings) -> None:
        settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 20
        play(chapter)
        add_calls(chapter, 18)
        assert play(chapter).status == Attempt.Status.COMMITTED
        refused = play(chapter)
        assert refused.status == Attempt.Status.FAILED
        assert "More than 20 model calls were made" in refused.error

    def test_a_chapter_is_asked_for_its_own_calls(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.CHAPTER_CALLS_PER_MINUTE = 5
        add_calls(make_active_chapter(), 50)
        count_call(chapter.pk)
        add_calls(chapter, 4)
        with pytest.raises(RateLimited, match="More than 5 model calls of this chapter"):
            count_call(chapter.pk)

    def test_what_is_over_counts_no_more(self, chapter: Session, settings: Settings) -> None:
        settings.CALLS_PER_MINUTE = 1
        add_calls(chapter, 5, ago=timedelta(seconds=61))
        # The times of these calls are in the future, as if the clock had been set back after the
        # calls.
        add_calls(chapter, 5, ago=timedelta(hours=-1))
        count_call(chapter.pk)
        with pytest.raises(RateLimited):
            count_call(chapter.pk)

    def test_asking_for_work_and_being_refused_count_nothing(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.CALLS_PER_MINUTE = 1

        def may_call(session_id: uuid.UUID) -> None:
            check_allowed(session_id, CHARACTERS[1])

        for _ in range(3):
            may_call(chapter.pk)
        count_call(chapter.pk)
        for ask in (may_call, count_call, may_call):
            with pytest.raises(RateLimited):
                ask(chapter.pk)
        assert AdmittedCall.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_several_at_once_reach_the_cap_and_never_pass_it(settings: Settings) -> None:
    settings.CALLS_PER_MINUTE = 5
    chapters = [make_active_chapter() for _ in range(12)]
    results = at_once(*(partial(count_call, one.pk) for one in chapters))
    assert len(successes(results)) == AdmittedCall.objects.count() == 5
    assert all(isinstance(one, RateLimited) for one in refusals(results))


# Asks for 20 calls by each of four threads, and prints how many were allowed.
_ASK = """
import sys, uuid
from concurrent.futures import ThreadPoolExecutor
import django
django.setup()
from django.db import connection
from agents.calling.admission import Reservation, admit
from agents.exceptions import RateLimited
from agents.models import AdmittedCall
if connection.vendor == "sqlite" and sys.argv[1] == "create":
    with connection.schema_editor() as editor:
        editor.create_model(AdmittedCall)
def ask(_):
    done = 0
    for _ in range(20):
        try:
            admit(uuid.UUID(int=1), Reservation("openai", "nobody-knows", 1, 1))
            done += 1
        except RateLimited:
            pass
    connection.close()
    return done
print("ready", flush=True)
sys.stdin.readline()
with ThreadPoolExecutor(4) as threads:
    print(sum(threads.map(ask, range(4))), flush=True)
"""


def _start_process(url: str, mode: str) -> "subprocess.Popen[str]":
    own = {"DATABASE_URL": url, "STORYENGINE_CALLS_PER_MINUTE": "20"}
    one = subprocess.Popen(  # noqa: S603  (the command is written above)
        [sys.executable, "-c", _ASK, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=settings_of_django.BASE_DIR,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "storyengine.settings", **own},
    )
    assert one.stdout is not None
    assert one.stdout.readline() == "ready\n"
    return one


@pytest.mark.django_db(transaction=True)
def test_two_processes_reach_the_cap_and_never_pass_it(tmp_path: Path) -> None:
    if connection.vendor == "sqlite":
        url = f"sqlite:///{tmp_path}/calls.sqlite3"
    else:
        before = urlsplit(os.environ["DATABASE_URL"])
        url = urlunsplit(before._replace(path=f"/{connection.settings_dict['NAME']}"))
    asking = [_start_process(url, mode) for mode in ("create", "use")]
    for one in asking:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    assert sum(int(one.communicate(timeout=LONG)[0]) for one in asking) == 20


class TestReservation:
    @pytest.fixture(autouse=True)
    def _cap(self, settings: Settings) -> None:
        settings.CHAPTER_TOKENS = 1_000

    def admit(self, chapter: Session, read: int, written: int = 0) -> Admission:
        return admit(chapter.pk, Reservation("openai", "nobody-knows", read, written))

    def test_a_call_that_is_being_made_counts_with_what_it_may_use(self, chapter: Session) -> None:
        first = self.admit(chapter, 600, 400)
        with pytest.raises(BudgetReserved, match="calls that are being made may use the rest"):
            self.admit(chapter, 1)
        # The refused call has neither been counted nor reserved anything.
        assert AdmittedCall.objects.get().pk == first.row
        self.admit(make_active_chapter(), 1)

    def test_its_record_takes_the_place_of_the_reservation(self, chapter: Session) -> None:
        first = self.admit(chapter, 600, 400)
        add_call(chapter, input=600, output=100)
        end_reservation(first)
        self.admit(chapter, 300)
        add_call(chapter, input=300)
        with pytest.raises(BudgetSpent):
            self.admit(chapter, 1)

    def test_dollars_are_reserved_by_the_price_of_the_model(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.CHAPTER_TOKENS, settings.CHAPTER_BUDGET = 0, Decimal(1)
        settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
        admit(chapter.pk, Reservation("openai", "embedded:smollm2-135m", 10**9, 10**9))
        admit(chapter.pk, Reservation("openai", "o4-mini", 1_000_000, 0))
        with pytest.raises(BudgetReserved, match=r"\$0\.00 of the \$1\.00"):
            admit(chapter.pk, Reservation("openai", "o4-mini", 1, 0))

    def test_what_a_dead_process_has_reserved_is_free_after_a_while(self, chapter: Session) -> None:
        self.admit(chapter, 1_000)
        AdmittedCall.objects.update(reserved_until=timezone.now() - timedelta(seconds=1))
        self.admit(chapter, 1_000)

    def test_the_sweep_keeps_what_is_reserved(self, chapter: Session) -> None:
        self.admit(chapter, 1_000)
        AdmittedCall.objects.update(admitted_at=timezone.now() - timedelta(minutes=6))
        sweep()
        with pytest.raises(BudgetReserved):
            self.admit(chapter, 1)

    def test_a_reply_ends_its_reservation(self, chapter: Session, settings: Settings) -> None:
        settings.CHAPTER_TOKENS = 10**9
        play(chapter)
        assert AdmittedCall.objects.get().reserved_written > 0
        assert AdmittedCall.objects.get().reserved_until is None


@pytest.mark.django_db(transaction=True)
def test_of_several_calls_at_once_one_passes_a_cap_on_spending(settings: Settings) -> None:
    settings.CHAPTER_TOKENS = 1_000
    chapter = make_active_chapter()
    results = at_once(
        *(partial(admit, chapter.pk, Reservation("openai", "m", 400, 0)) for _ in range(12))
    )
    # The third of these calls may pass the cap, and none after it.
    assert len(successes(results)) == AdmittedCall.objects.count() == 3
    assert all(isinstance(one, BudgetReserved) for one in refusals(results))


class TestWhatCounts:
    def test_each_call_that_is_sent_counts_once(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        chapter = make_chapter()
        request_lock(chapter.pk)
        run_jobs()
        chapter.refresh_from_db()
        play_many(chapter, 7)
        # The first answer for this summary is not JSON, so that the summary needs a second call.
        provider.enqueue("No JSON.", json.dumps(turn_delta(1, 7)))
        run_jobs()
        trial = try_again(chapter)
        assert trial.status == Attempt.Status.COMMITTED
        assert AdmittedCall.objects.count() == len(provider.history) == 11
        play(chapter)
        request_end(chapter.pk)
        run_jobs()
        request_build(chapter.pk)
        run_jobs()
        assert len(provider.history) > 12
        assert AdmittedCall.objects.count() == len(provider.history)
        assert set(AdmittedCall.objects.values_list("session_id", flat=True)) == {chapter.pk}


def test_the_sweep_forgets_what_no_cap_asks_for(chapter: Session) -> None:
    add_calls(chapter, 2)
    add_calls(chapter, 3, ago=timedelta(minutes=6))
    sweep()
    assert AdmittedCall.objects.count() == 2
