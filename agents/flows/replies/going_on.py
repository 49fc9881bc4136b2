"""Writes an attempt that has no prompt. The mode names who acts in this attempt.

A job does this work. The commit of the turn before has queued the job. The new attempt's submission
key names the attempt of the turn before, so that the new attempt is stored only once, even if the
job begins several times. The commit of the new attempt may queue the next job.
"""

from functools import partial

from django.db import transaction
from django.db.models import Q

from agents.flows.replies.finishing import key_after, who_acts_after
from agents.flows.replies.turns import store_prompt, write_to_end
from agents.models import Job
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch, declare_job_kind
from agents.running.jobs import MAX_ATTEMPTS, fail, finish, postpone
from agents.running.recovery import GIVEN_UP
from sessions.chapter.access import get_chapter_to_change
from sessions.exceptions import ChapterError, WrongState
from sessions.leases import LEASE
from sessions.models import PLAYABLE, Attempt, Session
from sessions.play.attempts import OpenedAttempt, Writer
from sessions.play.breaking import INTERRUPTED

_NOT_NOW = "Nobody acts without being asked now."


async def go_on(job: Job, watch: Watch) -> None:
    """Write the attempt of the actor who acts without a prompt. If the attempt fails, the user
    decides what to do with it."""
    is_refused = False
    try:
        await write_to_end(partial(_open_next, job))
    except ChapterError:
        # A ChapterError means that the attempt must not be written, because the user has sent a
        # prompt or has ended the attempt, or because another process writes it.
        is_refused = True
    await in_database(_settle, job, is_refused=is_refused)


@transaction.atomic
def _open_next(job: Job) -> OpenedAttempt:
    """Store the new attempt, or run it again if it is already stored. Raises WrongState if the new
    attempt must not run."""
    before = Attempt.objects.select_related("session").get(jobs=job)
    key = key_after(before.pk)
    # The chapter's row is locked first, so that nobody can stop the attempt meanwhile.
    chapter = get_chapter_to_change(before.session_id)
    attempt = chapter.attempts.filter(submission_key=key).first()
    if attempt is not None and not (attempt.is_running or attempt.error == INTERRUPTED):
        raise WrongState(_NOT_NOW)

    def acts(_chapter: Session, _actor: int | None) -> Writer:
        writer = who_acts_after(before)
        if writer is None:
            raise WrongState(_NOT_NOW)
        return writer._replace(needs_words=False)

    actor = None if attempt is None else attempt.actor
    return store_prompt(chapter.pk, actor=actor, words="", submission_key=key, answers=acts)


@transaction.atomic
def _settle(job: Job, *, is_refused: bool = False) -> None:
    """Finish the job if its attempt has ended. Otherwise try the job again later. After
    MAX_ATTEMPTS runs, fail the job.

    A run that was refused because another process writes the attempt does not count.
    """
    assert job.attempt_id is not None, "It is queued for an attempt."
    attempt = Attempt.objects.filter(
        Q(status=Attempt.Status.RUNNING) | Q(status=Attempt.Status.FAILED, error=INTERRUPTED),
        session=job.session_id,
        submission_key=key_after(job.attempt_id),
        session__state__in=PLAYABLE,
        session__is_ending=False,
    ).first()
    counts = not (is_refused and attempt and attempt.is_running)
    if attempt is None:
        finish(job)
    elif job.attempts < MAX_ATTEMPTS or not counts:
        postpone(job, seconds=LEASE.total_seconds(), counts=counts)
    else:
        fail(job, str(GIVEN_UP), cause=GIVEN_UP)


declare_job_kind(Job.Kind.GO_ON, JobKind(run=go_on, queue=Job.Queue.PERSON))
