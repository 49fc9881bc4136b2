"""Reads the API's documents from rows. A longer chapter does not take more queries."""

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Q
from django.http import HttpResponse
from django.urls import reverse
from ninja.responses import Status

from agents.calling.consent import granted_hosts, is_allowed, provider_host
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import has_stage
from agents.running.jobs import latest_jobs
from agents.running.recovery import recover
from agents.running.results import MOST_VOID, void_results
from memory.before.changes_before import can_renew, changes_before
from memory.blocks.blocks import counting_blocks
from memory.blocks.stretches import calls_to_accept
from memory.prose.drafts import drafts_of
from sessions.chapter.access import get_chapter, read_at_one_moment
from sessions.chapter.people import followed
from sessions.exceptions import UnknownChapter
from sessions.limits import PROMPT_CHAR_LIMIT, TAB1_CHAR_LIMIT, TAB2_CHAR_LIMIT
from sessions.models import THOUGHT, Attempt, Change, Event, Session
from sessions.play.breaking import pending_attempt
from sessions.play.committing import find_turn
from sessions.record.chosen_events import chosen_events
from storyengine.api.documents import (
    ActAnswer,
    AttemptDocument,
    ChapterBeforeDocument,
    ConsentDocument,
    JobDocument,
    SessionDocument,
    SessionFields,
    SessionList,
    TurnAnswer,
    TurnDocument,
    pending_document,
    tab1_texts,
)


def read_session(session_id: UUID, *, with_thoughts: bool = False) -> SessionDocument:
    """Return the document of a chapter, as the chapter is at one moment."""
    recover(session_id)
    return read_at_one_moment(session_id, partial(_document, with_thoughts=with_thoughts))


async def read_whole_session(session_id: UUID) -> SessionDocument:
    """Return the document of a chapter. The rows are read in the thread of this request, because a
    long chapter would block the threads that all requests share."""
    return await sync_to_async(read_session)(session_id)


def _document(chapter: Session, *, with_thoughts: bool) -> SessionDocument:
    pending = pending_attempt(chapter)
    return SessionDocument(
        **dict(SessionFields.model_validate(chapter)),
        language=chapter.told_language,
        before=_before(chapter),
        calls_to_accept=calls_to_accept(chapter, is_ending=False)
        if has_stage(chapter.mode, Stage.MEMORY)
        else 0,
        config={
            "chunk_size_prompts": chapter.chunk_size_prompts,
            "tab1_char_limit": TAB1_CHAR_LIMIT,
            "tab2_char_limit": TAB2_CHAR_LIMIT,
            "prompt_char_limit": PROMPT_CHAR_LIMIT,
        },
        tab1=tab1_texts(chapter),
        events=list(chosen_events(chapter, with_thoughts=with_thoughts)),
        memory_blocks=list(counting_blocks(chapter)),
        narrative_drafts=list(drafts_of(chapter)),
        pending_turn=pending_document(pending) if pending else None,
        jobs=_jobs(chapter),
    )


def _before(chapter: Session) -> ChapterBeforeDocument | None:
    if chapter.followed_state is None:
        return None
    changes = changes_before(chapter)
    before = followed(chapter)
    return ChapterBeforeDocument(
        session_id=before.pk if before else None,
        changes=list(changes.sentences) if changes else [],
        can_renew=can_renew(chapter),
    )


def _jobs(chapter: Session) -> list[Job]:
    """Return the newest job of each kind, and the void late results."""
    jobs = [*latest_jobs(chapter).values(), *void_results(chapter)[:MOST_VOID]]
    return list({one.pk: one for one in jobs}.values())


def answer_created(chapter: Session, response: HttpResponse) -> Status[SessionDocument]:
    """Return the answer to a request that has created this chapter, with the chapter's address in
    the header Location."""
    response["Location"] = reverse("api:get_session", args=[chapter.pk])
    return Status(201, read_session(chapter.pk))


def read_sessions(*, limit: int, offset: int) -> SessionList:
    chapters = Session.objects.all()
    return SessionList(count=chapters.count(), items=list(chapters[offset : offset + limit]))


