"""The stream of a reply tells what its steps change, to whoever follows it from wherever."""

import asyncio
from typing import Any

import pytest
from django.test import AsyncClient
from django.urls import reverse

from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import reply_is_over
from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running import claims, following
from agents.running.following import follow
from agents.running.live import LIVE_REPLIES, ReplyEnded, ReplyText, StepChanges
from sessions.models import FIRST_NUMBER_IN_PLAY, Attempt, Session
from storyengine.api.tests.calling import acall, address, events_in, in_loop
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import chosen
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]

BODY = {"agent_slot": 1, "user_text": "Go on."}


def two_steps() -> list[Any]:
    return [
        says("native", "I light it.", ("light", {"lamp": "n"}), ("hail", {"name": "Ann"})),
        says("native", "I ring.", ("ringBell", {"strokesOfTheBell": 2})),
        "She lands.",
    ]


async def stream(chapter: Session, key: str = "k") -> list[tuple[str, Any]]:
    headers = {"Accept": "text/event-stream", "Idempotency_Key": key}
    response = await acall("POST", address(chapter, "prompt"), BODY, **headers)
    return [event async for event in events_in(response)]


def told(events: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the events with the texts between two others joined, and of changes only the kinds."""
    summed: list[tuple[str, Any]] = []
    for name, data in events:
        if name == "token" and summed and summed[-1][0] == "token":
            summed[-1] = ("token", summed[-1][1] + data["text"])
        elif name == "token":
            summed.append((name, data["text"]))
        elif name == "change":
            summed.append((name, [one["kind"] for one in data["changes"]]))
        else:
            summed.append((name, None))
    return summed


def test_each_step_that_changes_something_is_one_event(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(*two_steps())
    events = in_loop(lambda: stream(chapter))
    assert told(events) == [
        ("token", "I light it."),
        ("change", ["lighthouse.lit", "person"]),
        ("token", "\n\nI ring."),
        ("change", ["lighthouse.rang"]),
        ("token", "\n\nShe lands."),
        ("turn", None),
    ]
    first, second = (data for name, data in events if name == "change")
    assert (first["step"], second["step"]) == (1, 2)
    # What is told is what is stored, with the number of whoever appears.
    assert [*first["changes"], *second["changes"]] == chosen(chapter, 1)["changes"]
    assert first["changes"][1]["payload"]["number"] == FIRST_NUMBER_IN_PLAY


def test_a_broken_reply_has_told_its_finished_steps(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(two_steps()[0], Script("I", error=StreamBroken("It broke.")))
    events = told(in_loop(lambda: stream(chapter)))
    assert [name for name, _ in events] == ["token", "change", "token", "error"]


def follow_waiting(
    chapter: Session, provider: ScriptedProvider, *, elsewhere: bool, until: int
) -> list[Any]:
    """Return what somebody gets who begins to follow while the third step waits. If `elsewhere`
    is True, another process writes the reply."""
    gate = asyncio.Event()
    provider.enqueue(*two_steps()[:2], Script("She lands at last.", gate=gate, gate_at=2))

    async def scenario() -> list[Any]:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        live = LIVE_REPLIES[opened.attempt.pk]
        while "She lands" not in live.text:
            await asyncio.sleep(0)
        if elsewhere:
            del LIVE_REPLIES[opened.attempt.pk]
        parts: list[Any] = []
        async for part in follow(opened.attempt.pk):
            parts.append(part)
            if len(parts) == until:
                gate.set()
        LIVE_REPLIES.pop(opened.attempt.pk, None)
        await reply_is_over(opened.attempt.pk)
        return parts

    return in_loop(scenario)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_late_follower_gets_them_in_their_places(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: bool,
) -> None:
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)
    parts = follow_waiting(chapter, provider, elsewhere=elsewhere, until=5)
    kinds = [type(part) for part in parts[:5]]
    assert kinds == [ReplyText, StepChanges, ReplyText, StepChanges, ReplyText]
    assert [part.step for part in parts if isinstance(part, StepChanges)] == [1, 2]
    texts = [part.text for part in parts[:5] if isinstance(part, ReplyText)]
    whole = "I light it.\n\nI ring.\n\nShe lands "
    assert texts[0] == "I light it."
    assert "".join(texts) == whole
    assert isinstance(parts[-1], ReplyEnded)
    assert parts[-1].attempt.status == Attempt.Status.COMMITTED


def test_a_page_is_told_that_a_step_changed_something(
    chapter: Session, provider: ScriptedProvider
) -> None:
    gate = asyncio.Event()
    lights = two_steps()[0]
    provider.enqueue(lights, Script("She lands at last.", gate=gate, gate_at=1))

    async def scenario() -> str:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        path = reverse("pages:stream", args=[chapter.pk, opened.attempt.pk])
        response: Any = await AsyncClient().get(path)
        frames = ""
        async for frame in response:
            frames += frame.decode()
            if "event: change" in frames:
                gate.set()
        return frames

    frames = in_loop(scenario)
    assert "event: change\ndata: 1\n\n" in frames
    # The words come in as many pieces as the page was quick to read.
    assert "light" in frames.partition("event: change")[0]
    assert "lighthouse.lit" not in frames
