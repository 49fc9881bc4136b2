"""Functions by which tests let the keepers of the lighthouse act without a prompt."""

from dataclasses import replace
from typing import Any

import pytest

from agents.flows.tests.playing import play
from agents.models import Job
from agents.running import job_kinds, work
from agents.running.job_kinds import job_kind
from sessions.models import Attempt, Session
from storyengine.tests.lighthouse.keeper import WATCH


def watch(chapter: Session, slot: int = 1) -> Attempt:
    """Send the prompt after which the keepers act in turn. Return the attempt at this prompt."""
    attempt = play(chapter, WATCH, slot=slot, key="k")
    assert attempt.status == Attempt.Status.COMMITTED
    return attempt


def told(chapter: Session) -> list[str]:
    return [event.text for event in chapter.events.all()]


def jobs_of(chapter: Session) -> list[tuple[str, int]]:
    """Return the status of each GO_ON job, and the number of the turn after which it plays."""
    jobs = chapter.jobs.filter(kind=Job.Kind.GO_ON).order_by("created_at")
    return list(jobs.values_list("status", "attempt__turn__number"))


def job_of(chapter: Session) -> Job:
    return chapter.jobs.filter(kind=Job.Kind.GO_ON).latest("created_at")


def alone(chapter: Session) -> Attempt:
    """Return the latest attempt that has no prompt."""
    return chapter.attempts.filter(words="").latest("submitted_at")


def run_as(run: Any, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on the job, but call this function in place of the engine's function for GO_ON jobs."""
    kind = replace(job_kind(Job.Kind.GO_ON), run=run)
    with monkeypatch.context() as patched:
        patched.setitem(job_kinds._declared, Job.Kind.GO_ON, kind)
        work.work_on(job.pk)
