"""A deleted chapter can be brought back for a day. Meanwhile nothing is written in it, and no call
is begun for it."""

import asyncio
import uuid

import pytest
from asgiref.sync import async_to_sync

from agents.calling.tests.bookkeeping import expire
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import play, replies_are_over
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.running.database import in_database
from agents.running.jobs import (
    MAX_ATTEMPTS,
    Expired,
    claim,
    due_jobs,
    finish,
    give_up,
    queue_job,
    requeue_expired,
)
from agents.running.recovery import GIVEN_UP, recover
from sessions.chapter.access import get_chapter
from sessions.chapter.stories import hide_chapter, restore_chapter
from sessions.leases import renew_attempts
from sessions.models import Attempt, Session, State
from sessions.play.attempts import open_prompt
from sessions.tests.factories import make_active_chapter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.servers]


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def test_a_reply_in_flight_is_not_committed_and_can_be_retried(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> Attempt:
        gate = asyncio.Event()
        provider.enqueue(Script("The door opens.", gate=gate))
        opened = await start_prompt(
            chapter.pk, actor=1, words="Go on.", submission_key=str(uuid.uuid4())
        )
        await in_database(hide_chapter, chapter.pk)
        gate.set()
        await replies_are_over()
        return opened.attempt

    attempt = async_to_sync(run)()
    restore_chapter(chapter.pk)
    broken = Attempt.objects.get(pk=attempt.pk)
    assert (broken.is_broken, broken.words) == (True, "Go on.")
    # The reply came after the deletion. The user can keep it, and its call is counted.
    assert broken.partial_text == "The door opens."
    assert chapter.llm_artifacts.count() == 1
    back = get_chapter(chapter.pk)
    assert (back.prompt_index, back.turn_in_flight) == (0, None)
    # Play goes on where it was.
    assert play(chapter, "Again.").status == Attempt.Status.COMMITTED


def test_the_attempt_of_a_dead_process_is_not_in_flight_when_the_chapter_is_back(
    chapter: Session, provider: ScriptedProvider
) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Go on.", submission_key="k").attempt
    hide_chapter(chapter.pk)
    Attempt.objects.filter(pk=attempt.pk).update(lease_until=attempt.submitted_at)
    # The sweep looks for the work of dead processes also while the chapter is deleted.
    recover()
    assert restore_chapter(chapter.pk).turn_in_flight is None
    assert play(chapter, "Again.").status == Attempt.Status.COMMITTED


def test_the_process_that_writes_a_reply_notices_the_deletion(chapter: Session) -> None:
    attempt = open_prompt(chapter.pk, actor=1, words="Go on.", submission_key="k").attempt
    assert renew_attempts([(attempt, "The door")]) == set()
    hide_chapter(chapter.pk)
    assert renew_attempts([(attempt, "The door opens.")]) == {attempt.run_id}
    attempt.refresh_from_db()
    assert attempt.partial_text == "The door"


def test_a_job_waits_until_the_chapter_is_back(chapter: Session) -> None:
    job = queue_job(chapter.pk, Job.Kind.NARRATE, "k")
    hide_chapter(chapter.pk)
    assert not due_jobs().exists()
    assert claim(job.pk) is None
    restore_chapter(chapter.pk)
    assert claim(job.pk) is not None


@pytest.mark.parametrize(
    ("kind", "state"),
    [(Job.Kind.LOCK, State.LOCKING), (Job.Kind.NARRATE, State.NARRATING)],
)
def test_a_job_of_a_deleted_chapter_neither_ends_nor_fails(
    chapter: Session, kind: Job.Kind, state: State
) -> None:
    Session.objects.filter(pk=chapter.pk).update(state=state)
    job = claim(queue_job(chapter.pk, kind, "k").pk)
    assert job
    hide_chapter(chapter.pk)
    expire(job)
    assert not finish(job)
    Job.objects.filter(pk=job.pk).update(attempts=MAX_ATTEMPTS)
    # Otherwise each sweep would find it, for a whole day.
    assert requeue_expired() == Expired([], [])
    Job.objects.filter(pk=job.pk).update(attempts=1)
    give_up(job, GIVEN_UP)
    recover()
    job.refresh_from_db()
    # Otherwise nobody would move the chapter out of its state when it is back.
    assert job.status == Job.Status.RUNNING
    assert restore_chapter(chapter.pk).state == state
    recover()
    assert claim(job.pk) is not None
