"""Lets agents 0 and 8 write memory on the embedded model, job by job, as a worker does.

This is a separate program (python -m bench.embedded_jobs SESSION_FILE COUNT), because it needs
Django's settings. It prints one JSON object for each job. While the model starts, it prints the
model's messages for people. Each lock is of a new chapter. All deltas are of one chapter, the first
one that gets a valid lock.
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


def main(file: Path, count: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    session = load_session(file)
    wait_for_model()
    played = None
    # The program makes a lock and a delta alternately. So a run that is stopped early has made some
    # locks and some deltas.
    for number in range(count):
        chapter = lock_chapter_of(session, number)
        played = played or chapter
        chunk = session.pairs[number * CHUNK : (number + 1) * CHUNK]
        if played is not None and len(chunk) == CHUNK:
            summarize_chunk(played.pk, chunk)
    if played is None:
        raise SystemExit("No lock was valid, so that no chapter could be played.")


def wait_for_model() -> None:
    from agents.llm.embedded.status import describe, is_ready, read_embedded_server

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
    from agents.flows.beginning.locking import request_lock
    from memory.models import MemoryBlock
    from sessions.chapter.access import get_chapter
    from sessions.chapter.chapters import SetupChange, create_chapter, save_setup

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
    from agents.flows.replies.finishing import commit_reply
    from agents.models import Job
    from agents.modes.registry import who_answers
    from memory.models import MemoryBlock
    from sessions.chapter.access import get_chapter
    from sessions.play.attempts import open_prompt

    for pair in pairs:
        opened = open_prompt(
            session_id,
            actor=pair.slot,
            words=pair.beat,
            submission_key="",
            answers=who_answers,
        )
        commit_reply(opened.attempt, pair.reply)
    chapter = get_chapter(session_id)
    first, last = chapter.prompt_index - CHUNK + 1, chapter.prompt_index
    job = Job.objects.get(session=chapter, kind=Job.Kind.SUMMARIZE, from_prompt_index=first)
    deltas = MemoryBlock.objects.filter(session=chapter, from_prompt_index=first)
    if not time_job("delta", job, deltas.exists):
        pass_over(chapter, first, last)


def time_job(kind: str, job: "Job", is_written: Callable[[], bool]) -> bool:
    """Do the job once, and return whether it stored a memory block."""
    from agents.models import LLMArtifact
    from agents.running.work import work_on

    started = time.perf_counter()
    work_on(job.pk)
    seconds, is_valid = time.perf_counter() - started, is_written()
    calls = LLMArtifact.objects.filter(job_id=job.pk).count()
    result = {"kind": kind, "seconds": seconds, "calls": calls, "is_valid": is_valid}
    print(json.dumps(result), flush=True)
    return is_valid


def pass_over(chapter: "Session", first: int, last: int) -> None:
    """Store an empty delta where agent 8 wrote an invalid one, so that the next stretch can be
    summarised."""
    from agents.models import Job
    from agents.running.jobs import cancel_jobs
    from memory.blocks.blocks import make_delta, write_deltas

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
    main(Path(sys.argv[1]), int(sys.argv[2]))
