"""Tests of two threads that start, adopt or stop a trial at the same time."""

import logging
from collections.abc import Iterator
from functools import partial

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.flows.replies.tests.trying import number_of, replies_to, running_elsewhere, try_again
from agents.flows.replies.trials import adopt_trial, start_trial
from agents.flows.tests.playing import play, reply_is_over
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from agents.running.tests.racing import check, opening
from sessions.models import Attempt, Session
from sessions.play.breaking import fail_attempt, stop_attempt
from sessions.play.committing import commit_attempt
from sessions.record.chosen_events import chosen_events
from sessions.tests.factories import make_active_chapter
from sessions.tests.racing import at_once, refusals, successes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_was_papered_over(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test that logged a warning.

    A deadlock is an error even if the engine catches it and tries again.
    """
    yield
    records = caplog.get_records("call")
    assert [r.getMessage() for r in records if r.levelno >= logging.WARNING] == []


@pytest.fixture
def chapter(provider: ScriptedProvider, settings: Settings) -> Session:
    settings.LLM = "scripted"
    chapter = make_active_chapter()
    provider.enqueue("I wait.")
    play(chapter, "The lamp goes out.")
    provider.enqueue("I run.")
    return chapter


def chosen_reply(chapter: Session) -> str:
    return chosen_events(chapter, to_prompt=1).last().text  # type: ignore[union-attr]


def sent(chapter: Session, key: str) -> Attempt:
    """Start a trial. If this thread writes the trial, wait until the trial has ended."""
    layer = number_of(chapter, "USER_PROMPT")

    async def run() -> Attempt:
        opened = await start_trial(
            chapter.pk, layer_number=layer, text="The lamp is out.", submission_key=key
        )
        if opened.must_run:
            await reply_is_over(opened.attempt.pk)
        return opened.attempt

    return async_to_sync(run)()


def test_a_form_sent_twice_at_once_is_one_trial_and_one_call(chapter: Session) -> None:
    first, second = at_once(*[partial(sent, chapter, "k")] * 2)
    assert first.pk == second.pk
    assert LLMArtifact.objects.filter(attempt=first).count() == 1
    assert replies_to(chapter, 1) == ["I wait.", "I run."]
    check(chapter)


def test_of_a_trial_and_the_next_prompt_one_waits(chapter: Session) -> None:
    trial = try_again(chapter)
    results = at_once(
        partial(adopt_trial, chapter.pk, trial.pk), opening(chapter, "A bell rings.", "next")
    )
    # The prompt is stored in any case. If it is stored before the trial is adopted, the trial
    # cannot be adopted.
    assert not isinstance(results[1], Exception)
    assert chosen_reply(chapter) == ("I wait." if refusals(results) else "I run.")
    fail_attempt(successes(results)[-1].attempt, error="It ends here.", partial_text="")
    check(chapter)


def test_a_trial_that_ends_while_it_is_stopped_is_one_of_both(chapter: Session) -> None:
    trial = running_elsewhere(chapter)
    was_committed, was_stopped = at_once(
        partial(commit_attempt, trial, "I run."), partial(stop_attempt, trial)
    )
    assert bool(was_committed) != was_stopped
    assert replies_to(chapter, 1) == (["I wait.", "I run."] if was_committed else ["I wait."])
    check(chapter)
