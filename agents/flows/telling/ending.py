"""Ends a chapter, retries memory that failed, and reopens an ended chapter."""

import uuid
from dataclasses import dataclass

from django.db import transaction

from agents.calling.records.behind_failures import what_the_check_said
from agents.flows.remembering.late_results import follow_up_latest_turn
from agents.flows.remembering.memory_calls import accept_memory_calls, check_calls_accepted
from agents.flows.remembering.summarizing import queue_due_summary, settle_memory
from agents.flows.replies.warmup import stop_warmup
from agents.models import Job
from agents.running.jobs import latest_jobs
from memory.blocks.stretches import is_asked_in_play
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.states import move
from sessions.exceptions import TurnInFlight, WrongState
from sessions.models import (
    PLAYABLE,
    Session,
    State,
)


@dataclass(frozen=True)
class Setback:
    """A memory block that could not be written, with its job."""

    job: Job
    # True if this memory was asked for by the end of the chapter.
    is_of_end: bool

    @property
    def check_said(self) -> str:
        return what_the_check_said(self.job)


def find_setback(chapter: Session, jobs: dict[str, Job]) -> Setback | None:
    """Return the memory block that could not be written, or None if the user has to know of none.

    `jobs` come from `latest_jobs`.
    """
    job = jobs.get(Job.Kind.SUMMARIZE)
    if job is None or job.status == Job.Status.DONE or not job.error:
        return None
    # If the user has sent further prompts since then, the wish to end the chapter is forgotten, and
    # memory that was not due in play is not missing, because a later summary covers its prompts.
    if chapter.is_playable and job.end_asked_at_prompt == chapter.prompt_index:
        return Setback(job, is_of_end=True)
    if is_asked_in_play(chapter, job.stretch, job.attempt_id):
        return Setback(job, is_of_end=False)
    return None


def request_end(session_id: uuid.UUID, *, accept_calls: bool = False) -> Session:
    """End the chapter as soon as memory covers every prompt.

    The chapter ends only after the summaries that are still missing. Raises WrongState if there are
    no prompts or the chapter is not in play, TurnInFlight while a reply is being written, and
    CallsNotAccepted if memory is far behind and the GM has not accepted the calls that memory
    needs.
    """
    if not accept_calls:
        check_calls_accepted(get_chapter(session_id), is_ending=True)
    with transaction.atomic():
        chapter = get_chapter(session_id)
        ending = Session.objects.filter(
            pk=session_id, state__in=PLAYABLE, turn_in_flight=None, prompt_index__gt=0
        )
        if not ending.update(is_ending=True):
            raise _refusal(chapter)
        if accept_calls:
            accept_memory_calls(chapter, is_ending=True)
        follow_up_latest_turn(chapter)
        settle_memory(session_id)
    stop_warmup(session_id)
    return get_chapter(session_id)


def retry_summary(session_id: uuid.UUID, *, accept_calls: bool = False) -> Session:
    """Queue the next summary now. If the chapter was to end and its memory failed, end the chapter
    again.

    If `accept_calls` is True, the GM accepts the calls that memory needs to catch up. From then on,
    one more stretch is summarised after each prompt while memory is far behind. Raises WrongState
    if no memory is missing, and CallsNotAccepted as `request_end` does.
    """
    if not accept_calls:
        check_calls_accepted(get_chapter(session_id), is_ending=False)
    with transaction.atomic():
        lock_chapter(session_id)
        chapter = get_chapter(session_id)
        setback = find_setback(chapter, latest_jobs(chapter))
        is_of_end = setback is not None and setback.is_of_end
        if chapter.is_playable and not is_of_end:
            if accept_calls:
                accept_memory_calls(chapter, is_ending=False)
            if queue_due_summary(chapter, is_waited_for=True):
                return get_chapter(session_id)
    if not is_of_end:
        raise WrongState("There is no memory waiting to be written.")
    return request_end(session_id, accept_calls=accept_calls)


def reopen(session_id: uuid.UUID) -> Session:
    """Put an ended chapter back in play, with its drafts. Raises WrongState unless it has ended."""
    get_chapter(session_id)
    move(
        Session.objects.filter(pk=session_id, state=State.ENDED),
        State.ACTIVE,
        refusal="Only an ended chapter can be reopened.",
    )
    return get_chapter(session_id)


def _refusal(chapter: Session) -> WrongState:
    if chapter.state not in PLAYABLE:
        return WrongState(f"Only a chapter in play can be ended ({chapter.get_state_display()}).")
    if chapter.prompt_index == 0:
        return WrongState("There are no prompts yet, so there is nothing to end. Play first.")
    return TurnInFlight("A reply is being written. Wait for it or stop it, then end the chapter.")
