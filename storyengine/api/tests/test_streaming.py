import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running.database import in_database
from agents.running.following import follow
from agents.running.live import LIVE_REPLIES, ReplyEnded, ReplyPart
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter
from storyengine.api import streaming
from storyengine.api.tests.calling import acall, address, assert_problem, call, events_in, in_loop

pytestmark = pytest.mark.django_db

PROMPT = {"agent_slot": 1, "user_text": "The door opens."}


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


async def stream(chapter: Session, action: str = "prompt", key: str = "") -> Any:
    headers = {"Accept": "text/event-stream"} | ({"Idempotency_Key": key} if key else {})
    body = PROMPT if action == "prompt" else None
    return await acall("POST", address(chapter, action), body, **headers)


async def all_events(chapter: Session, action: str = "prompt", key: str = "") -> Any:
    return [event async for event in events_in(await stream(chapter, action, key))]


def test_tokens_then_the_committed_turn(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("I step\nthrough — “ночь”.")
    events = in_loop(lambda: all_events(chapter, key="k1"))
    *tokens, (name, turn) = events
    assert {token[0] for token in tokens} == {"token"}
    assert all(set(token[1]) == {"text"} for token in tokens)
    assert "".join(token[1]["text"] for token in tokens) == "I step\nthrough — “ночь”."
    assert name == "turn"
    again = call("POST", address(chapter, "prompt"), PROMPT, Idempotency_Key="k1")
    assert turn == again.json()


def test_thoughts_without_a_beginning_are_taken_back(
    chapter: Session, provider: ScriptedProvider
) -> None:
    gate = asyncio.Event()
    thoughts = "She wants me dry.\n"
    provider.enqueue(Script(f"{thoughts}</think>\n\nI step through.", gate=gate, gate_at=3))

    async def scenario() -> list[Any]:
        found = []
        async for event in events_in(await stream(chapter)):
            found.append(event)
            gate.set()
        return found

    *tokens, (_, turn) = in_loop(scenario)
    assert any(token.get("is_restart") for _, token in tokens)
    last = max(at for at, (_, token) in enumerate(tokens) if token.get("is_restart"))
    assert "".join(token["text"] for _, token in tokens[last:]) == "I step through."
    assert [event["text"] for event in turn["events"] if event["role"] == "agent"] == [
        "I step through."
    ]


def test_the_first_token_comes_before_the_reply_is_whole(
    chapter: Session, provider: ScriptedProvider
) -> None:
    gate = asyncio.Event()
    provider.enqueue(Script("One two three.", gate=gate, gate_at=1))

    async def scenario() -> None:
        events = events_in(await stream(chapter))
        assert await anext(events) == ("token", {"text": "One "})
        turn = await in_database(Attempt.objects.get)
        assert (turn.status, turn.words) == ("running", "The door opens.")
        gate.set()
        rest = [event async for event in events]
        assert rest[-1][0] == "turn"

    in_loop(scenario)


def test_queries_do_not_grow_with_the_tokens(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.running.claims.FLUSH_SECONDS", 3_600)

    def count_queries(reply: str) -> int:
        provider.enqueue(reply)
        with CaptureQueriesContext(connections["default"]) as queries:
            assert in_loop(lambda: all_events(chapter))[-1][0] == "turn"
        return len(queries)

    count_queries("The first prompt.")
    assert count_queries("One two.") == count_queries("One " + "two " * 60)


def test_the_headers_keep_proxies_from_buffering(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def scenario() -> Any:
        response = await stream(chapter)
        async for _ in response:
            pass
        return response

    response = in_loop(scenario)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Accel-Buffering"] == "no"


def test_a_failure_ends_in_one_error_event(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue(Script("I step", error=StreamBroken("The reply broke off.")))
    events = in_loop(lambda: all_events(chapter))
    name, problem = events[-1]
    assert [event[0] for event in events].count("error") == 1
    assert name == "error"
    assert (problem["status"], problem["type"]) == (502, "urn:storyengine:turn-failed")
    assert problem["detail"] == "The reply broke off."
    assert problem["pending_turn"]["partial_text"] == "I step"


def test_a_refusal_before_the_reply_is_an_ordinary_problem(
    chapter: Session, provider: ScriptedProvider
) -> None:
    Session.objects.update(state="ENDED")
    response = in_loop(lambda: stream(chapter))
    assert_problem(response, 409, "wrong-state")


def test_a_reply_goes_on_when_the_listener_leaves(
    chapter: Session, provider: ScriptedProvider
) -> None:
    gate = asyncio.Event()
    provider.enqueue(Script("One two three.", gate=gate, gate_at=1))

    async def scenario() -> None:
        events = events_in(await stream(chapter))
        await anext(events)
        (live,) = LIVE_REPLIES.values()
        await events.aclose()
        gate.set()
        assert live.task is not None
        await asyncio.wait({live.task})

    in_loop(scenario)
    chapter.refresh_from_db()
    assert chapter.prompt_index == 1


def test_a_silent_model_is_covered_by_comments(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "KEEP_ALIVE_SECONDS", 0.01)
    gate = asyncio.Event()
    provider.enqueue(Script("One two.", gate=gate))

    async def scenario() -> list[bytes]:
        chunks = []
        async for chunk in await stream(chapter):
            chunks.append(chunk)
            gate.set()
        return chunks

    chunks = in_loop(scenario)
    assert chunks[0].startswith(b":")
    assert chunks[-1].startswith(b"event: turn\n")


def test_a_reply_whose_task_broke_off_is_followed_until_the_turn_is_settled(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task of the reply has ended, and the attempt still counts as running. A bug in the task
    could cause this."""
    provider.enqueue("I step through.")
    looked = []

    async def break_off_first(turn_id: UUID, *, pause: float) -> AsyncGenerator[ReplyPart | None]:
        looked.append(turn_id)
        if len(looked) == 1:
            yield ReplyEnded(Attempt(pk=turn_id, status=Attempt.Status.RUNNING))
            return
        async for part in follow(turn_id):
            yield part

    monkeypatch.setattr(streaming, "follow", break_off_first)
    events = in_loop(lambda: all_events(chapter))
    assert events[-1][0] == "turn"
    assert len(looked) == 2


@pytest.mark.parametrize(
    ("accept", "is_stream"),
    [
        ("text/event-stream", True),
        ("text/event-stream, application/json;q=0.5", True),
        ("application/json", False),
        ("application/json, text/event-stream", False),
        ("*/*", False),
        ("text/html", False),
    ],
)
def test_the_accept_header_chooses_the_form(
    chapter: Session, provider: ScriptedProvider, accept: str, is_stream: bool
) -> None:
    async def scenario() -> Any:
        response = await acall("POST", address(chapter, "prompt"), PROMPT, Accept=accept)
        if response.streaming:
            async for _ in response:
                pass
        return response

    assert in_loop(scenario).streaming is is_stream


def test_an_answered_submission_streams_its_answer_again(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue("I step through.")
    first = in_loop(lambda: all_events(chapter, key="k1"))
    again = in_loop(lambda: all_events(chapter, key="k1"))
    assert again == [("token", {"text": "I step through."}), first[-1]]
    assert len(provider.history) == 1
