"""Lets agents 0 and 8 write memory on the embedded model, job by job, as a worker does. Django has
to be set up before."""

import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agents.flows.beginning.locking import request_lock
from agents.flows.replies.finishing import commit_reply
from agents.models import Job, LLMArtifact
from agents.modes.registry import who_answers
from agents.running.jobs import cancel_jobs
from agents.running.work import work_on
from memory.blocks.blocks import make_delta, write_deltas
from memory.models import MemoryBlock
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from sessions.models import Session
from sessions.play.attempts import open_prompt
from testing.long_memory import CHUNK
from testing.session_data import Pair, RecordedSession, load_session, small_setup_of


def write_memory(file: str, count: int) -> Iterator[dict[str, Any]]:
    """Write so many locks and deltas, and yield a result for each. Each lock is of a new chapter.
    All deltas are of the first chapter that gets a valid lock."""
    session = load_session(Path(file))
    played: uuid.UUID | None = None
    # Locks and deltas alternate. So a run that is stopped early has some of both.
    for number in range(count):
        chapter_id = open_chapter(session, number)
        lock = do_job("lock", request_lock(chapter_id))
        yield lock
        played = played or (chapter_id if lock["is_valid"] else None)
        chunk = session.pairs[number * CHUNK : (number + 1) * CHUNK]
        if played is not None and len(chunk) == CHUNK:
            yield summarize_chunk(played, chunk)
    if played is None:
        raise SystemExit("No lock was valid, so that no chapter could be played.")


def open_chapter(session: RecordedSession, number: int) -> uuid.UUID:
    """Create the chapter with this number."""
    chapter = create_chapter(f"World {number + 1}")
    setup = small_setup_of(session, number)
    change = SetupChange(
        world_text=setup.world_text,
        chapter_text=setup.chapter_text,
        selected_agent_slots=[int(slot) for slot in setup.names],
        texts={"name": setup.names},
    )
    save_setup(chapter.pk, change)
    return chapter.pk


def summarize_chunk(session_id: uuid.UUID, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Store the beats and their replies without a model, and let agent 8 summarise them."""
    for pair in pairs:
        opened = open_prompt(
            session_id, actor=pair.slot, words=pair.beat, submission_key="", answers=who_answers
        )
        commit_reply(opened.attempt, pair.reply)
    chapter = get_chapter(session_id)
    first, last = chapter.prompt_index - CHUNK + 1, chapter.prompt_index
    job = Job.objects.get(session=chapter, kind=Job.Kind.SUMMARIZE, from_prompt_index=first)
    result = do_job("delta", job)
    if not result["is_valid"]:
        pass_over(chapter, first, last)
    return result


def do_job(kind: str, job: Job) -> dict[str, Any]:
    """Do the job once, and return whether it stored a memory block."""
    blocks = MemoryBlock.objects.filter(session_id=job.session_id)
    before, started = blocks.count(), time.perf_counter()
    work_on(job.pk)
    seconds = time.perf_counter() - started
    calls = LLMArtifact.objects.filter(job_id=job.pk).count()
    is_valid = blocks.count() > before
    return {"kind": kind, "seconds": seconds, "calls": calls, "is_valid": is_valid}


def pass_over(chapter: Session, first: int, last: int) -> None:
    """Store an empty delta where agent 8 wrote an invalid one, so that the next stretch can be
    summarised."""
    cancel_jobs(chapter.pk, Job.Kind.SUMMARIZE)
    empty = make_delta(
        chapter.turns.get(number=last).chosen,
        from_prompt_index=first,
        audience=chapter.selected_agent_slots,
        payload={"memory_type": "turn_delta"},
    )
    write_deltas([empty])
