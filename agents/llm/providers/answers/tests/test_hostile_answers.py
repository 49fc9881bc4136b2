"""Tests that a hostile answer takes little memory and ends in a reply or an error.

The client's next call must succeed.
"""

import asyncio
import json
import os
import tracemalloc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from agents.llm.providers.answers.streamed_answers import TimeOuts
from agents.llm.providers.answers.tool_calls import MOST_ARGUMENTS, MOST_CALLS
from agents.llm.providers.base import ToolSchema
from agents.llm.providers.failures.call_errors import ProviderTimeout, StreamBroken, UnusableReply
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.llm.providers.tests.chat_server import (
    STREAM_HEAD,
    Answer,
    ChatServer,
    Exchange,
    responds,
    says,
    says_at_once,
    streams,
)
from agents.llm.providers.tests.hostile_server import ANSWERS, HostileAnswer, hostile_server
from agents.llm.providers.windows import ask_windows
from agents.tests.calling import (
    LONG,
    REQUEST,
    SHORT,
    Outcome,
    call,
    delta_chunk,
    provider_at,
    read_into,
)

pytestmark = pytest.mark.usefixtures("calls_allowed")

LIMIT = 50
TOOL = ToolSchema("go", "Goes.", {"type": "object", "properties": {}})
HOSTILE = replace(REQUEST, model="hostile", max_output_tokens=LIMIT)
MOST_CHARACTERS = LIMIT * 50
# Reading one answer may take at most this many bytes of memory.
MOST_MEMORY = 40_000_000

# Each run tries a third of the answers of each kind, and the weekly run all of them.
EVERY = int(os.environ.get("STORYENGINE_TEST_STRIDE", "3"))

every_answer = pytest.mark.parametrize(
    "answer",
    [
        pytest.param(answer, id=f"{kind}-{name}")
        for kind, answers in ANSWERS.items()
        for name, answer in list(answers.items())[::EVERY]
    ],
)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


async def ask(provider: OpenAICompatibleProvider, model: str, *, is_stream: bool) -> Outcome:
    outcome = Outcome(ChatServer(deque()))
    await read_into(outcome, provider, replace(HOSTILE, model=model, streams=is_stream))
    return outcome


@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
@every_answer
def test_a_call_ends_in_words_and_the_next_one_works(
    answer: HostileAnswer, *, is_stream: bool
) -> None:
    async def run(base_url: str) -> list[Outcome]:
        provider = provider_at(base_url)
        with little_memory():
            hostile = await ask(provider, "hostile", is_stream=is_stream)
        return [hostile, await ask(provider, "ordinary", is_stream=True)]

    with hostile_server(lambda _: "Yes.") as server:
        server.answers["hostile"] = answer
        hostile, ordinary = asyncio.run(run(server.base_url))
    # Bytes after the end of an answer may come so late that the client takes them for the answer to
    # its next request. This is allowed, because a server may give any answer to a request.
    may_come_late = answer is ANSWERS["length"]["an answer to nothing"]
    assert ordinary.text == "Yes." or (may_come_late and ordinary.text.startswith("I step"))
    assert len(hostile.text) <= MOST_CHARACTERS
    if is_stream:
        assert bool(hostile.failure) == bool(answer.told)
        assert answer.told in str(hostile.failure)
        assert answer.said in (hostile.failure.said if hostile.failure else "")
    else:
        assert hostile.text or str(hostile.error)
    assert len(str(hostile.failure)) < 700
    # The failure is stored and shown, so its message must be valid text whatever the server sent.
    assert "\0" not in str(hostile.failure).encode().decode()


@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", ANSWERS["tool calls"])
def test_with_tools_to_call_it_ends_too(name: str, *, is_stream: bool) -> None:
    """The client keeps at most MOST_CALLS tool calls of limited length. It may add one further tool
    call, whose `problem` says that this call is not run."""

    async def run(base_url: str) -> list[Outcome]:
        provider = provider_at(base_url)
        outcomes = []
        for request in (replace(HOSTILE, tools=(TOOL,), streams=is_stream), REQUEST):
            outcomes.append(Outcome(ChatServer(deque())))
            with little_memory():
                await read_into(outcomes[-1], provider, request)
        return outcomes

    with hostile_server(lambda _: "Yes.") as server:
        server.answers["hostile"] = ANSWERS["tool calls"][name]
        hostile, ordinary = asyncio.run(run(server.base_url))
    assert ordinary.text == "Yes."
    assert bool(hostile.failure) == (not hostile.finished)
    assert hostile.failure or hostile.text or hostile.tool_calls
    assert len(hostile.text) <= MOST_CHARACTERS
    assert len(hostile.tool_calls) <= MOST_CALLS + 1
    assert len({each.call_id for each in hostile.tool_calls}) == len(hostile.tool_calls)
    for each in hostile.tool_calls:
        assert 0 < len(each.name) <= 64
        assert len(each.arguments) <= MOST_ARGUMENTS
        # The arguments are stored and sent back to the server, so they must be valid text.
        assert "\0" not in each.arguments.encode().decode()
        assert len(each.call_id) <= 100


