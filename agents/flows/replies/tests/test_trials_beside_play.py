"""A trial does not change the play that goes on at the same time. A trial and a reply are stopped
separately."""

import asyncio
from collections.abc import Callable

import pytest
from asgiref.sync import async_to_sync

from agents.flows.replies import turns
from agents.flows.replies.tests.trying import (
    begin,
    contents,
    replies_to,
    row_of,
    tried,
    words_have_come,
)
from agents.flows.replies.tests.trying import chapter as chapter
from agents.flows.replies.trials import adopt_trial, read_trial, stop_trial
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import play_many, replies_are_over, texts_of
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running.jobs import latest_jobs
from sessions.exceptions import WrongState
from sessions.models import Attempt, Session
from sessions.play.breaking import pending_attempt
from sessions.record.chosen_events import chosen_events
from sessions.record.transcript import read_transcript
from testing.refusals import PLAY_HAS_GONE_ON

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


class TestBesidePlay:
    def test_record_memory_and_prompts_know_nothing_of_it(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        row, record = row_of(chapter), list(chosen_events(chapter).values())
        transcript = read_transcript(chapter).plain_text
        tried(chapter, provider)
        assert row_of(chapter) == row
        assert list(chosen_events(chapter).values()) == record
        assert read_transcript(chapter).plain_text == transcript
        assert read_transcript(chapter, with_all_replies=True).plain_text == transcript
        assert latest_jobs(chapter) == {}
        play_many(chapter, 5)
        run_jobs()
        assert chapter.memory_blocks.exists()
        sent = [text for request in provider.history for _, text in contents(request)]
        assert any("I look at the lamp." in text for text in sent)
        assert not any("I run to the quay." in text for text in sent)

    def test_one_that_ends_after_play_has_gone_on_stays_unchosen(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        async def scenario() -> Attempt:
            gate = asyncio.Event()
            provider.enqueue(Script("I run to the quay.", gate=gate, gate_at=2), "I stay.")
            trial = await begin(chapter)
            await words_have_come(trial)
            opened = await start_prompt(chapter.pk, actor=1, words="On.", submission_key="")
            while opened.attempt.status != Attempt.Status.COMMITTED:
                await asyncio.sleep(0)
            gate.set()
            await replies_are_over()
            return trial

        attempt = async_to_sync(scenario)()
        trial = read_trial(chapter.pk, attempt.pk)
        assert trial.attempt.status == Attempt.Status.COMMITTED
        assert (trial.is_adopted, trial.can_adopt) == (False, False)
        assert PLAY_HAS_GONE_ON in trial.why_not
        with pytest.raises(WrongState, match=PLAY_HAS_GONE_ON):
            adopt_trial(chapter.pk, attempt.pk)
        assert replies_to(chapter, 2) == ["I look at the lamp.", "I run to the quay."]
        record = list(chosen_events(chapter).values_list("text", flat=True))
        assert record == [
            *("The lamp goes out.", "I wait."),
            *("A bell rings.", "I look at the lamp."),
            *("On.", "I stay."),
        ]

    @pytest.mark.parametrize("stopped", ["trial", "prompt"])
    def test_it_may_be_sent_while_a_reply_is_written_and_each_is_stopped_alone(
        self, chapter: Session, provider: ScriptedProvider, stopped: str
    ) -> None:
        async def scenario() -> tuple[Attempt, Attempt]:
            gate = asyncio.Event()
            provider.enqueue(
                Script("I stay here.", gate=gate, gate_at=1), Script("I run.", gate=gate, gate_at=1)
            )
            opened = await start_prompt(chapter.pk, actor=1, words="On.", submission_key="")
            trial = await begin(chapter)
            await words_have_come(trial)
            await words_have_come(opened.attempt)
            if stopped == "trial":
                await stop_trial(chapter.pk, trial.pk)
            else:
                await turns.stop_reply(chapter.pk)
            gate.set()
            await replies_are_over()
            return opened.attempt, trial

        prompt, trial = async_to_sync(scenario)()
        prompt.refresh_from_db()
        trial.refresh_from_db()
        states = {"prompt": prompt.status, "trial": trial.status}
        assert states.pop(stopped) == Attempt.Status.STOPPED
        assert list(states.values()) == [Attempt.Status.COMMITTED]
        chapter.refresh_from_db()
        assert chapter.turn_in_flight is None
        assert chapter.turns.get(number=2).chosen_id != trial.pk


class TestStopping:
    def test_one_that_runs_ends_leaves_the_chapter_alone_and_cannot_be_used(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        before = row_of(chapter)

        async def scenario() -> Attempt:
            provider.enqueue(Script("I run to the quay.", gate=asyncio.Event(), gate_at=2))
            attempt = await begin(chapter)
            await words_have_come(attempt)
            stopped = await stop_trial(chapter.pk, attempt.pk)
            await replies_are_over()
            return stopped

        attempt = async_to_sync(scenario)()
        trial = read_trial(chapter.pk, attempt.pk)
        assert attempt.status == trial.attempt.status == Attempt.Status.STOPPED
        assert trial.new_reply.startswith("I ")
        assert trial.call is not None
        assert trial.call.outcome == "stopped"
        with pytest.raises(WrongState, match="whole reply"):
            adopt_trial(chapter.pk, attempt.pk)
        assert row_of(chapter) == before
        assert texts_of(chapter)[-1] == "I look at the lamp."
        assert pending_attempt(chapter) is None
