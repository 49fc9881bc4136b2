"""Summarises stretches. During play agent 8 writes the memory of one stretch after another.

Agent 8 is called once for each set of witnesses. This set is the audience of the delta, and the
delta tells only the events with exactly these witnesses.
"""

import random
import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from agents.calling.model_access import model_of
from agents.calling.objects import call_for_json, format_pieces
from agents.exceptions import ConsentMissing
from agents.flows.remembering.memory_results import addition_of, store_brought
from agents.llm.providers.failures.call_errors import ProviderError
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import compose_for, has_stage
from agents.prompting.agent import in_chapter
from agents.prompting.declarations import CONTEXT_SUMMARY
from agents.prompting.forms.schemas import Payload, TurnDelta, delta_schema_for
from agents.prompting.layer_sources import transcript_pieces
from agents.prompting.layers import Layer, Piece
from agents.prompting.memory_additions import ADDED_KEYS
from agents.prompting.sandwich import Subject
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch, declare_job_kind
from agents.running.jobs import fail, finish, owned, postpone, queue_job
from memory.blocks.blocks import knows, make_delta, write_deltas
from memory.blocks.cast_names import with_cast_names
from memory.blocks.stretches import (
    Audience,
    Stretch,
    audiences_in,
    count_calls,
    due_stretches,
    stretches_to_accept,
    told_to,
)
from memory.fold.source_numbers import with_checked_sources
from memory.models import MemoryBlock
from sessions.chapter.access import get_chapter, get_chapter_with_cast, lock_chapter
from sessions.chapter.states import try_move
from sessions.models import Session, State, Turn
from sessions.play.played_world import everybody_at
from sessions.roster import Character

# The name of the layer with the text that the agent summarises.
CHUNK = "RECENT_CONTEXT_CHUNK"
# The seconds before each further try of a summary that failed.
BACK_OFF_SECONDS = (15, 60, 300, 900)
# The pause is lengthened at random, at most by this fraction, because summaries that failed at the
# same moment would otherwise be tried again at the same moment.
SPREAD = 0.25


def queue_due_summary(
    chapter: Session, *, notice_after: float = 0, is_waited_for: bool = False
) -> bool:
    """Queue the summary of the next stretch, even after a failure. Returns False if no summary is
    due.

    Only one summary is queued, because each delta builds on the delta before. A worker is given
    notice after `notice_after` seconds, or finds the job in a sweep. `is_waited_for` says that
    somebody waits for the summary, as at the end of a chapter. No summary is due while the GM has
    to accept calls for memory; see agents.flows.remembering.memory_calls.
    """
    if not has_stage(chapter.mode, Stage.MEMORY):
        return False
    # If the chapter is ending, the GM is not asked here, because the request to end it has asked
    # already.
    if not chapter.is_ending and stretches_to_accept(chapter, is_ending=False):
        return False
    # An unfinished summary comes first, because a new stretch could overlap its stretch.
    stretch = _unfinished_stretch(chapter) or next(
        iter(due_stretches(chapter, is_ending=chapter.is_ending)), None
    )
    if stretch is None:
        return False
    first, last = stretch.first, stretch.last
    attempt = chapter.turns.select_related("chosen").get(number=last).chosen
    queue_job(
        chapter.pk,
        Job.Kind.SUMMARIZE,
        f"{first}-{last} {attempt.pk}",
        queue=Job.Queue.PERSON if is_waited_for or chapter.is_ending else Job.Queue.MEMORY,
        attempt=attempt,
        from_prompt_index=first,
        to_prompt_index=last,
        notice_after=notice_after,
    )
    try_move(Session.objects.filter(pk=chapter.pk, state=State.ACTIVE), State.SUMMARIZING)
    return True


def _unfinished_stretch(chapter: Session) -> Stretch | None:
    """Return the stretch of a summary that waits or is being written, or None.

    A failed summary does not count, although it may be queued again. If the end of the chapter
    asked for it and play then continued, its prompts become part of a longer stretch.
    """
    job = chapter.jobs.filter(
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING),
        kind=Job.Kind.SUMMARIZE,
        attempt__chosen_for__isnull=False,
        from_prompt_index=chapter.last_summarized_prompt_index + 1,
    ).first()
    return job.stretch if job else None


def end_summarizing(session_id: uuid.UUID) -> None:
    """Move the chapter from SUMMARIZING to ACTIVE if no summary waits or is being written."""
    live = (Job.Status.QUEUED, Job.Status.RUNNING)
    jobs = Job.objects.filter(session_id=session_id, kind=Job.Kind.SUMMARIZE, status__in=live)
    if not jobs.exists():
        try_move(Session.objects.filter(pk=session_id, state=State.SUMMARIZING), State.ACTIVE)