def read_answer(attempt: Attempt) -> TurnAnswer:
    """Return the document of a committed attempt. The document never changes.

    Raises UnknownChapter if the chapter was reset meanwhile.
    """
    return answer_of(attempt, list(attempt.events.order_by("position")))


def answer_of(attempt: Attempt, events: Sequence[Event]) -> TurnAnswer:
    """Return the document of a committed attempt with these events.

    Raises UnknownChapter if the chapter was reset meanwhile.
    """
    if attempt.turn is None or not events:
        raise UnknownChapter("The chapter was reset while this reply was being written.")
    return TurnAnswer(
        session_id=attempt.session_id,
        turn_id=attempt.pk,
        attempt_id=attempt.pk,
        kind=attempt.kind,
        prompt_index=attempt.turn.number,
        ended_before=attempt.ended_before,
        was_cut=attempt.was_cut,
        events=_told(events, with_thoughts=False),
    )


def read_act(session_id: UUID, changes: Sequence[Change]) -> ActAnswer:
    return ActAnswer(
        session_id=session_id,
        prompt_index=get_chapter(session_id).prompt_index,
        changes=changes,
    )


def read_turn(session_id: UUID, number: int, *, with_thoughts: bool = False) -> TurnDocument:
    """Return the document of a turn with all attempts at it, including trials and broken attempts.

    Raises UnknownTurn.
    """
    recover(session_id)
    turn = find_turn(get_chapter(session_id), number)
    attempts = turn.attempts.order_by("submitted_at").prefetch_related("events", "changes")
    return TurnDocument(
        number=turn.number,
        attempts=[
            AttemptDocument(
                attempt_id=one.pk,
                kind=one.kind,
                is_chosen=one.pk == turn.chosen_id,
                status=one.status,
                agent_slot=one.actor,
                came_with_starter=one.came_with_starter,
                ended_before=one.ended_before,
                was_cut=one.was_cut,
                words=one.words,
                given=one.given,
                events=_told(one.events.all(), with_thoughts=with_thoughts),
                changes=_changes_of(one),
                witnesses=one.witnesses,
            )
            for one in attempts
        ],
    )


def _told(events: Iterable[Event], *, with_thoughts: bool) -> list[Event]:
    return [event for event in events if with_thoughts or event.kind != THOUGHT]


def _changes_of(attempt: Attempt) -> list[Change]:
    """Return the changes of the attempt's latest run, followed by the changes of the acts after the
    attempt."""
    own = [one for one in attempt.changes.all() if one.run_id in (attempt.run_id, None)]
    return sorted(own, key=lambda one: (one.is_act, one.position))


def read_job(job_id: UUID) -> JobDocument:
    """Return the document of a job. Raises UnknownChapter if the job was deleted together with its
    chapter."""
    try:
        return JobDocument.model_validate(Job.objects.get(pk=job_id))
    except Job.DoesNotExist:
        raise UnknownChapter("The chapter was reset or deleted meanwhile.") from None


def read_latest_job(session_id: UUID, kind: Job.Kind) -> JobDocument | None:
    job = latest_jobs(get_chapter(session_id)).get(kind)
    return JobDocument.model_validate(job) if job else None


def is_job_over(job_id: UUID) -> bool:
    """Return whether the job has ended or was deleted. The query must be quick, because it runs ten
    times a second while a client waits."""
    live = (Job.Status.QUEUED, Job.Status.RUNNING)
    return not Job.objects.filter(pk=job_id, status__in=live).exists()


def is_ending_over(session_id: UUID) -> bool:
    return not Session.objects.filter(pk=session_id, is_ending=True).exists()


def are_summaries_over(session_id: UUID) -> bool:
    """Return whether no summary is running or waiting. A summary that is queued again after a
    failure does not count as waiting."""
    running = Q(status=Job.Status.RUNNING) | Q(status=Job.Status.QUEUED, error="")
    jobs = Job.objects.filter(session_id=session_id, kind=Job.Kind.SUMMARIZE)
    return not jobs.filter(running).exists()


def read_consent() -> ConsentDocument:
    host = provider_host()
    return ConsentDocument(
        provider_host=host,
        provider_allowed=is_allowed(host),
        hosts=list(granted_hosts()),
    )
