"""Tests of the requests that an OpenAI-compatible server is sent, and of the reading of its
answers."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync

from agents.llm.providers.answers import streamed_answers
from agents.llm.providers.base import Finished, TextDelta, Usage
from agents.llm.providers.failures.call_errors import (
    ProviderError,
    UnusableReply,
)
from agents.llm.providers.http_clients import host_of
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.llm.providers.tests.chat_server import (
    chat_server,
    falls_silent,
    responds,
    says,
    says_at_once,
)
from agents.tests.calling import (
    KEY,
    LONG,
    REQUEST,
    Outcome,
    call,
    provider_at,
    read_into,
)

pytestmark = pytest.mark.usefixtures("calls_allowed")

WHOLE = replace(REQUEST, streams=False)


class TestWhatIsSent:
    def test_it_asks_for_a_stream_with_usage_under_the_key(self) -> None:
        outcome = call(says("Yes."))
        exchange = outcome.server.exchanges[0]
        assert exchange.path == "/v1/chat/completions"
        assert exchange.headers["authorization"] == f"Bearer {KEY}"
        assert exchange.body == {
            "model": "some-model",
            "messages": [
                {"role": "system", "content": "Be Mara."},
                {"role": "user", "content": "The door opens."},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 50,
        }

    def test_temperature_and_further_fields_are_sent_when_given(self) -> None:
        request = replace(REQUEST, temperature=0.0, extra_body={"min_p": 0.05})
        body = call(says("Yes."), request=request).body
        assert body["temperature"] == 0.0
        assert body["min_p"] == 0.05

    @pytest.mark.parametrize(
        ("name_schema", "is_strict"),
        [
            ({"type": "string"}, True),
            ({"type": "string", "maxLength": 9}, False),
            ({"type": "object", "properties": {"first": {"type": "string"}}}, False),
        ],
    )
    def test_a_schema_is_strict_only_where_strict_mode_can_take_it(
        self, name_schema: dict[str, object], *, is_strict: bool
    ) -> None:
        schema = {
            "type": "object",
            "properties": {"names": {"type": "array", "items": name_schema}},
            "required": ["names"],
            "additionalProperties": False,
        }
        body = call(says("{}"), request=replace(REQUEST, json_schema=schema)).body
        assert body["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": schema, "strict": is_strict},
        }

    @pytest.mark.parametrize(
        ("host", "is_sent"),
        [
            ("api.openai.com", True),
            ("eu.api.openai.com", True),
            ("api.mistral.ai", True),
            ("", False),
            ("openrouter.ai", False),
            ("api.openai.com.evil.example", False),
            ("myapi.openai.com", False),
        ],
    )
    def test_a_cache_key_is_sent_only_where_it_is_taken(self, host: str, *, is_sent: bool) -> None:
        async def run() -> Outcome:
            async with chat_server(says("Yes.")) as server:
                outcome, provider = Outcome(server), provider_at(server.base_url)
                provider.host = host
                await read_into(outcome, provider, replace(REQUEST, cache_key="c0ffee"))
                return outcome

        outcome = asyncio.run(run())
        assert outcome.text == "Yes."
        assert outcome.body.get("prompt_cache_key") == ("c0ffee" if is_sent else None)


class TestWhatIsRead:
    def test_usage_names_cached_tokens(self) -> None:
        details = {"prompt_tokens_details": {"cached_tokens": 64}}
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, **details}
        assert call(says("Yes.", usage=usage)).end.usage == Usage(100, 7, 64)


class TestAnswersAsAWhole:
    def test_no_stream_is_asked_for(self) -> None:
        body = call(says_at_once("Yes."), request=replace(WHOLE, temperature=0.5)).body
        assert body == {
            "model": "some-model",
            "messages": [
                {"role": "system", "content": "Be Mara."},
                {"role": "user", "content": "The door opens."},
            ],
            "stream": False,
            "max_tokens": 50,
            "temperature": 0.5,
        }

    def test_the_text_is_one_piece_with_its_usage(self) -> None:
        details = {"prompt_tokens_details": {"cached_tokens": 64}}
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, **details}
        said = "I step  inside.\n\n“Who?”"
        outcome = call(says_at_once(f"\n{said}", usage=usage), request=WHOLE)
        assert outcome.texts == [said]
        assert outcome.end == Finished(was_cut=False, usage=Usage(100, 7, 64))

    def test_a_limit_that_went_into_reasoning_is_told(self) -> None:
        outcome = call(says_at_once("", "length", reasoning_content="Hm."), request=WHOLE)
        assert isinstance(outcome.error, UnusableReply)
        assert "50 tokens" in str(outcome.error)

    @pytest.mark.parametrize(
        "body",
        ["<html>", {}, [], {"choices": []}, {"choices": [7]}, {"choices": [{"message": None}]}],
    )
    def test_what_is_no_completion_is_no_reply(self, body: object) -> None:
        outcome = call(responds(200, body), request=WHOLE)
        assert isinstance(outcome.error, UnusableReply)
        assert "did not answer in the OpenAI chat protocol" in str(outcome.error)


class TestConnections:
    def test_closing_the_stream_hangs_up_at_once(self) -> None:
        async def run() -> None:
            async with chat_server(falls_silent("I step", " inside")) as server:
                async with aclosing(provider_at(server.base_url).stream(REQUEST)) as parts:
                    assert await anext(parts) == TextDelta("I step")
                    assert not server.is_left.is_set()
                await asyncio.wait_for(server.is_left.wait(), LONG)

        asyncio.run(run())

    def test_the_first_text_is_not_kept_back_for_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streamed_answers, "GROUP_SECONDS", 3_600)
        monkeypatch.setattr(streamed_answers, "_WAITED_SECONDS", -1)

        async def run() -> None:
            async with (
                chat_server(falls_silent("I step")) as server,
                aclosing(provider_at(server.base_url).stream(REQUEST)) as parts,
            ):
                assert await asyncio.wait_for(anext(parts), LONG) == TextDelta("I step")

        asyncio.run(run())

    def test_cancelling_the_reader_hangs_up_at_once(self) -> None:
        async def run() -> None:
            async with chat_server(falls_silent()) as server:
                outcome = Outcome(server)
                reading = asyncio.ensure_future(read_into(outcome, provider_at(server.base_url)))
                while not server.exchanges:
                    await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait_for(server.is_left.wait(), LONG)
                assert reading.cancelled()

        asyncio.run(run())

    def test_every_loop_gets_connections_of_its_own_and_closes_them(
        self, recwarn: pytest.WarningsRecorder
    ) -> None:
        async def serve(provider_box: list[OpenAICompatibleProvider]) -> None:
            async with chat_server(says("Yes.")) as server:
                provider = provider_at(server.base_url)
                provider_box.append(provider)
                outcome = Outcome(server)
                await read_into(outcome, provider)
                assert outcome.text == "Yes."

        providers: list[OpenAICompatibleProvider] = []
        for _ in range(3):
            async_to_sync(serve)(providers)
        assert [provider._clients for provider in providers] == [{}, {}, {}]
        assert [str(each.message) for each in recwarn if each.category is ResourceWarning] == []


class TestHost:
    @pytest.mark.parametrize(
        ("base_url", "host"),
        [
            ("https://api.openai.com/v1", "api.openai.com"),
            ("http://192.168.1.7:11434/v1", "192.168.1.7"),
            ("http://127.0.0.1:8080/v1", ""),
            ("http://127.8.9.10/v1", ""),
            ("http://localhost:11434/v1", ""),
            ("http://LOCALHOST/v1", ""),
            ("http://[::1]:8080/v1", ""),
            ("http://localhost@evil.example/v1", "evil.example"),
            ("http://localhost.evil.example/v1", "localhost.evil.example"),
            ("http://127.0.0.1.evil.example/v1", "127.0.0.1.evil.example"),
            ("http://[fe80::1]/v1", "fe80::1"),
            ("api.openai.com/v1", "api.openai.com/v1"),
            ("http://a:b:c/v1", "http://a:b:c/v1"),
        ],
    )
    def test_only_loopback_is_this_machine(self, base_url: str, host: str) -> None:
        assert host_of(base_url) == host

    def test_a_proxy_of_the_environment_gets_nothing_meant_for_this_machine(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        assert call(says("Yes.")).text == "Yes."

    def test_an_address_that_is_none_is_refused_in_words(self) -> None:
        async def run() -> Outcome:
            async with chat_server() as server:
                outcome = Outcome(server)
                for address in ("api.openai.com/v1", "http://a:b:c", ""):
                    await read_into(outcome, provider_at(address))
                    assert isinstance(outcome.error, ProviderError)
                return outcome

        asyncio.run(run())
