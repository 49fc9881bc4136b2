"""Reading what the API answers with, in a number of queries that does not grow with the chapter."""

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Q

from agents.calling.consent import granted_hosts, is_allowed, provider_host
from agents.models import Job
from agents.modes import Stage, has_stage
from agents.running.jobs import latest_jobs
from agents.running.recovery import recover
from memory.blocks import counting_blocks
from memory.drafts import drafts_of
from memory.stretches import calls_to_accept
from sessions.access import get_chapter, read_at_one_moment
from sessions.attempts import pending_attempt
from sessions.committing import find_turn
from sessions.exceptions import UnknownChapter
from sessions.limits import PROMPT_CHAR_LIMIT, TAB1_CHAR_LIMIT, TAB2_CHAR_LIMIT
from sessions.models import THOUGHT, Attempt, Change, Event, Session
from sessions.record import chosen_events
from storyengine.api.documents import (
    ActAnswer,
    AttemptDocument,
    ChangeDocument,
    ConsentDocument,
    ConsentedHost,
    EventDocument,
    JobDocument,
    MemoryBlockDocument,
    NarrativeDraftDocument,
    SessionDocument,
    SessionList,
    SessionSummary,
    TurnAnswer,
    TurnDocument,
    pending_document,
    tab1_texts,
)


def read_session(session_id: UUID, *, with_thoughts: bool = False) -> SessionDocument:
    """The chapter as it was at one moment."""
    recover(session_id)
    return read_at_one_moment(session_id, partial(_document, with_thoughts=with_thoughts))


async def read_whole_session(session_id: UUID) -> SessionDocument:
    """The same in the request's own thread: a long one would keep those that all replies share."""
    return await sync_to_async(read_session)(session_id)


def _document(chapter: Session, *, with_thoughts: bool) -> SessionDocument:
    pending = pending_attempt(chapter)
    summary = SessionSummary.model_validate(chapter)
    return SessionDocument(
        **dict(summary),
        last_summarized_prompt_index=chapter.last_summarized_prompt_index,
        selected_agent_slots=chapter.selected_agent_slots,
        agent_names=chapter.agent_names,
        next_agent_slot=chapter.next_agent_slot,
        tab1_locked=chapter.tab1_locked,
        is_ending=chapter.is_ending,
        calls_to_accept=calls_to_accept(chapter, is_ending=False)
        if has_stage(chapter.mode, Stage.MEMORY)
        else 0,
        narrative_agent_definition_text=chapter.narrative_agent_definition_text,
        target_words=chapter.target_words,
        config={
            "chunk_size_prompts": chapter.chunk_size_prompts,
            "tab1_char_limit": TAB1_CHAR_LIMIT,
            "tab2_char_limit": TAB2_CHAR_LIMIT,
            "prompt_char_limit": PROMPT_CHAR_LIMIT,
        },
        tab1=tab1_texts(chapter),
        events=[
            EventDocument.model_validate(event)
            for event in chosen_events(chapter, with_thoughts=with_thoughts)
        ],
        memory_blocks=[
            MemoryBlockDocument.model_validate(block) for block in counting_blocks(chapter)
        ],
        narrative_drafts=[
            NarrativeDraftDocument.model_validate(draft) for draft in drafts_of(chapter)
        ],
        pending_turn=pending_document(pending) if pending else None,
        jobs=[JobDocument.model_validate(job) for job in latest_jobs(chapter).values()],
    )


def read_sessions(*, limit: int, offset: int) -> SessionList:
    chapters = Session.objects.all()
    return SessionList(
        count=chapters.count(),
        items=[
            SessionSummary.model_validate(chapter) for chapter in chapters[offset : offset + limit]
        ],
    )


def read_answer(attempt: Attempt) -> TurnAnswer:
    """The answer to a committed attempt, the same however often and however late it is asked for.

    Raises UnknownChapter where the chapter was reset meanwhile.
    """
    return answer_of(attempt, list(attempt.events.order_by("position")))


def answer_of(attempt: Attempt, events: Sequence[Event]) -> TurnAnswer:
    """The same from the attempt's events."""
    if attempt.turn is None or not events:
        raise UnknownChapter("The chapter was reset while this reply was being written.")
    return TurnAnswer(
        session_id=attempt.session_id,
        turn_id=attempt.pk,
        attempt_id=attempt.pk,
        kind=attempt.kind,
        prompt_index=attempt.turn.number,
        events=_event_documents(events, with_thoughts=False),
    )


def read_act(session_id: UUID, changes: Sequence[Change]) -> ActAnswer:
    return ActAnswer(
        session_id=session_id,
        prompt_index=get_chapter(session_id).prompt_index,
        changes=[_change_document(one) for one in changes],
    )


def read_turn(session_id: UUID, number: int, *, with_thoughts: bool = False) -> TurnDocument:
    """All attempts at the turn, trials and broken ones too; raises UnknownTurn."""
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
                words=one.words,
                events=_event_documents(one.events.all(), with_thoughts=with_thoughts),
                changes=_change_documents(one),
                witnesses=one.witnesses,
            )
            for one in attempts
        ],
    )


def _event_documents(events: Iterable[Event], *, with_thoughts: bool) -> list[EventDocument]:
    told = (event for event in events if with_thoughts or event.kind != THOUGHT)
    return [EventDocument.model_validate(event) for event in told]


def _change_documents(attempt: Attempt) -> list[ChangeDocument]:
    """Those of its latest run, and the acts after it."""
    own = [one for one in attempt.changes.all() if one.run_id in (attempt.run_id, None)]
    in_order = sorted(own, key=lambda one: (one.run_id is None, one.position))
    return [_change_document(one) for one in in_order]


def _change_document(change: Change) -> ChangeDocument:
    return ChangeDocument(
        is_act=change.run_id is None,
        kind=change.kind,
        payload=change.payload,
        cause=change.cause,
        step=change.step,
        created_at=change.created_at,
    )


def read_job(job_id: UUID) -> JobDocument:
    """Raises UnknownChapter when the job went with its chapter."""
    try:
        return JobDocument.model_validate(Job.objects.get(pk=job_id))
    except Job.DoesNotExist:
        raise UnknownChapter("The chapter was reset or deleted meanwhile.") from None


def read_latest_job(session_id: UUID, kind: Job.Kind) -> JobDocument | None:
    job = latest_jobs(get_chapter(session_id)).get(kind)
    return JobDocument.model_validate(job) if job else None


def is_job_over(job_id: UUID) -> bool:
    """Cheap enough to be asked ten times a second; a job that is gone is over."""
    live = (Job.Status.QUEUED, Job.Status.RUNNING)
    return not Job.objects.filter(pk=job_id, status__in=live).exists()


def is_ending_over(session_id: UUID) -> bool:
    return not Session.objects.filter(pk=session_id, is_ending=True).exists()


def are_summaries_over(session_id: UUID) -> bool:
    """Written, given up, or failed and waiting for another try."""
    running = Q(status=Job.Status.RUNNING) | Q(status=Job.Status.QUEUED, error="")
    jobs = Job.objects.filter(session_id=session_id, kind=Job.Kind.SUMMARIZE)
    return not jobs.filter(running).exists()


def read_consent() -> ConsentDocument:
    host = provider_host()
    return ConsentDocument(
        provider_host=host,
        provider_allowed=is_allowed(host),
        hosts=[ConsentedHost.model_validate(consent) for consent in granted_hosts()],
    )
