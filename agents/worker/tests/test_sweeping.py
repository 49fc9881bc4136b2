"""A worker begins the jobs whose notices were lost, but not more jobs at once than it has
threads."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from agents.calling.tests.bookkeeping import expire
from agents.models import Job, ProcessHeartbeat, SweepLease
from agents.running import worker_places
from agents.running.heartbeats import store_heartbeat
from agents.running.jobs import claim, queue_job
from agents.running.work import STOPPING
from agents.running.worker_places import AT_WORK, Worker, next_due
from agents.worker import sweeping
from agents.worker.sweeping import UNHEARD_AFTER, SweepThread, sweep
from sessions.leases import ran_out
from sessions.tests.factories import make_active_chapter
from storyengine.operations.celery import Sweep, app

LONG = 30.0


def queue(*, due_for: timedelta) -> uuid.UUID:
    job = queue_job(make_active_chapter().pk, Job.Kind.LOCK, "k")
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now() - due_for)
    return job.pk


@pytest.mark.django_db
class TestUnheard:
    def test_the_oldest_are_first_and_no_more_than_there_are_hands(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = [queue(due_for=UNHEARD_AFTER * count) for count in (2, 4, 3)]
        assert next_due(after=UNHEARD_AFTER) == [made[1], made[2], made[0]]
        for count in range(2):
            monkeypatch.setitem(AT_WORK, uuid.UUID(int=count), Job.Queue.PERSON)
        for threads, found in ((3, [made[1]]), (2, []), (1, [])):
            monkeypatch.setattr(worker_places, "_own", Worker(threads))
            assert next_due(after=UNHEARD_AFTER) == found


@pytest.mark.django_db(transaction=True)
class TestThread:
    @pytest.fixture
    def looks(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
        """Let the worker look for jobs without a pause. Yield a semaphore, which is released each
        time that the worker has looked for jobs."""
        done = threading.Semaphore(0)
        monkeypatch.setattr(sweeping, "SWEEP_SECONDS", 0.01)

        def look(_worker: str) -> bool:
            done.release()
            return True

        monkeypatch.setattr(sweeping, "sweep", look)
        yield done
        STOPPING.clear()

    def test_a_worker_has_one_from_its_start_to_its_end(
        self, looks: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert Sweep in app.steps["worker"]
        monkeypatch.setattr(worker_places, "_own", worker_places._own)
        worker = SimpleNamespace(app=app, concurrency=3, hostname="celery@here")
        step = Sweep(worker)
        step.start(worker)
        assert step.thread.daemon
        assert worker_places._own == Worker(3, ("person", "memory", "long"))
        assert looks.acquire(timeout=LONG)
        assert looks.acquire(timeout=LONG)
        step.stop(worker)
        step.thread.join(timeout=LONG)
        assert not step.thread.is_alive()

    def test_it_takes_up_what_nobody_heard_and_waits_for_it_at_its_end(
        self, looks: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_id = queue(due_for=2 * UNHEARD_AFTER)
        taken: list[uuid.UUID] = []
        has_begun = threading.Event()

        def work(taken_id: uuid.UUID) -> None:
            # The real function claims the job at this point. Until then the worker may find the
            # same job twice.
            queued = Job.objects.filter(pk=taken_id, status=Job.Status.QUEUED)
            if queued.update(status=Job.Status.RUNNING):
                has_begun.set()
                assert STOPPING.wait(LONG)
                taken.append(taken_id)

        monkeypatch.setattr(sweeping, "work_on", work)
        thread = SweepThread("celery@here")
        thread.start()
        assert has_begun.wait(LONG)
        assert taken == []
        STOPPING.set()
        thread.let_go()
        assert taken == [job_id]
        thread.join(LONG)

    def test_what_no_notice_can_be_given_of_is_taken_up_in_the_same_look(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = claim(queue(due_for=timedelta(0)))
        assert job is not None
        expire(job)
        taken: list[uuid.UUID] = []
        has_begun = threading.Event()

        def refuse(*_args: object, **_kwargs: object) -> None:
            raise BrokerError("no broker")

        def work(taken_id: uuid.UUID) -> None:
            taken.append(taken_id)
            has_begun.set()

        monkeypatch.setattr("agents.running.notices.current_app.send_task", refuse)
        monkeypatch.setattr(sweeping, "work_on", work)
        # The pause is so long that the worker looks for jobs only once.
        monkeypatch.setattr(sweeping, "SWEEP_SECONDS", 2 * LONG)
        thread = SweepThread("celery@here")
        thread.start()
        assert has_begun.wait(LONG)
        thread.let_go()
        thread.join(LONG)
        assert taken == [job.pk]

    @pytest.mark.parametrize("part", ["next_due", "sweep"])
    @pytest.mark.parametrize("kind", [OperationalError, AttributeError])
    def test_no_error_ends_it(
        self,
        looks: threading.Semaphore,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        part: str,
        kind: type[Exception],
    ) -> None:
        own: Callable[..., object] = vars(sweeping)[part]
        failures = iter([kind("The lamp is dark.")])

        def fail_once(*arguments: object, **options: object) -> object:
            for error in failures:
                raise error
            return own(*arguments, **options)

        monkeypatch.setattr(sweeping, part, fail_once)
        thread = SweepThread("celery@here")
        thread.start()
        # The test waits until the worker has looked for jobs three times, because the worker begins
        # no job when it looks for the first time.
        for _ in range(3):
            assert looks.acquire(timeout=LONG)
        thread.let_go()
        thread.join(LONG)
        assert kind.__name__ in caplog.text
        assert "lamp" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_the_lease_of_the_sweep_goes_over_at_once_from_a_worker_that_ends() -> None:
    thread = SweepThread("celery@here")
    thread.is_over.set()
    thread.run()
    assert SweepLease.objects.filter(ran_out(), holder="celery@here").exists()


@pytest.mark.django_db
class TestNotices:
    """The broker holds at most as many notices as workers have threads."""

    @pytest.fixture(autouse=True)
    def _queue_many(self) -> None:
        chapter = make_active_chapter()
        for which, count in ((Job.Queue.PERSON, 2), (Job.Queue.MEMORY, 30), (Job.Queue.LONG, 30)):
            Job.objects.bulk_create(
                Job(session=chapter, kind="gone.tide", key=f"{which} {number}", queue=which)
                for number in range(count)
            )

    def test_a_sweep_gives_some_of_each_class(self, noticed: list[str]) -> None:
        assert sweep()
        keys = Job.objects.filter(pk__in=noticed).values_list("queue", flat=True)
        assert Counter(keys) == {"person": 2, "memory": 4, "long": 4}
        noticed.clear()
        store_heartbeat("celery@here", {})
        store_heartbeat("celery@there", {})
        store_heartbeat("web@here", {}, role=ProcessHeartbeat.Role.WEB)
        assert sweep()
        assert len(noticed) == 2 + 8 + 8

    def test_it_adds_none_while_the_broker_has_enough(
        self, noticed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for counts, expected in (
            ({"person": 4, "memory": 4, "long": 5}, 0),
            ({"person": 0, "memory": 3, "long": 9}, 3),
            ({}, 3),
        ):
            noticed.clear()
            monkeypatch.setattr("agents.running.recovery.count_notices", lambda: counts)  # noqa: B023
            assert sweep()
            assert len(noticed) == expected
