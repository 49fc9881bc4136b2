"""The part of the state machine for jobs in which somebody acts without a prompt."""

import uuid
from functools import partial

from agents.flows.replies.finishing import key_after
from agents.flows.replies.going_on import _open_next, _settle
from agents.models import Job
from sessions.models import Attempt
from sessions.play.breaking import INTERRUPTED, fail_attempt
from storyengine.tests.chapter_machine.attempts import PlaysAttempts
from storyengine.tests.chapter_machine.expected import Try


class PlaysAlone(PlaysAttempts):
    """The rules for a worker that plays a turn without a prompt. The worker opens an attempt, and
    then ends the attempt or is killed."""

    def act_alone(self, job: Job, how: str) -> None:
        """Do the job. If the worker is killed, its attempt remains in flight."""
        one = self.open_alone(job)
        if one is not None and how != "kill":
            self.in_flight = None
            if how == "finish":
                self.store_reply(one, f"Reply {self.mark()}.")
            else:
                assert fail_attempt(one.row, error="No answer.", partial_text="")
                self.lost.append(one.row)
                self.broken = one
        if how != "kill":
            self.settle_alone(job)

    def open_alone(self, job: Job) -> Try | None:
        """Open the attempt of the job. Return None if nobody should act now."""
        earlier, before = self.attempt_of(job), self.before(job)
        actor = self.expected.acts_next(before)
        broken = self.broken if earlier and self.broken and self.broken.row == earlier else None
        if earlier is not None:
            may_open = broken is not None and earlier.error == INTERRUPTED
            actor = earlier.actor
        else:
            may_open = actor is not None
        row = self.refused_unless(
            may_open and self.can_play, lambda: self.begin(partial(_open_next, job))
        )
        if row is None:
            return None
        assert row.actor == actor
        one = self.take(row, self.number + 1, "", None)
        if broken:
            one.kept_run, one.kept_text = broken.kept_run, broken.kept_text
        self.in_flight, self.broken, self.asks_again = one, None, True
        return one

    def settle_alone(self, job: Job) -> None:
        """End the job. If its attempt is still running, or was interrupted by the death of a
        worker, the job must be queued again."""
        _settle(job)
        job.refresh_from_db()
        row = self.attempt_of(job)
        is_broken = row is not None and row.status == Attempt.Status.FAILED
        is_interrupted = row is not None and is_broken and row.error == INTERRUPTED
        is_unfinished = row is not None and (row.is_running or is_interrupted)
        is_done = self.has_ended or not is_unfinished
        assert job.status == (Job.Status.DONE if is_done else Job.Status.QUEUED)

    def waits_for_its_attempt(self, job: Job) -> bool:
        row = self.in_flight.row if self.in_flight else None
        return job.kind == Job.Kind.GO_ON and row is not None and row == self.attempt_of(job)

    def attempt_of(self, job: Job) -> Attempt | None:
        key = key_after(job.attempt_id or uuid.uuid4())
        return Attempt.objects.filter(session_id=self.pk, submission_key=key).first()

    def before(self, job: Job) -> Try:
        tries = [one for step in self.expected.turns for one in step.tries]
        [before] = [one for one in tries if one.row.pk == job.attempt_id]
        return before