def cancel_waiting_summary(session_id: uuid.UUID) -> None:
    """Cancel the queued summaries of attempts that are not chosen.

    A running summary is not stopped, because its block counts if its attempt is chosen again.
    """
    Job.objects.filter(
        session_id=session_id,
        kind=Job.Kind.SUMMARIZE,
        status=Job.Status.QUEUED,
        attempt__chosen_for__isnull=True,
    ).update(status=Job.Status.CANCELLED, updated_at=timezone.now())


async def write_memory_deltas(job: Job, watch: Watch) -> None:
    """Let agent 8 write a delta for each set of witnesses of the stretch, the largest first."""
    chapter, audiences, everybody = await in_database(_read_stretch, job)
    for audience, prompts in audiences.items():
        deltas = await in_database(_finished_deltas, job)
        if list(audience) in [delta.audience for delta in deltas]:
            continue
        waiting = [delta for delta in deltas if knows(delta.audience, audience)]
        payload = await _tell(job, chapter, audience, prompts, waiting, watch)
        addition = addition_of(chapter)
        payload, added = addition.take_from(payload) if addition else (payload, None)
        payload = with_checked_sources(with_cast_names(payload, everybody), prompts)
        if not await in_database(_keep_delta, job, audience, prompts[-1], payload, added):
            return
    await in_database(_store, job)


async def _tell(
    job: Job,
    chapter: Session,
    audience: Audience,
    prompts: Sequence[int],
    waiting: Sequence[MemoryBlock],
    watch: Watch,
) -> Payload:
    """Return the delta for this audience, which tells these prompts."""
    stretch, agent = job.stretch, in_chapter(CONTEXT_SUMMARY, chapter)
    addition = addition_of(chapter)
    shape = addition.shape if addition else TurnDelta
    return await call_for_json(
        agent,
        job.session_id,
        lambda: compose_summary(
            chapter, stretch, audience, last_attempt=job.attempt_id, waiting=waiting
        ),
        shape,
        json_schema=delta_schema_for(
            stretch.first,
            stretch.last,
            chapter.characters,
            told=prompts,
            tight=model_of(agent).is_small,
            shape=shape,
        ),
        watch=watch,
        job_id=job.pk,
    )


def _finished_deltas(job: Job) -> list[MemoryBlock]:
    """Return the finished deltas of the stretch, which are stored with the job until the whole
    stretch is summarised."""
    assert job.attempt is not None, "A summary names the attempt at its last turn."
    return [
        make_delta(
            job.attempt,
            from_prompt_index=job.from_prompt_index,
            audience=one["audience"],
            payload=one["payload"],
            told_until=one["told_until"],
            created_at=datetime.fromisoformat(one["finished_at"]),
        )
        for one in job.finished_deltas
    ]


def _keep_delta(
    job: Job, audience: Audience, told_until: int, payload: Payload, added: Payload | None
) -> bool:
    """Store a delta with the job, so that it is not lost if a later call fails. `added` has the
    keys that the mode adds, if it adds any.

    Returns False if the job no longer belongs to this worker.
    """
    one = {
        "audience": list(audience),
        "told_until": told_until,
        "payload": payload,
        "finished_at": timezone.now().isoformat(),
    }
    if added is not None:
        one["added"] = added
    job.finished_deltas = [*job.finished_deltas, one]
    return bool(owned(job).update(finished_deltas=job.finished_deltas))


def give_up(job: Job, error: Exception) -> None:
    """Postpone the summary if another try may help, or else fail it.

    The summary pointer does not move. A chapter that was ending returns to play, and the GM can end
    it again.
    """
    with transaction.atomic():
        lock_chapter(job.session_id)
        chapter = Session.objects.filter(pk=job.session_id)
        ending_at = chapter.filter(is_ending=True).values_list("prompt_index", flat=True).first()
        may_help = not isinstance(error, ConsentMissing) and not (
            isinstance(error, ProviderError) and error.permanent
        )
        if ending_at is None and may_help and job.attempts <= len(BACK_OFF_SECONDS):
            spread = random.uniform(1, 1 + SPREAD)  # noqa: S311  (no secret)
            pause = round(BACK_OFF_SECONDS[job.attempts - 1] * spread)
            settled = postpone(job, seconds=pause, error=str(error), cause=error)
        else:
            settled = fail(job, str(error), cause=error)
        if settled:
            Job.objects.filter(pk=job.pk).update(end_asked_at_prompt=ending_at)
            cancel_waiting_summary(job.session_id)
            try_move(chapter.filter(state=State.SUMMARIZING), State.ACTIVE, is_ending=False)


