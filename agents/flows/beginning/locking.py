"""Locks Tab 1. Agent 0 writes the first memory block from Tab 1, the program adds the memory of the
chapter before, and then play begins."""

import uuid
from typing import Any

from django.db import transaction

from agents.calling.calls import check_allowed
from agents.calling.model_access import model_of
from agents.calling.objects import call_for_json, format_pieces
from agents.flows.beginning.next_chapter import hand_on
from agents.flows.replies.finishing import commit_written
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import check_stage, compose_for, follow_setup, mode_of
from agents.prompting.agent import in_chapter
from agents.prompting.declarations import WORLD_SUMMARY
from agents.prompting.forms.schemas import WorldChapterLock, lock_schema_for, with_roster
from agents.prompting.layers import Layer
from agents.prompting.sandwich import Subject
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch, declare_job_kind
from agents.running.jobs import fail, finish, queue_job
from memory.blocks.blocks import write_lock
from sessions.chapter.access import get_chapter, get_chapter_with_cast, lock_chapter
from sessions.chapter.states import (
    move,
    try_move,
)
from sessions.exceptions import InvalidInput
from sessions.models import Session, State

NOTHING_TO_PLAY = (
    "The world and the chapter are both empty, so there is nothing to play yet. "
    "Write at least one of them on Tab 1, or fill in the example."
)
_LOCKED_ALREADY = "This chapter was started already; Tab 1 is locked."


@transaction.atomic
def lock_without_a_model(session_id: uuid.UUID) -> None:
    """Lock Tab 1, and store the cast and the first memory that the mode makes of its setup. If the
    mode has an opening, it is stored as the first turn.

    No model is called. Raises InvalidInput if there is nothing to play, and WrongState if Tab 1 is
    locked already.
    """
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    mode = mode_of(chapter)
    assert mode.setup.lock_of is not None, "The mode writes its lock itself."
    payload = mode.setup.lock_of(chapter) if chapter.state == State.DRAFT_TAB1 else {}
    if chapter.state == State.DRAFT_TAB1:
        follow_setup(chapter, mode)
    move(Session.objects.filter(pk=session_id), State.LOCKING, refusal=_LOCKED_ALREADY)
    write_lock(session_id, with_roster(payload, chapter.characters))
    hand_on(get_chapter(session_id))
    if opening := mode.setup.opening_of(chapter):
        commit_written(session_id, opening, words="", actor=None)


@transaction.atomic
def request_lock(session_id: uuid.UUID) -> Job:
    """Lock Tab 1, and queue the job of agent 0, which writes the first memory block.

    Raises InvalidInput if the world and the chapter are both empty, WrongState if the mode has no
    stage lock or Tab 1 is locked already, and the errors of `check_allowed`.
    """
    chapter = get_chapter(session_id)
    check_stage(chapter, Stage.LOCK)
    is_empty = not (chapter.tab1.world_text.strip() or chapter.tab1.chapter_text.strip())
    if chapter.state == State.DRAFT_TAB1 and is_empty:
        raise InvalidInput(NOTHING_TO_PLAY)
    check_allowed(session_id, in_chapter(WORLD_SUMMARY, chapter))
    move(
        Session.objects.filter(pk=session_id),
        State.LOCKING,
        refusal=_LOCKED_ALREADY,
    )
    return queue_job(session_id, Job.Kind.LOCK, "lock")


async def write_world_memory(job: Job, watch: Watch) -> None:
    """Call agent 0 to summarise Tab 1, and store the first memory block."""
    chapter = await in_database(get_chapter_with_cast, job.session_id)
    agent = in_chapter(WORLD_SUMMARY, chapter)
    payload = await call_for_json(
        agent,
        job.session_id,
        lambda: _compose(chapter),
        WorldChapterLock,
        json_schema=lock_schema_for(tight=model_of(agent).is_small),
        watch=watch,
        job_id=job.pk,
    )
    await in_database(_store, job, with_roster(payload, chapter.characters))


def give_up(job: Job, error: Exception) -> None:
    """Make Tab 1 editable again. The error is shown beside Tab 1."""
    with transaction.atomic():
        lock_chapter(job.session_id)
        text = f"{error} Tab 1 can be edited again, and everything you wrote is there."
        if fail(job, text, cause=error):
            try_move(Session.objects.filter(pk=job.session_id), State.DRAFT_TAB1)


@transaction.atomic
def _store(job: Job, payload: dict[str, Any]) -> None:
    lock_chapter(job.session_id)
    if not finish(job):
        return
    if write_lock(job.session_id, payload) is None:
        transaction.set_rollback(True)
        return
    hand_on(get_chapter(job.session_id))


def _compose(chapter: Session) -> list[Layer]:
    agent = in_chapter(WORLD_SUMMARY, chapter)
    pieces = {"FORMAT": format_pieces(agent, WorldChapterLock)}
    return compose_for(agent, Subject(chapter, own_pieces=pieces), model_of(agent).tier)


declare_job_kind(
    Job.Kind.LOCK, JobKind(run=write_world_memory, give_up=give_up, queue=Job.Queue.PERSON)
)