@every_answer
def test_a_question_about_windows_ends(answer: HostileAnswer) -> None:
    with hostile_server(lambda _: "") as server, little_memory():
        server.answers[""] = answer
        windows = asyncio.run(ask_windows(server.base_url, "", ["some-model"]))
    assert windows in ({}, {"some-model": None})


class TestTheLimit:
    """The text of a reply is cut at the limit. Hidden text counts towards the limit too."""

    @pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
    def test_words_beyond_it_are_left_out(self, *, is_stream: bool) -> None:
        words = "I step. " * MOST_CHARACTERS
        outcome = call(
            says(words) if is_stream else says_at_once(words),
            request=replace(HOSTILE, streams=is_stream),
        )
        assert outcome.text == words[:MOST_CHARACTERS]
        assert outcome.end.was_cut

    def test_so_do_thoughts_in_the_reply(self) -> None:
        thoughts = f"<think>{'x' * (MOST_CHARACTERS - 21)}</think>"
        assert call(says(thoughts, "I step inside."), request=HOSTILE).text == "I step"

    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "refusal"])
    def test_hidden_ones_leave_less_for_the_others(self, field: str) -> None:
        hidden = delta_chunk(**{"content": "", field: "x" * (MOST_CHARACTERS - 6)})
        outcome = call(streams(hidden, delta_chunk(content="I step inside.")), request=HOSTILE)
        assert outcome.text == "I step"
        assert outcome.end.was_cut

    @pytest.mark.parametrize(
        ("field", "part"),
        [
            ("reasoning_details", {"type": "reasoning.text", "text": "{}", "format": "x" * 99}),
            ("reasoning_details", {"type": "reasoning.summary", "summary": "{}"}),
            ("content", {"type": "thinking", "thinking": [{"type": "text", "text": "{}"}]}),
        ],
    )
    def test_so_do_parts(self, field: str, part: dict[str, Any]) -> None:
        text = json.dumps([part]).replace("{}", "x" * (MOST_CHARACTERS - 6))
        hidden = delta_chunk(**{"content": "", field: json.loads(text)})
        outcome = call(streams(hidden, delta_chunk(content="I step inside.")), request=HOSTILE)
        assert outcome.text == "I step"


class TestTheDeadline:
    """Each piece of data from the server extends the time for the next word, but not the time for
    the whole reply."""

    # Even on a busy machine, the first words come within this many seconds.
    WHOLE = 10 * SHORT
    LIMITS = TimeOuts(LONG, LONG, LONG, LONG, a_token=(WHOLE - LONG) / LIMIT)

    @staticmethod
    def drips(first: str, **then: str) -> Answer:
        async def answer(exchange: Exchange) -> None:
            await exchange.send_raw(STREAM_HEAD)
            await exchange.send_text(first)
            while not exchange.is_left.is_set():
                await exchange.send_text("", **then)
                await asyncio.sleep(SHORT / 10)

        return answer

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            (drips("I step"), StreamBroken),
            (drips("", reasoning="x"), ProviderTimeout),
            (drips("<think>"), ProviderTimeout),
        ],
        ids=["words", "reasoning", "thoughts"],
    )
    def test_a_reply_that_drips_is_ended(self, answer: Answer, error: type[Exception]) -> None:
        outcome = call(answer, request=HOSTILE, time_outs=self.LIMITS)
        assert isinstance(outcome.error, error)
        assert "had not finished its reply" in str(outcome.error)
        assert outcome.waits == []


class TestPackedAnswers:
    @pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity, br", "x-gzip"])
    def test_one_is_refused_by_what_it_says_of_itself(self, encoding: str) -> None:
        outcome = call(responds(200, {}, headers={"Content-Encoding": encoding}))
        assert isinstance(outcome.error, UnusableReply)
        assert "compressed" in str(outcome.error)

    def test_none_is_asked_for(self) -> None:
        assert call(says("Yes.")).server.exchanges[0].headers["accept-encoding"] == "identity"


def test_a_server_gets_no_cookies_back() -> None:
    outcome = call(responds(503, headers={"Set-Cookie": "a=b; Path=/"}), says("Yes."))
    assert outcome.text == "Yes."
    assert "cookie" not in outcome.server.exchanges[1].headers
