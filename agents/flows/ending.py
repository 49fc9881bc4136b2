"""End Chapter, what to do when its last memory failed, and opening an ended chapter again."""

import uuid
from dataclasses import dataclass

from django.db import transaction

from agents.flows.choosing import ask_for_lacking_results
from agents.flows.memory_calls import accept_memory_calls, check_calls_accepted
from agents.flows.summarizing import queue_due_summary, settle_memory
from agents.flows.warmup import stop_warmup
from agents.models import Job
from agents.running.jobs import latest_jobs
from memory.stretches import is_asked_in_play
from sessions.access import get_chapter, lock_chapter
from sessions.exceptions import TurnInFlight, WrongState
from sessions.models import Session
from sessions.states import PLAYABLE, State, move


@dataclass(frozen=True)
class Setback:
    """A piece of memory that could not be written, for as long as that matters."""

    job: Job
    # The chapter was to end with it; other pieces are behind while play goes on.
    is_of_end: bool


def find_setback(chapter: Session, jobs: dict[str, Job]) -> Setback | None:
    """`jobs` as `latest_jobs` returns them."""
    job = jobs.get(Job.Kind.SUMMARIZE)
    if job is None or job.status == Job.Status.DONE or not job.error:
        return None
    # Whatever nothing asks for in play, the end asked for.
    if is_asked_in_play(chapter, job.stretch, job.attempt_id):
        return Setback(job, is_of_end=False)
    # Whoever played on since wants no end: the failed piece is part of a later one.
    is_at_end = job.to_prompt_index == chapter.prompt_index
    return Setback(job, is_of_end=True) if chapter.is_playable and is_at_end else None


def request_end(session_id: uuid.UUID, *, accept_calls: bool = False) -> Session:
    """End the chapter as soon as memory covers every prompt.

    Waits for a summary that is being written and adds the last delta. Raises WrongState with no
    prompts, TurnInFlight while a reply is being written, and CallsNotAccepted where memory is far
    behind and neither these calls are accepted nor earlier ones were.
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
        ask_for_lacking_results(chapter)
        settle_memory(session_id)
    stop_warmup(session_id)
    return get_chapter(session_id)


def retry_summary(session_id: uuid.UUID, *, accept_calls: bool = False) -> Session:
    """Write the next piece of memory now; where that was the chapter's end, end it again.

    With `accept_calls` each further prompt has memory that is far behind catch up by a piece.
    Raises WrongState when nothing waits to be written, and CallsNotAccepted as `request_end` does.
    """
    if not accept_calls:
        check_calls_accepted(get_chapter(session_id), is_ending=False)
    with transaction.atomic():
        lock_chapter(session_id)
        chapter = get_chapter(session_id)
        if chapter.is_playable:
            if accept_calls:
                accept_memory_calls(chapter, is_ending=False)
            if queue_due_summary(chapter):
                return get_chapter(session_id)
    setback = find_setback(chapter, latest_jobs(chapter))
    if setback is None or not setback.is_of_end:
        raise WrongState("There is no memory waiting to be written.")
    return request_end(session_id, accept_calls=accept_calls)


def reopen(session_id: uuid.UUID) -> Session:
    """Play on in an ended chapter; its drafts stay."""
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
