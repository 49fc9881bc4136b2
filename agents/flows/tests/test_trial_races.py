"""Trials in two windows at once, in real threads on the real database."""

import pytest
from pytest_django import Settings

from agents.flows.tests.playing import play
from agents.flows.trials import adopt_trial, read_reply, request_trial
from agents.models import Job, LLMArtifact
from agents.providers.scripted import ScriptedProvider
from agents.running.tests.racing import check, opening
from agents.running.work import work_on
from sessions.models import Event, Session
from sessions.tests.factories import make_active_chapter
from sessions.tests.racing import at_once, refusals, successes
from sessions.turns import fail_turn

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chapter(provider: ScriptedProvider, settings: Settings) -> Session:
    settings.LLM = "scripted"
    chapter = make_active_chapter()
    provider.enqueue("I wait.")
    play(chapter, "The lamp goes out.")
    return chapter


def try_again(chapter: Session, key: str) -> Job:
    number = len(read_reply(chapter.pk).layers)
    text = f"The lamp goes out, {key}."
    return request_trial(chapter.pk, layer_number=number, text=text, submission_key=key)


def replies(chapter: Session) -> int:
    return chapter.events.filter(role=Event.Role.AGENT).count()


def test_a_form_sent_twice_at_once_is_one_trial_and_one_call(chapter: Session) -> None:
    first, second = at_once(lambda: try_again(chapter, "k"), lambda: try_again(chapter, "k"))
    assert first.pk == second.pk
    at_once(lambda: work_on(first.pk), lambda: work_on(first.pk))
    assert LLMArtifact.objects.filter(job=first).count() == 1


def test_a_reply_used_in_two_windows_stands_once(chapter: Session) -> None:
    job = try_again(chapter, "k")
    work_on(job.pk)
    turns = at_once(*[lambda: adopt_trial(chapter.pk, job.pk)] * 2)
    assert turns[0].pk == turns[1].pk
    assert replies(chapter) == 2
    check(chapter)


def test_of_a_trial_and_the_next_prompt_one_waits(chapter: Session) -> None:
    job = try_again(chapter, "k")
    work_on(job.pk)
    results = at_once(
        lambda: adopt_trial(chapter.pk, job.pk), opening(chapter, "A bell rings.", "next")
    )
    # The prompt may follow the adoption; nothing is adopted while the prompt is in flight.
    assert not isinstance(results[1], Exception)
    assert replies(chapter) == (1 if refusals(results) else 2)
    fail_turn(successes(results)[-1].turn, error="It ends here.", partial_text="")
    check(chapter)