@transaction.atomic
def _store(job: Job) -> None:
    lock_chapter(job.session_id)
    if not finish(job, finished_deltas=[]):
        return
    if write_deltas(_finished_deltas(job) or [_empty_delta(job)]):
        store_brought(job, job.finished_deltas)
    if Turn.objects.filter(chosen=job.attempt).exists():
        settle_memory(job.session_id)
    else:
        # Another attempt is chosen by now, so no further summary is queued here. The next prompt
        # asks for the missing memory.
        end_summarizing(job.session_id)


def _empty_delta(job: Job) -> MemoryBlock:
    """Return the delta of a stretch that has no events to tell."""
    assert job.attempt is not None, "A summary names the attempt at its last turn."
    chapter = job.attempt.session
    everybody = [one.number for one in everybody_at(chapter, attempt=job.attempt)]
    return make_delta(
        job.attempt,
        from_prompt_index=job.from_prompt_index,
        audience=told_to(chapter, everybody),
        payload={"memory_type": "turn_delta"},
    )


def settle_memory(session_id: uuid.UUID) -> None:
    """Queue the next summary. If no summary is due, end the chapter if it is ending, or else return
    it to play.

    While memory catches up by calls that the GM has accepted, the next summary is queued only with
    the next prompt.
    """
    chapter = get_chapter(session_id)
    row = Session.objects.filter(pk=session_id)
    due = due_stretches(chapter, is_ending=chapter.is_ending)
    if chapter.accepted_calls:
        chapter.accepted_calls = min(count_calls(chapter, due), chapter.accepted_calls)
        row.update(accepted_calls=chapter.accepted_calls)
    is_catching_up = chapter.accepted_calls > 0 and not chapter.is_ending
    if not is_catching_up and queue_due_summary(chapter):
        return
    if chapter.is_ending:
        try_move(row, State.ENDED, is_ending=False)
    else:
        try_move(row.filter(state=State.SUMMARIZING), State.ACTIVE)


def _read_stretch(
    job: Job,
) -> tuple[Session, dict[Audience, tuple[int, ...]], tuple[Character, ...]]:
    chapter = get_chapter_with_cast(job.session_id)
    try_move(Session.objects.filter(pk=chapter.pk, state=State.ACTIVE), State.SUMMARIZING)
    audiences = audiences_in(chapter, job.stretch, last_attempt=job.attempt_id)
    return chapter, audiences, everybody_at(chapter, attempt=job.attempt)


def compose_summary(
    chapter: Session,
    stretch: Stretch,
    audience: Audience,
    *,
    last_attempt: uuid.UUID | None = None,
    waiting: Sequence[MemoryBlock] = (),
) -> list[Layer]:
    """Compose agent 8's request for the events of the stretch whose witnesses are exactly this
    audience.

    `waiting` are deltas of the stretch that are not stored yet and that the whole audience may
    read. `transcript_pieces` explains `last_attempt`.
    """
    addition = addition_of(chapter)
    shape = addition.shape if addition else TurnDelta
    agent = in_chapter(CONTEXT_SUMMARY, chapter)
    pieces: dict[str, Sequence[Piece]] = {"FORMAT": format_pieces(agent, shape)}
    if addition:
        pieces[ADDED_KEYS] = addition.pieces()
    # The attempt counts as chosen here. So people who appear only in another attempt are not in the
    # request.
    attempts = chapter.attempts.select_related("turn")
    attempt = attempts.get(pk=last_attempt) if last_attempt else None
    # Blocks about turns after the stretch are left out by `before`. A mode may have stored such
    # blocks, but another attempt at one of these turns may still be chosen.
    subject = Subject(
        chapter,
        before=stretch.last + 1,
        attempt=attempt,
        audience=audience,
        waiting=waiting,
        own_pieces=pieces,
    )
    pieces[CHUNK] = told_pieces(chapter, stretch, audience, last_attempt, subject.everybody)
    return compose_for(agent, subject, model_of(agent).tier)


def told_pieces(
    chapter: Session,
    stretch: Stretch,
    audience: Audience,
    last_attempt: uuid.UUID | None = None,
    everybody: Sequence[Character] | None = None,
) -> Sequence[Piece]:
    """Return the pieces of the text to summarise. `transcript_pieces` has the same arguments."""
    return transcript_pieces(
        chapter,
        stretch.first,
        stretch.last,
        last_attempt=last_attempt,
        perceived=lambda witnesses: told_to(chapter, witnesses) == audience,
        everybody=everybody,
    )


declare_job_kind(Job.Kind.SUMMARIZE, JobKind(run=write_memory_deltas, give_up=give_up))
