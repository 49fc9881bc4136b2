"""Rules of the state machine for workers and their jobs, and for the end of a chapter."""

from contextlib import suppress
from typing import Any

from asgiref.sync import async_to_sync
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from agents.calling.tests.bookkeeping import expire
from agents.flows.remembering.late_results import finish_with_result
from agents.flows.remembering.summarizing import write_memory_deltas
from agents.flows.replies.going_on import _settle
from agents.flows.telling.ending import request_end, retry_summary
from agents.llm.providers.failures.call_errors import ProviderTimeout
from agents.models import Job
from agents.running.jobs import claim, due_jobs, give_up
from agents.running.recovery import recover
from agents.running.watch import Watch
from sessions.exceptions import WrongState
from sessions.models import State
from storyengine.tests.chapter_machine.alone import PlaysAlone
from storyengine.tests.chapter_machine.attempts import ACTORS, KINDS
from storyengine.tests.chapter_machine.expected import Result, Try
from storyengine.tests.chapter_machine.readings import read_chapter
from storyengine.tests.lighthouse.tide import TIDE


class PlaysWithWorkers(PlaysAlone):
    """The rules for jobs that write memory, work out late results, or let somebody act without a
    prompt.

    A worker finishes such a job, fails in it, or is killed during it.
    """

    def due(self, **which: Any) -> list[Job]:
        """End all pauses before a retry, and return the jobs that may run then."""
        jobs = Job.objects.filter(session_id=self.pk)
        jobs.filter(status=Job.Status.QUEUED).update(run_after=timezone.now())
        return list(due_jobs().filter(session_id=self.pk, **which).order_by("created_at", "pk"))

    @initialize(data=st.data(), actors=st.lists(ACTORS, min_size=4, max_size=6))
    def play_some(self, data: st.DataObject, actors: list[int | None]) -> None:
        for actor in actors:
            self.play_and_remember(data, actor)

    @precondition(lambda self: not self.in_flight)
    @rule(data=st.data(), actor=ACTORS)
    def play_and_remember(self, data: st.DataObject, actor: int | None) -> None:
        """Play a turn, let the workers finish their jobs, and perhaps re-roll or edit the reply.
        This is the usual course of play."""
        self.send_prompt(data, actor)
        for is_retried in data.draw(st.lists(st.booleans(), max_size=3), label="steps and retries"):
            self.take_a_step(data, data.draw(st.sampled_from(KINDS)))
            if is_retried:
                self.break_off(data, "fail", has_text=False)
                self.retry()
        self.commit(data)
        self.work_until_the_queue_is_empty()
        then = data.draw(st.sampled_from(["go on", "again", "edit"]))
        if then == "again":
            self.play_again(data, is_committed=True)
        elif then == "edit":
            self.edit()

    @rule(data=st.data(), then=st.sampled_from(["", "finish", "finish", "fail", "kill"]))
    def work(self, data: st.DataObject, then: str) -> None:
        """Let a worker claim a job, and let it end the job now or later."""
        if due := self.due():
            self.claim(data.draw(st.sampled_from(due)))
            if then:
                self.end_work(-1, then)

    @rule()
    def work_until_the_queue_is_empty(self) -> None:
        self.finish_claimed()
        self.work_until_none_is_due()

    @precondition(lambda self: self.claimed)
    @rule(data=st.data(), how=st.sampled_from(["finish", "finish", "fail", "kill"]))
    def end_a_job(self, data: st.DataObject, how: str) -> None:
        self.end_work(data.draw(st.integers(0, len(self.claimed) - 1)), how)

    def claim(self, due: Job) -> None:
        job = claim(due.pk)
        assert job is not None
        self.claimed.append(job)
        if job.kind == TIDE:
            # Late results are finished in the order of the turns that asked for them.
            heard = {id(one.asker) for one in self.expected.results} | self.left_out
            for one in self.expected.told(before=job.from_prompt_index):
                assert one.chosen.actor or id(one.chosen) in heard

    def end_work(self, at: int, how: str) -> None:
        job = self.claimed.pop(at)
        if job.kind == Job.Kind.GO_ON:
            self.act_alone(job, how)
        elif how == "finish":
            self.finish(job)
        elif how == "fail":
            give_up(job, ProviderTimeout("Too slow."))
        if how == "kill":
            expire(job)
            recover(self.pk)
            self.lost_jobs.append(job)

    def finish(self, job: Job) -> None:
        if job.kind == TIDE:
            level = self.next()
            assert finish_with_result(job, {"level": level})
            self.expected.results.append(Result(self.asker_of(job), level))
        else:
            async_to_sync(write_memory_deltas)(job, Watch())
        job.refresh_from_db()
        assert job.status == Job.Status.DONE

    def asker_of(self, job: Job) -> Try:
        step = self.expected.turns[job.from_prompt_index - 1]
        [asker] = [one for one in step.tries if one.row.pk == job.attempt_id]
        return asker

    def finish_claimed(self) -> None:
        while self.claimed:
            self.end_work(-1, "finish")

    def work_until_none_is_due(self, **which: Any) -> None:
        while due := [one for one in self.due(**which) if not self.waits_for_its_attempt(one)]:
            self.claim(due[0])
            self.end_work(-1, "finish")

    @precondition(lambda self: self.lost_jobs)
    @rule(data=st.data())
    def work_without_a_claim(self, data: st.DataObject) -> None:
        lost = data.draw(st.sampled_from(self.lost_jobs))
        blocks = read_chapter(self.pk).memory_blocks
        before = blocks.count()
        if lost.kind == TIDE:
            assert not finish_with_result(lost, {"level": 0})
        elif lost.kind == Job.Kind.GO_ON:
            jobs = Job.objects.filter(pk=lost.pk).values()
            present = jobs.get()
            _settle(lost)
            assert jobs.get() == present
        else:
            async_to_sync(write_memory_deltas)(lost, Watch())
        assert blocks.count() == before

    @precondition(lambda self: not self.has_ended)
    @rule()
    def accept_memory_calls(self) -> None:
        """Accept the number of model calls that memory needs. Until the user accepts this number,
        no memory is written for a chapter whose memory is far behind."""
        with suppress(WrongState):
            retry_summary(self.pk, accept_calls=True)

    def end(self) -> None:
        self.finish_claimed()
        request_end(self.pk, accept_calls=True)
        self.asks_again = True
        self.work_until_none_is_due(kind=Job.Kind.SUMMARIZE)
        chapter = read_chapter(self.pk)
        assert chapter.state == State.ENDED
        assert chapter.last_summarized_prompt_index == self.number
        self.has_ended = True
