"""Tests that every provider has to pass: the scripted, the OpenAI-compatible and the embedded
provider."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from typing import ClassVar

import pytest

from agents.calling.tests.exploring import GO, LOOK
from agents.llm.embedded.server import LlamaServer
from agents.llm.embedded.slots import BACKGROUND_SLOT
from agents.llm.embedded.tests.embedded_model import run_small_model
from agents.llm.providers.answers.streamed_answers import TimeOuts
from agents.llm.providers.base import (
    Finished,
    Message,
    ModelRequest,
    Provider,
    StreamPart,
    TextDelta,
)
from agents.llm.providers.east_asian import is_east_asian
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnreachable,
    RealCallForbidden,
    StreamBroken,
    UnusableReply,
)
from agents.llm.providers.failures.retries import Retries
from agents.llm.providers.guard import allow_real_calls, forbid_real_calls
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.llm.providers.tests.chat_server import (
    Answer,
    chat_server,
    falls_silent,
    hangs_up,
    refuses,
    says,
)
from agents.prompting.forms.tool_answers import AnswerReader
from agents.prompting.forms.tool_forms import answer_schema

REQUEST = ModelRequest(
    model="model",
    messages=(
        Message("system", "You tell long stories."),
        Message("user", "Tell me of the lighthouse, in many words."),
    ),
    max_output_tokens=40,
    # This field makes llama.cpp write until the limit, because the tests must not depend on when
    # the model ends its text.
    extra_body={"ignore_eos": True},
)
USAGE = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
TEXT = "The lamp is dark."
REPLY = ["The ", "lamp ", "is ", "dark."]
SHORT = 0.05

Opened = AbstractAsyncContextManager[Provider]


async def read_all(provider: Provider, request: ModelRequest = REQUEST) -> list[StreamPart]:
    return [part async for part in provider.stream(request)]


async def read_into(parts: list[StreamPart], provider: Provider) -> None:
    async for part in provider.stream(REQUEST):
        parts.append(part)


def text_of(parts: list[StreamPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


class ProviderContract(ABC):
    """The tests of a provider that answers with text. Every provider has to pass them."""

    @abstractmethod
    def provider(self, replies: int = 1) -> Opened:
        """Open a provider that can give this many replies."""

    def run(self, test: Callable[[Provider], Awaitable[None]], replies: int = 1) -> None:
        async def scenario() -> None:
            async with self.provider(replies) as provider:
                await test(provider)

        asyncio.run(scenario())

    def test_text_comes_in_pieces_and_then_one_end(self) -> None:
        async def test(provider: Provider) -> None:
            *pieces, end = await read_all(provider)
            assert len(pieces) > 1
            assert all(isinstance(piece, TextDelta) and piece.text for piece in pieces)
            assert isinstance(end, Finished)

        self.run(test)

    def test_usage_is_reported(self) -> None:
        async def test(provider: Provider) -> None:
            *_pieces, end = await read_all(provider)
            assert isinstance(end, Finished)
            assert end.usage is not None
            assert end.usage.input_tokens > 0
            assert end.usage.output_tokens > 0

        self.run(test)

    def test_two_calls_at_once_do_not_mix(self) -> None:
        async def test(provider: Provider) -> None:
            both = await asyncio.gather(read_all(provider), read_all(provider))
            for parts in both:
                assert text_of(parts).strip()
                assert sum(isinstance(part, Finished) for part in parts) == 1

        self.run(test, replies=2)

    def test_after_an_early_close_it_answers_again(self) -> None:
        async def test(provider: Provider) -> None:
            async with aclosing(provider.stream(REQUEST)) as parts:
                assert isinstance(await anext(parts), TextDelta)
            assert isinstance((await read_all(provider))[-1], Finished)

        self.run(test, replies=2)

    def test_it_names_itself_and_where_texts_go(self) -> None:
        async def test(provider: Provider) -> None:
            assert provider.name
            assert provider.host == ""

        self.run(test)


class FailingContract(ABC):
    """The tests of failures. Every provider that a test can make fail in a chosen way has to pass
    them."""

    @abstractmethod
    def failing(self, error: type[ProviderError]) -> Opened:
        """Open a provider whose next reply fails with this error.

        If the error is StreamBroken, the reply has the words of TEXT before it fails.
        """

    @pytest.mark.parametrize(
        ("error", "is_permanent"),
        [
            (ProviderRefused, True),
            (ProviderBusy, False),
            (ProviderTimeout, False),
            (ProviderUnreachable, False),
            (UnusableReply, False),
        ],
    )
    def test_it_fails_before_any_text(
        self, error: type[ProviderError], *, is_permanent: bool
    ) -> None:
        async def scenario() -> None:
            async with self.failing(error) as provider:
                with pytest.raises(error, match=r"\w") as caught:
                    await read_all(provider)
                assert caught.value.permanent is is_permanent

        asyncio.run(scenario())

    def test_what_came_before_a_break_was_given_on(self) -> None:
        async def scenario() -> None:
            parts: list[StreamPart] = []
            async with self.failing(StreamBroken) as provider:
                with pytest.raises(StreamBroken):
                    await read_into(parts, provider)
            assert text_of(parts) == TEXT
            assert all(isinstance(part, TextDelta) for part in parts)

        asyncio.run(scenario())


class TestScripted(ProviderContract, FailingContract):
    @asynccontextmanager
    async def provider(self, replies: int = 1) -> AsyncIterator[Provider]:
        scripted = ScriptedProvider()
        scripted.enqueue(*[TEXT] * replies)
        yield scripted

    @asynccontextmanager
    async def failing(self, error: type[ProviderError]) -> AsyncIterator[Provider]:
        scripted = ScriptedProvider()
        text = TEXT if error is StreamBroken else ""
        scripted.enqueue(Script(text, error=error("It failed.")))
        yield scripted


@pytest.fixture
def _own_server(_no_real_calls: None) -> Iterator[None]:
    """Allow real calls, because they go to a server that the test itself starts."""
    allow_real_calls()
    yield
    forbid_real_calls()


@pytest.mark.usefixtures("_own_server")
class TestOpenAICompatible(ProviderContract, FailingContract):
    failing_answers: ClassVar[dict[type[ProviderError], Answer]] = {
        ProviderRefused: refuses(401, "Bad key"),
        ProviderBusy: refuses(503),
        ProviderTimeout: falls_silent(),
        ProviderUnreachable: hangs_up(),
        UnusableReply: says(),
        StreamBroken: hangs_up(*REPLY),
    }

    @asynccontextmanager
    async def provider(self, replies: int = 1) -> AsyncIterator[Provider]:
        async with chat_server(*[says(*REPLY, usage=USAGE)] * replies) as server:
            yield OpenAICompatibleProvider(base_url=server.base_url, api_key="key")

    @asynccontextmanager
    async def failing(self, error: type[ProviderError]) -> AsyncIterator[Provider]:
        limits = TimeOuts(first_text=SHORT) if error is ProviderTimeout else TimeOuts()
        async with chat_server(self.failing_answers[error]) as server:
            yield OpenAICompatibleProvider(
                base_url=server.base_url,
                api_key="key",
                time_outs=limits,
                retries=Retries(tries=1),
            )

    def test_the_guard_of_the_test_suite_stops_it(self) -> None:
        async def test(provider: Provider) -> None:
            forbid_real_calls()
            with pytest.raises(RealCallForbidden):
                await read_all(provider)

        self.run(test)


@pytest.mark.real_model
class TestEmbedded(ProviderContract):
    @pytest.fixture(scope="class", autouse=True)
    @staticmethod
    def server() -> Iterator[LlamaServer]:
        with run_small_model() as server:
            TestEmbedded.base_url = server.base_url
            yield server

    base_url: ClassVar[str]

    @asynccontextmanager
    async def provider(self, replies: int = 1) -> AsyncIterator[Provider]:
        yield EmbeddedProvider(base_url=self.base_url)

    def test_the_output_limit_cuts_the_reply(self) -> None:
        async def test(provider: Provider) -> None:
            *_pieces, end = await read_all(provider)
            assert isinstance(end, Finished)
            assert end.was_cut
            assert end.usage is not None
            assert end.usage.output_tokens == REQUEST.max_output_tokens

        self.run(test)

    def test_prose_and_json_are_kept_from_repeating_and_only_background_gives_way(self) -> None:
        provider = EmbeddedProvider(base_url="http://127.0.0.1:1")
        prose = provider.extra_fields(REQUEST)
        assert prose["dry_penalty_last_n"] > prose["dry_allowed_length"] > 0
        assert prose["dry_multiplier"] > 0
        assert prose["repeat_penalty"] > 1
        assert 0 < prose["min_p"] < 1
        assert "id_slot" not in prose
        # XTC skips the likeliest words, and a small model has few others that fit.
        assert "xtc_probability" not in prose
        shaped = provider.extra_fields(
            replace(REQUEST, json_schema={"type": "object"}, is_background=True)
        )
        assert shaped["id_slot"] == BACKGROUND_SLOT
        # For JSON, these settings must be missing, because JSON has to repeat its marks and keys.
        assert "repeat_penalty" not in shaped
        assert shaped["dry_penalty_last_n"] > shaped["dry_allowed_length"] > 3
        assert shaped["dry_multiplier"] > 0

    def test_it_writes_nothing_east_asian_unless_its_prompt_does(self) -> None:
        """The request makes the model prefer a Chinese character to all other tokens."""
        chinese = replace(
            REQUEST,
            messages=(Message("user", "山山山山山山山山"),),
            temperature=0.0,
            extra_body={**REQUEST.extra_body, "logit_bias": [["山", 100.0]]},
        )
        english = replace(chinese, messages=(Message("user", "On and on and on."),))
        shape = {
            "type": "object",
            "properties": {"said": {"type": "string", "minLength": 5, "maxLength": 20}},
            "required": ["said"],
            "additionalProperties": False,
        }

        async def test(provider: Provider) -> None:
            for request, is_free in [(chinese, True), (english, False)]:
                text = text_of(await read_all(provider, request))
                assert is_east_asian([Message("assistant", text)]) is is_free
                # Here the model may stop before the limit, because otherwise it would never close
                # the JSON object.
                request = replace(
                    request,
                    json_schema=shape,
                    max_output_tokens=400,
                    extra_body={"logit_bias": request.extra_body["logit_bias"]},
                )
                said = json.loads(text_of(await read_all(provider, request)))["said"]
                assert len(said) <= 20
                assert is_east_asian([Message("assistant", said)]) is is_free

        self.run(test, replies=4)

    def test_it_writes_an_object_with_calls_by_its_schema(self) -> None:
        """llama.cpp makes a grammar from the schema, so that even the smallest model keeps to the
        schema."""
        shaped = replace(
            REQUEST,
            json_schema=answer_schema([GO, LOOK]),
            max_output_tokens=300,
            extra_body={},
            temperature=0.0,
        )

        async def test(provider: Provider) -> None:
            reader = AnswerReader([GO, LOOK], "json")
            shown = ""
            async for part in provider.stream(shaped):
                shown += reader.take(part.text) if isinstance(part, TextDelta) else ""
            end = reader.end()
            # The limit may cut the answer, but the text before the cut must keep to the schema.
            assert shown + end.text
            assert {each.name for each in end.calls} <= {"go", "look"}

        self.run(test)

    def test_a_reply_is_written_beside_a_call_in_the_background(self) -> None:
        long = Message("user", "The keeper counts the steps. " * 20)
        summary = replace(REQUEST, messages=(long,), max_output_tokens=400, is_background=True)

        async def test(provider: Provider) -> None:
            async with aclosing(provider.stream(summary)) as background:
                await anext(background)
                *_pieces, end = await read_all(provider)
                assert isinstance(end, Finished)
                assert not isinstance(await anext(background), Finished)

        self.run(test)

    def test_a_longer_prompt_that_starts_the_same_is_not_read_again(self) -> None:
        start = "The keeper counts the steps. " * 40

        def request(text: str) -> ModelRequest:
            return ModelRequest("model", (Message("user", text),), max_output_tokens=2)

        async def test(provider: Provider) -> None:
            await read_all(provider, request(start))
            *_pieces, end = await read_all(provider, request(f"{start} Who knocks?"))
            assert isinstance(end, Finished)
            assert end.usage is not None
            assert end.usage.cached_tokens > 200

        self.run(test)
