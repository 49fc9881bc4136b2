"""Lets agents 0 and 8 write memory on the embedded model, job by job, as a worker does.

This is a separate program (python -m bench.embedded_jobs SESSION_FILE COUNT NUMBER LOCKS), because
it needs Django's settings. It prints one JSON object for each job. While the model starts, it
prints the model's messages for people. Each lock is of a new chapter. All deltas are of one
chapter, the first one that gets a valid lock. The program makes the locks and deltas with the
numbers from NUMBER to COUNT - 1. LOCKS is the number of locks that earlier runs on this database
have made.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import django

from testing.long_memory import CHUNK
from testing.session_data import Pair, RecordedSession, load_session, small_setup_of

if TYPE_CHECKING:
    from agents.models import Job
    from sessions.models import Session

# The longest wait for the model, in seconds. In the first run, this time includes fetching the
# model's weights.
READY_SECONDS = 1_800.0


def main(file: Path, count: int, start: int, locks: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    session = load_session(file)
    wait_for_model()
    played = first_locked()
    # The program makes a lock and a delta alternately. So a run that is stopped early has made some
    # locks and some deltas.
    for number in range(start, count):
        if number >= locks:
            chapter = lock_chapter_of(session, number)
            played = played or chapter
        chunk = session.pairs[number * CHUNK : (number + 1) * CHUNK]
        if played is not None and len(chunk) == CHUNK:
            summarize_chunk(played.pk, chunk)
    if played is None:
        raise SystemExit("No lock was valid, so that no chapter could be played.")


def first_locked() -> "Session | None":
    """Return the chapter that earlier runs played, or None. If a job of this chapter still counts
    as running, queue the job again, because its process was stopped."""
    from django.utils import timezone

    from agents.models import Job
    from memory.models import MemoryBlock
    from sessions.models import Session

    lock = MemoryBlock.objects.order_by("created_at").first()
    if lock is None:
        return None
    stopped = Job.objects.filter(session=lock.session_id, status=Job.Status.RUNNING)
    stopped.update(status=Job.Status.QUEUED, lease_token=None, attempts=0, run_after=timezone.now())
    return Session.objects.get(pk=lock.session_id)


def wait_for_model() -> None:
    from agents.embedded.status import describe, is_ready, read_embedded_server

    deadline = time.monotonic() + READY_SECONDS
    told = ""
    while not is_ready(server := read_embedded_server()):
        if time.monotonic() > deadline:
            raise SystemExit("The embedded model did not become ready.")
        if server is not None and describe(server) != told:
            told = describe(server)
            print(told, flush=True)
        time.sleep(1)


def lock_chapter_of(session: RecordedSession, number: int) -> "Session | None":
    """Create the chapter with this number and lock it. Return None if the model's lock is not
    valid."""
    from agents.flows.locking import request_lock
    from memory.models import MemoryBlock
    from sessions.access import get_chapter
    from sessions.chapters import SetupChange, create_chapter, save_setup

    chapter = create_chapter(f"World {number + 1}")
    setup = small_setup_of(session, number)
    change = SetupChange(
        world_text=setup.world_text,
        chapter_text=setup.chapter_text,
        selected_agent_slots=[int(slot) for slot in setup.names],
        agent_names=setup.names,
    )
    save_setup(chapter.pk, change)
    locks = MemoryBlock.objects.filter(session=chapter)
    is_valid = time_job("lock", request_lock(chapter.pk), locks.exists)
    return get_chapter(chapter.pk) if is_valid else None


def summarize_chunk(session_id: uuid.UUID, pairs: Sequence[Pair]) -> None:
    """Store the beats and their replies without a model, and let agent 8 summarise them."""
    from agents.flows.summarizing import queue_due_summary
    from agents.models import Job
    from memory.models import MemoryBlock
    from sessions.access import get_chapter

    chapter = get_chapter(session_id)
    # If an earlier run was stopped during the summary of these beats, the chapter has the beats
    # already.
    if chapter.prompt_index == chapter.last_summarized_prompt_index:
        add_pairs(chapter, pairs)
        queue_due_summary(chapter)
    first, last = chapter.prompt_index - CHUNK + 1, chapter.prompt_index
    job = Job.objects.get(session=chapter, key=f"{first}-{last}")
    deltas = MemoryBlock.objects.filter(session=chapter, from_prompt_index=first)
    if not time_job("delta", job, deltas.exists):
        pass_over(chapter, first, last)


def add_pairs(chapter: "Session", pairs: Sequence[Pair]) -> None:
    from sessions.models import Event

    for number, pair in enumerate(pairs, chapter.prompt_index + 1):
        told = Event(
            session=chapter, prompt_index=number, role=Event.Role.USER, text=pair.beat.strip()
        )
        told.save(force_insert=True)
        answered = Event(
            session=chapter,
            prompt_index=number,
            role=Event.Role.AGENT,
            agent_slot=pair.slot,
            text=pair.reply.strip(),
        )
        answered.save(force_insert=True)
    chapter.prompt_index += len(pairs)
    chapter.save()


def time_job(kind: str, job: "Job", is_written: Callable[[], bool]) -> bool:
    """Do the job once, and return whether it stored a memory block."""
    from agents.models import LLMArtifact
    from agents.running.work import work_on

    started = time.perf_counter()
    work_on(job.pk)
    seconds = time.perf_counter() - started
    is_valid = is_written()
    result = {
        "kind": kind,
        "seconds": seconds,
        "calls": LLMArtifact.objects.filter(job_id=job.pk).count(),
        "is_valid": is_valid,
    }
    print(json.dumps(result), flush=True)
    return is_valid


def pass_over(chapter: "Session", first: int, last: int) -> None:
    """Store an empty delta where agent 8 wrote an invalid one, so that the next stretch can be
    summarised."""
    from agents.models import Job
    from agents.running.jobs import cancel_jobs
    from memory.blocks import make_delta, write_deltas

    cancel_jobs(chapter.pk, Job.Kind.SUMMARIZE)
    attempt = chapter.turns.get(number=last).chosen
    empty = make_delta(
        attempt,
        from_prompt_index=first,
        audience=chapter.selected_agent_slots,
        payload={"memory_type": "turn_delta"},
    )
    write_deltas([empty])


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
