"""Tests of how each provider offers tools, gathers the tool calls of a reply, and sends them
back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.providers.answers.tool_calls import MOST_ARGUMENTS, MOST_CALLS, GatheredCalls
from agents.llm.providers.base import (
    Finished,
    Message,
    ModelRequest,
    Provider,
    StreamPart,
    TextDelta,
    ToolCall,
    ToolSchema,
)
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.llm.providers.failures.call_errors import (
    EmptyReply,
    StreamBroken,
    UnusableReply,
)
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.llm.providers.tests.chat_server import (
    Answer,
    calls_tools,
    chat_server,
    refuses,
    says,
    says_at_once,
    streams,
)
from agents.tests.calling import call, delta_chunk
from sessions.language.text import with_replacements

pytestmark = pytest.mark.usefixtures("calls_allowed")

GO = ToolSchema(
    "go", "Goes somewhere.", {"type": "object", "properties": {"to": {"type": "string"}}}
)
LOOK = ToolSchema("look", "Looks around.", {"type": "object", "properties": {}})
REQUEST = ModelRequest(
    model="model",
    messages=(Message("system", "You explore."), Message("user", "Go on.")),
    max_output_tokens=40,
    tools=(GO, LOOK),
)
QUAY = ToolCall("call-1", "go", '{"to": "the quay"}')
ROUND = ToolCall("call-2", "look", "{}")
TEXT = "I step outside."

Opened = AbstractAsyncContextManager[Provider]


async def read_all(provider: Provider, request: ModelRequest = REQUEST) -> list[StreamPart]:
    return [part async for part in provider.stream(request)]


def fragments_of(calls: Sequence[ToolCall], size: int = 4) -> list[dict[str, Any]]:
    """Cut the calls into fragments as OpenAI does.

    The first fragment of a call has the name of the tool. Each further fragment has a piece of the
    arguments.
    """
    fragments: list[dict[str, Any]] = []
    for index, one in enumerate(calls):
        function = {"name": one.name, "arguments": ""}
        fragments.append({"index": index, "id": one.call_id, "function": function})
        for at in range(0, len(one.arguments), size):
            piece = {"arguments": one.arguments[at : at + size]}
            fragments.append({"index": index, "function": piece})
    return fragments


class ToolContract(ABC):
    """The tests of tool calls. Every provider has to pass these tests."""

    streams = True

    @abstractmethod
    def provider(self, text: str, *calls: ToolCall) -> Opened:
        """Open a provider whose next reply has this text and these calls."""

    def read(self, text: str, *calls: ToolCall, **changes: Any) -> list[StreamPart]:
        async def scenario() -> list[StreamPart]:
            async with self.provider(text, *calls) as provider:
                request = replace(REQUEST, streams=self.streams, **changes)
                return await read_all(provider, request)

        return asyncio.run(scenario())

    def test_calls_come_whole_behind_the_text_and_before_the_end(self) -> None:
        *texts, first, second, end = self.read(TEXT, QUAY, ROUND)
        assert texts
        assert "".join(part.text for part in texts if isinstance(part, TextDelta)) == TEXT
        assert [first, second] == [QUAY, ROUND]
        assert isinstance(end, Finished)

    def test_a_reply_may_have_calls_alone(self) -> None:
        first, end = self.read("", QUAY)
        assert first == QUAY
        assert isinstance(end, Finished)

    def test_a_reply_may_have_none(self) -> None:
        assert not [part for part in self.read(TEXT) if isinstance(part, ToolCall)]

    def test_neither_text_nor_calls_is_an_empty_reply(self) -> None:
        with pytest.raises(EmptyReply):
            self.read("")

    def test_broken_arguments_are_given_on_as_they_are(self) -> None:
        broken = replace(QUAY, arguments='{"to": "the q')
        assert self.read("", broken)[0] == broken

    def test_whoever_offers_no_tools_is_given_no_calls(self) -> None:
        parts = self.read(TEXT, QUAY, tools=())
        assert not [part for part in parts if isinstance(part, ToolCall)]
        with pytest.raises(UnusableReply):
            self.read("", QUAY, tools=())


class TestScripted(ToolContract):
    @asynccontextmanager
    async def provider(self, text: str, *calls: ToolCall) -> AsyncIterator[Provider]:
        scripted = ScriptedProvider()
        scripted.enqueue(Script(text, tool_calls=calls))
        yield scripted


class WireContract(ToolContract):
    """The tests of what a provider sends to a server and receives from the server.

    Every provider that calls a server has to pass these tests.
    """

    def make(self, base_url: str) -> Provider:
        return OpenAICompatibleProvider(base_url=base_url, api_key="key")

    def answer(self, text: str, calls: Sequence[ToolCall]) -> Answer:
        return calls_tools(*fragments_of(calls), text=text) if calls else says(text)

    @asynccontextmanager
    async def provider(self, text: str, *calls: ToolCall) -> AsyncIterator[Provider]:
        async with chat_server(self.answer(text, calls)) as server:
            yield self.make(server.base_url)

    def body_of(self, request: ModelRequest) -> dict[str, Any]:
        async def scenario() -> dict[str, Any]:
            async with chat_server(self.answer(TEXT, ())) as server:
                await read_all(self.make(server.base_url), request)
                return server.bodies[0]

        return asyncio.run(scenario())

    def test_tools_are_offered_in_the_protocols_form(self) -> None:
        body = self.body_of(replace(REQUEST, streams=self.streams))
        assert body["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in (GO, LOOK)
        ]
        # llama.cpp refuses a request that has both a grammar and tools.
        assert "grammar" not in body
        assert "tools" not in self.body_of(replace(REQUEST, tools=(), streams=self.streams))

    def test_calls_and_results_go_back(self) -> None:
        told = (
            *REQUEST.messages,
            Message("assistant", TEXT, tool_calls=(QUAY,)),
            Message("tool", "You are there.", tool_call_id="call-1"),
        )
        messages = self.body_of(replace(REQUEST, messages=told, streams=self.streams))["messages"]
        assert messages[:2] == [
            {"role": "system", "content": "You explore."},
            {"role": "user", "content": "Go on."},
        ]
        function = {"name": "go", "arguments": '{"to": "the quay"}'}
        assert messages[2:] == [
            {
                "role": "assistant",
                "content": TEXT,
                "tool_calls": [{"id": "call-1", "type": "function", "function": function}],
            },
            {"role": "tool", "content": "You are there.", "tool_call_id": "call-1"},
        ]


class TestOpenAICompatible(WireContract):
    pass


class TestEmbedded(WireContract):
    def make(self, base_url: str) -> Provider:
        return EmbeddedProvider(base_url=base_url)


class TestAnswersThatComeWhole(WireContract):
    streams = False

    def answer(self, text: str, calls: Sequence[ToolCall]) -> Answer:
        sent = [each.as_sent() for each in calls]
        return says_at_once(text or None, "tool_calls" if calls else "stop", tool_calls=sent)


def gathered(*fragments: object) -> list[tuple[str, str]]:
    calls = GatheredCalls()
    for fragment in fragments:
        calls.take([fragment])
    return [(each.name, each.arguments) for each in calls.gathered()]


def said(name: str = "", arguments: object = "", **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name or None, "arguments": arguments}}


class TestFragments:
    @given(
        st.lists(st.tuples(st.sampled_from(["go", "look"]), st.text(max_size=9)), max_size=6),
        st.integers(1, 5),
        st.randoms(use_true_random=False),
    )
    def test_by_their_index_in_whatever_order(
        self, wanted: list[tuple[str, str]], size: int, random: Any
    ) -> None:
        calls = [ToolCall(f"id-{at}", name, text) for at, (name, text) in enumerate(wanted)]
        heads = [one for one in fragments_of(calls, size) if "id" in one]
        queues = [
            [one for one in fragments_of(calls, size) if one["index"] == at and "id" not in one]
            for at in range(len(calls))
        ]
        mixed = list(heads)
        while waiting := [queue for queue in queues if queue]:
            mixed.append(random.choice(waiting).pop(0))
        assert gathered(*mixed) == [(name, with_replacements(text)) for name, text in wanted]

    @pytest.mark.parametrize("head", [{"index": 0}, {}], ids=["one index for all", "no index"])
    def test_by_their_ids(self, head: dict[str, int]) -> None:
        fragments = [
            said("go", '{"to": ', id="a", **head),
            said("", '"quay"}', id="a", **head),
            said("look", "{}", id="b", **head),
        ]
        assert gathered(*fragments) == [("go", '{"to": "quay"}'), ("look", "{}")]

    def test_the_17th_call_says_that_it_is_not_run(self) -> None:
        calls = GatheredCalls()
        calls.take([said("go", "{}", index=at) for at in range(MOST_CALLS + 5)])
        calls.take([said("", '{"to": "the 16th"}')])
        *run, more = calls.gathered()
        assert [(each.arguments, each.problem) for each in run] == [("{}", "")] * MOST_CALLS
        assert "Only the first 16 calls" in more.problem

    def test_arguments_that_are_too_long_are_left_out(self) -> None:
        calls = GatheredCalls()
        for _ in range(MOST_ARGUMENTS // 100 + 1):
            calls.take([said("go", "x" * 100, index=0)])
        calls.take([said("look", "{}", index=1)])
        first, second = calls.gathered()
        assert (first.arguments, second.arguments) == ("{}", "{}")
        assert "more than 20,000 characters" in first.problem
        assert second.problem == ""

    def test_ids_and_names_are_such_as_servers_take_back(self) -> None:
        calls = GatheredCalls()
        calls.take([said("look around\n", "{}", id="one two"), said("", "{}", index=3)])
        calls.take([said("go", "{}", id="x", index=4), said("go", "{}", id="x", index=5)])
        names = [each.name for each in calls.gathered()]
        assert names == ["look_around_", "unnamed", "go", "go"]
        assert len({each.call_id for each in calls.gathered()}) == 4
        assert all(each.call_id.isalnum() for each in calls.gathered())


def test_arguments_count_as_text_does_towards_the_limit() -> None:
    long = replace(QUAY, arguments="x" * 1_500)
    fragments = fragments_of([long, replace(ROUND, arguments="y" * 1_500)], size=500)
    outcome = call(calls_tools(*fragments, text=TEXT), request=REQUEST)
    assert outcome.end.was_cut
    assert outcome.tool_calls[0] == long


def test_a_reply_that_breaks_off_gives_no_call() -> None:
    deltas = [delta_chunk(tool_calls=[one]) for one in fragments_of([QUAY])]
    outcome = call(streams(delta_chunk(content=TEXT), *deltas), request=REQUEST)
    assert isinstance(outcome.error, StreamBroken)
    assert (outcome.text, outcome.tool_calls) == (TEXT, [])


class TestReasoningEffort:
    ASKED = replace(REQUEST, reasoning_effort="low")

    def test_it_is_sent_where_it_is_asked_for(self) -> None:
        assert call(says(TEXT), request=self.ASKED).body["reasoning_effort"] == "low"
        assert "reasoning_effort" not in call(says(TEXT), request=REQUEST).body

    def test_a_server_that_refuses_it_is_asked_without_it(self) -> None:
        no = refuses(400, "Unrecognized request argument supplied: reasoning_effort")
        outcome = call(no, says(TEXT), request=self.ASKED)
        assert outcome.text == TEXT
        assert ["reasoning_effort" in body for body in outcome.server.bodies] == [True, False]
        assert outcome.waits == []
