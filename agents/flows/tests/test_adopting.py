"""Using the reply of a trial: a re-roll, by all of its rules."""

import uuid
from collections.abc import Callable

import pytest

from agents.calling.call_records import calls_behind_prompt
from agents.flows.tests.playing import play, play_many
from agents.flows.tests.trying import IDENTITY, contents, replies_to, tried, try_again
from agents.flows.tests.trying import chapter as chapter
from agents.flows.trials import adopt_trial, read_reply, read_trial
from agents.models import Job
from agents.providers.scripted import ScriptedProvider
from agents.running.work import work_on
from sessions.exceptions import WrongState
from sessions.models import Session, Turn
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


class TestAdopting:
    def test_it_is_a_reroll_and_the_earlier_reply_stays_an_event(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        job = tried(chapter, provider)
        turn = adopt_trial(chapter.pk, job.pk)
        chapter.refresh_from_db()
        assert (turn.kind, turn.status) == (Turn.Kind.REROLL, Turn.Status.COMMITTED)
        assert replies_to(chapter, 2) == ["I look at the lamp.", "I run to the quay."]
        assert (chapter.prompt_index, chapter.turn_in_flight) == (2, None)
        assert chapter.rerolling_prompt_index is None
        assert len(provider.history) == 3
        behind = calls_behind_prompt(chapter, 2)
        assert [call.use for call in behind.calls] == ["An earlier reply", "The chosen reply"]
        assert read_trial(chapter.pk, job.pk).is_adopted

    def test_the_next_prompt_and_memory_carry_it_and_not_the_other(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        adopt_trial(chapter.pk, tried(chapter, provider).pk)
        chapter.refresh_from_db()
        asked = len(provider.history)
        play_many(chapter, 5)
        run_jobs()
        later = provider.history[asked:]
        assert len(later) == 6
        for request in later:
            sent = "".join(text for _, text in contents(request))
            assert "I run to the quay." in sent
            assert "I look at the lamp." not in sent

    def test_twice_is_once(self, chapter: Session, provider: ScriptedProvider) -> None:
        job = tried(chapter, provider)
        turns = {adopt_trial(chapter.pk, job.pk).pk for _ in range(2)}
        play(chapter, "On we go.")
        turns.add(adopt_trial(chapter.pk, job.pk).pk)
        assert len(turns) == 1
        assert len(replies_to(chapter, 2)) == 2

    def test_what_was_adopted_can_be_tried_again(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        adopt_trial(chapter.pk, tried(chapter, provider).pk)
        again = read_reply(chapter.pk)
        assert again.reply.text == "I run to the quay."
        assert IDENTITY in [one.text for one in again.layers]

    def test_it_is_refused_once_play_has_gone_on(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        job = tried(chapter, provider)
        play(chapter, "On we go.")
        with pytest.raises(WrongState, match="gone on"):
            adopt_trial(chapter.pk, job.pk)
        chapter.refresh_from_db()
        assert chapter.turn_in_flight is None
        assert [len(replies_to(chapter, number)) for number in (2, 3)] == [1, 1]
        assert not Turn.objects.filter(kind=Turn.Kind.REROLL).exists()

    def test_it_is_refused_once_memory_covers_the_prompt(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        job = tried(chapter, provider)
        Session.objects.update(last_summarized_prompt_index=2)
        with pytest.raises(WrongState, match="memory covers it"):
            adopt_trial(chapter.pk, job.pk)
        assert replies_to(chapter, 2) == ["I look at the lamp."]

    def test_a_reply_in_flight_is_in_the_way(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        job = tried(chapter, provider)
        Session.objects.update(turn_in_flight=uuid.uuid4())
        with pytest.raises(WrongState):
            adopt_trial(chapter.pk, job.pk)
        assert replies_to(chapter, 2) == ["I look at the lamp."]

    def test_a_summary_of_the_prompt_that_is_being_written_starts_over(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        chapter = make_active_chapter()
        play_many(chapter, 7)
        summary = Job.objects.get(kind=Job.Kind.SUMMARIZE)
        Job.objects.update(status=Job.Status.RUNNING, lease_token=uuid.uuid4())
        provider.enqueue("I run to the quay.")
        job = try_again(chapter)
        work_on(job.pk)
        adopt_trial(chapter.pk, job.pk)
        summary.refresh_from_db()
        assert (summary.status, summary.lease_token) == (Job.Status.QUEUED, None)
        run_jobs()
        chapter.refresh_from_db()
        assert chapter.last_summarized_prompt_index == 7
        assert "I run to the quay." in provider.history[-1].messages[-1].content
