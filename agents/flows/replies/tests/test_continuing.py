"""A reply that the output limit cut is continued once, or marked as cut."""

import asyncio

import pytest
from asgiref.sync import async_to_sync
from django.db.models import QuerySet
from pytest_django import Settings

from agents.calling.model_access import AgentModel
from agents.calling.records.stored_prompts import read_messages
from agents.flows.replies.turns import keep_reply, start_prompt, stop_reply
from agents.flows.tests.playing import play, reply_is_over, texts_of
from agents.llm.providers.failures.call_errors import EmptyReply, ProviderBusy
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.running.following import follow
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

CUT = Script("I take the lamp and go do", was_cut=True)


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara Venn", "2": "Tom"})


@pytest.fixture(autouse=True)
def _is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentModel, "is_small", False)


def calls() -> QuerySet[LLMArtifact]:
    return LLMArtifact.objects.order_by("created_at")


def test_it_is_one_reply_of_two_calls(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue(CUT, "down the stairs.")
    attempt = play(chapter)
    assert texts_of(chapter) == ["The door opens.", "I take the lamp and go down the stairs."]
    assert attempt.was_cut is False
    assert list(calls().values_list("raw_output_ref", "step", "attempt")) == [
        ("I take the lamp and go do", 1, attempt.pk),
        ("down the stairs.", 2, attempt.pk),
    ]
    first, second = map(read_messages, calls())
    assert second[: len(first)] == first
    assert second[len(first)].role == "assistant"
    assert second[len(first)].content == "I take the lamp and go"
    assert AdmittedCall.objects.count() == 2


@pytest.mark.parametrize(
    ("more", "whole"),
    [
        ("and go down.", "I take the lamp and go down."),
        ("I take the lamp and go down.", "I take the lamp and go down."),
        ("Mara Venn: down.", "I take the lamp and go down."),
        ("down.\n\nTom: I stay.", "I take the lamp and go down."),
    ],
)
def test_nothing_is_told_twice(
    chapter: Session, provider: ScriptedProvider, more: str, whole: str
) -> None:
    provider.enqueue(CUT, more)
    play(chapter)
    assert texts_of(chapter)[-1] == whole


def test_whoever_reads_along_sees_the_same_words(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(CUT, "and go down the stairs.")

    async def read() -> str:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        parts = [part async for part in follow(opened.attempt.pk)]
        await reply_is_over(opened.attempt.pk)
        return "".join(getattr(part, "text", "") for part in parts)

    read_along = async_to_sync(read)()
    assert read_along == texts_of(chapter)[-1] == "I take the lamp and go down the stairs."


@pytest.mark.parametrize("error", [ProviderBusy("busy"), EmptyReply("nothing")])
def test_a_continuation_that_fails_leaves_what_came(
    chapter: Session, provider: ScriptedProvider, error: Exception
) -> None:
    provider.enqueue(CUT, error)
    attempt = play(chapter)
    assert (attempt.status, attempt.was_cut) == (Attempt.Status.COMMITTED, True)
    assert texts_of(chapter)[-1] == CUT.text


def test_a_stop_keeps_both_parts(chapter: Session, provider: ScriptedProvider) -> None:
    async def stop() -> Attempt:
        gate = asyncio.Event()
        provider.enqueue(CUT, Script("down the long stairs.", gate=gate, gate_at=2))
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        async for part in follow(opened.attempt.pk):
            if "the" in getattr(part, "text", "").split() and len(provider.history) == 2:
                break
        attempt = await stop_reply(chapter.pk)
        await reply_is_over(attempt.pk)
        return attempt

    attempt = async_to_sync(stop)()
    attempt.refresh_from_db()
    assert attempt.status == Attempt.Status.STOPPED
    assert attempt.partial_text.startswith("I take the lamp and go down")
    assert keep_reply(chapter.pk).status == Attempt.Status.COMMITTED
    provider.enqueue("I stay.")
    assert play(chapter, key="after").status == Attempt.Status.COMMITTED


def test_a_cap_leaves_the_reply_cut(
    chapter: Session, provider: ScriptedProvider, settings: Settings
) -> None:
    settings.CHAPTER_CALLS_PER_MINUTE = 1
    provider.enqueue(CUT)
    assert play(chapter).was_cut is True
    assert texts_of(chapter)[-1] == CUT.text
    assert calls().count() == 1
