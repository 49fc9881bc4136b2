"""A worker does the most urgent work first, and always has a thread for what a person waits for."""

import uuid
from collections.abc import Iterable, Iterator
from datetime import timedelta

import pytest

from agents.flows.beginning.locking import request_lock
from agents.flows.telling.ending import request_end
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running import worker_places
from agents.running.jobs import claim, queue_job
from agents.running.worker_places import (
    AT_WORK,
    Worker,
    claim_next,
    claim_place,
    leave_place,
    next_due,
)
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

PERSON, MEMORY, LONG = Job.Queue.PERSON, Job.Queue.MEMORY, Job.Queue.LONG
ALL = (PERSON, MEMORY, LONG)


def queue(chapter: Session, count: int, which: str, *, due_for: float = 60) -> None:
    """Queue jobs of a class, the oldest first."""
    jobs = [
        Job(session=chapter, kind="gone.tide", key=f"{which} {number}", queue=which)
        for number in range(count)
    ]
    for number, job in enumerate(jobs):
        job.run_after -= timedelta(seconds=due_for + count - number)
    Job.objects.bulk_create(jobs)


def keys(found: Iterable[object]) -> list[str]:
    by_id = Job.objects.in_bulk()
    return [by_id[one].key for one in found]


@pytest.fixture(autouse=True)
def _leave_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_places, "_own", worker_places._own)
    yield
    AT_WORK.clear()


@pytest.mark.django_db
class TestNext:
    def test_a_lock_is_the_next_job_of_two_workers_behind_3000_summaries(self) -> None:
        queue(make_active_chapter(), 3000, MEMORY)
        # Each worker writes as many summaries as it may. Its last thread is free.
        for worker in range(2):
            worker_places.become_worker(Worker(threads=4))
            AT_WORK.clear()
            while due := next_due(most=1):
                assert claim_place(due[0])
            assert list(AT_WORK.values()) == [MEMORY] * 3
            assert Job.objects.filter(status=Job.Status.RUNNING).count() == 3 * (worker + 1)
        lock = request_lock(make_chapter().pk)
        assert next_due() == [lock.pk]
        # A worker that ends a summary takes the lock too, although 2,994 summaries are older.
        leave_place(next(iter(AT_WORK)))
        assert next_due(most=1) == [lock.pk]
        # The notice of a summary takes no place from the lock.
        assert claim_place(lock.pk)
        assert keys(next_due()) == ["memory 6"]

    def test_what_persons_wait_for_is_first_and_then_the_oldest(self) -> None:
        chapter = make_active_chapter()
        queue(make_active_chapter(), 2, MEMORY, due_for=90)
        queue(chapter, 3, LONG, due_for=60)
        queue(chapter, 3, MEMORY, due_for=30)
        queue(chapter, 3, PERSON, due_for=5)
        worker_places.become_worker(Worker(threads=16))
        numbers = [0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2]
        classes = [PERSON] * 3 + [MEMORY] * 2 + [LONG] * 3 + [MEMORY] * 3
        expected = [f"{which} {number}" for which, number in zip(classes, numbers, strict=True)]
        for most in (4, 7, 20):
            assert keys(next_due(most=most)) == expected[:most]
        # A narration is not kept waiting by summaries that are younger.
        worker_places.become_worker(Worker(threads=4, queues=(LONG, MEMORY)))
        assert keys(next_due()) == expected[3:7]

    def test_a_job_that_another_worker_has_taken_is_passed_over(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue(make_active_chapter(), 2, MEMORY)

        def take_before(job_id: uuid.UUID, **_options: object) -> Job | None:
            there = claim(job_id)
            assert there is not None
            return there if there.key == "memory 1" else None

        monkeypatch.setattr(worker_places, "claim", take_before)
        job = claim_next()
        assert job is not None
        assert job.key == "memory 1"


class TestRoom:
    @pytest.mark.parametrize(
        ("threads", "memory", "long"), [(1, 1, 1), (2, 1, 1), (4, 3, 2), (32, 31, 16)]
    )
    def test_each_class_has_a_share_of_the_threads(
        self, threads: int, memory: int, long: int
    ) -> None:
        worker = Worker(threads)
        assert [worker.room(which, []) for which in ALL] == [threads, memory, long]
        assert [worker.room(which, [PERSON] * threads) for which in ALL] == [0, 0, 0]

    def test_long_writing_and_memory_leave_a_thread_together(self) -> None:
        worker = Worker(4)
        assert [worker.room(which, [LONG, LONG]) for which in ALL] == [2, 1, 0]
        assert [worker.room(which, [LONG, LONG, MEMORY]) for which in ALL] == [1, 0, 0]
        assert [worker.room(which, [PERSON, LONG, LONG]) for which in ALL] == [1, 1, 0]

    @pytest.mark.django_db
    def test_a_notice_that_finds_no_place_leaves_the_job_queued(self) -> None:
        chapter = make_active_chapter()
        worker_places.become_worker(Worker(threads=2))
        first, second = (queue_job(chapter.pk, Job.Kind.NARRATE, key) for key in ("1", "2"))
        assert claim_place(first.pk)
        assert claim_place(second.pk) is None
        lock = queue_job(chapter.pk, Job.Kind.LOCK, "lock")
        assert claim_place(lock.pk)
        leave_place(first.pk)
        assert claim_place(second.pk)


@pytest.mark.django_db
class TestClasses:
    def test_the_kind_decides_unless_a_person_waits(self) -> None:
        chapter = make_active_chapter()
        kinds = (Job.Kind.LOCK, Job.Kind.GO_ON, Job.Kind.SUMMARIZE, Job.Kind.NARRATE, "gone.tide")
        queues = [queue_job(chapter.pk, kind, "k").queue for kind in kinds]
        assert queues == [PERSON, PERSON, MEMORY, LONG, MEMORY]
        assert queue_job(chapter.pk, Job.Kind.NARRATE, "k", queue=PERSON).queue == PERSON

    def test_memory_is_urgent_once_the_chapter_ends(self, provider: ScriptedProvider) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 6)
        play(chapter)
        assert Job.objects.get().queue == MEMORY
        request_end(chapter.pk)
        assert Job.objects.get().queue == PERSON
