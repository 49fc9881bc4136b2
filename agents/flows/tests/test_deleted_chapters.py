"""A deleted chapter can be brought back for a day. Meanwhile nothing is written in it, and no call
is begun for it."""

import asyncio
import uuid

import pytest
from asgiref.sync import async_to_sync

from agents.calling.tests.bookkeeping import expire
from agents.flows.replies import start_prompt
from agents.flows.tests.playing import play, replies_are_over
from agents.models import Job
from agents.providers.scripted import Script, ScriptedProvider
from agents.running.database import in_database
from agents.running.jobs import claim, due_jobs, queue_job, renew
from agents.running.recovery import recover
from sessions.access import get_chapter
from sessions.models import Attempt, Session
from sessions.stories import hide_chapter, restore_chapter
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
    assert Attempt.objects.get(pk=attempt.pk).status != Attempt.Status.COMMITTED
    restore_chapter(chapter.pk)
    Attempt.objects.filter(pk=attempt.pk, status=Attempt.Status.RUNNING).update(
        lease_until=attempt.submitted_at
    )
    recover(chapter.pk)
    broken = Attempt.objects.get(pk=attempt.pk)
    assert (broken.is_broken, broken.words) == (True, "Go on.")
    assert get_chapter(chapter.pk).prompt_index == 0
    # Play goes on where it was.
    assert play(chapter, "Again.").status == Attempt.Status.COMMITTED


def test_a_job_waits_until_the_chapter_is_back(chapter: Session) -> None:
    job = queue_job(chapter.pk, Job.Kind.NARRATE, "k")
    hide_chapter(chapter.pk)
    assert not due_jobs().exists()
    assert claim(job.pk) is None
    restore_chapter(chapter.pk)
    assert claim(job.pk) is not None


def test_a_worker_loses_the_job_of_a_deleted_chapter(chapter: Session) -> None:
    job = claim(queue_job(chapter.pk, Job.Kind.NARRATE, "k").pk)
    assert job
    assert renew(job, partial_text="So far.", progress={})
    hide_chapter(chapter.pk)
    assert not renew(job, partial_text="And more.", progress={})
    restore_chapter(chapter.pk)
    expire(job)
    recover(chapter.pk)
    assert claim(job.pk) is not None
