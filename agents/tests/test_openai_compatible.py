"""What goes over the wire to an OpenAI-compatible server, and what is made of what comes back."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents.providers.base import Finished, Message, ModelRequest, Provider, TextDelta, Usage
from agents.providers.exceptions import (
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnreachable,
    StreamBroken,
    UnusableReply,
)
from agents.providers.guard import allow_real_calls, forbid_real_calls
from agents.providers.openai_compatible import (
    OpenAICompatibleProvider,
    Retries,
    TimeOuts,
    host_of,
)
from agents.tests.chat_server import (
    STREAM_HEAD,
    Answer,
    ChatServer,
    Exchange,
    chat_server,
    falls_silent,
    hangs_up,
    refuses,
    responds,
    says,
    streams,
)

KEY = "sk-very-secret"
REQUEST = ModelRequest(
    model="some-model",
    messages=(Message("system", "Be Mara."), Message("user", "The door opens.")),
    max_output_tokens=50,
)
# Longer than any test may take, and short enough to wait for.
LONG, SHORT = 30.0, 0.05


@pytest.fixture(autouse=True)
def _calls_allowed(_no_real_calls: None) -> Iterator[None]:
    """The server is the test's own, on loopback."""
    allow_real_calls()
    yield
    forbid_real_calls()


@dataclass
class Outcome:
    """All that a call gave, and what the server saw of it."""

    server: ChatServer
    texts: list[str] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    failure: ProviderError | None = None
    # Seconds that the provider would have slept before each retry.
    waits: list[float] = field(default_factory=list)

    @property
    def error(self) -> ProviderError:
        assert self.failure is not None, "The call was expected to fail."
        return self.failure

    @property
    def end(self) -> Finished:
        assert self.failure is None, self.failure
        (finished,) = self.finished
        return finished

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def body(self) -> dict[str, Any]:
        return self.server.exchanges[-1].body


def provider_at(
    base_url: str, *, time_outs: TimeOuts | None = None, waits: list[float] | None = None
) -> OpenAICompatibleProvider:
    async def note(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    return OpenAICompatibleProvider(
        base_url=base_url,
        api_key=KEY,
        time_outs=time_outs or TimeOuts(LONG, LONG, LONG, LONG),
        retries=Retries(tries=3, sleep=note),
    )


async def read_into(outcome: Outcome, provider: Provider, request: ModelRequest = REQUEST) -> None:
    try:
        async for part in provider.stream(request):
            if isinstance(part, TextDelta):
                outcome.texts.append(part.text)
            else:
                outcome.finished.append(part)
    except ProviderError as error:
        outcome.failure = error


def call(
    *answers: Answer, request: ModelRequest = REQUEST, time_outs: TimeOuts | None = None
) -> Outcome:
    """One call to a server that gives these answers."""

    async def run() -> Outcome:
        async with chat_server(*answers) as server:
            outcome = Outcome(server)
            provider = provider_at(server.base_url, time_outs=time_outs, waits=outcome.waits)
            await read_into(outcome, provider, request)
            return outcome

    return asyncio.run(run())


def chunk(**fields: object) -> str:
    return json.dumps({"id": "1", "object": "chat.completion.chunk", "choices": [], **fields})


def delta_chunk(reason: str | None = None, **delta: object) -> str:
    return chunk(choices=[{"index": 0, "delta": delta, "finish_reason": reason}])


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

    def test_a_reasoning_model_gets_its_own_name_for_the_limit(self) -> None:
        request = replace(REQUEST, token_parameter="max_completion_tokens")
        body = call(says("Yes."), request=request).body
        assert body["max_completion_tokens"] == 50
        assert "max_tokens" not in body

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


class TestWhatIsRead:
    def test_text_comes_as_it_was_sent(self) -> None:
        outcome = call(says("I  step ", "", "inside.\n", "\n“Who?”"))
        assert outcome.texts == ["I  step ", "inside.\n", "\n“Who?”"]
        assert outcome.end == Finished(was_cut=False, usage=None)

    def test_usage_names_cached_tokens(self) -> None:
        details = {"prompt_tokens_details": {"cached_tokens": 64}}
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, **details}
        assert call(says("Yes.", usage=usage)).end.usage == Usage(100, 7, 64)

    def test_usage_beside_the_last_words_counts(self) -> None:
        usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
        last = [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]
        outcome = call(streams(chunk(choices=last, usage=usage), "[DONE]"))
        assert (outcome.text, outcome.end.usage) == ("Yes.", Usage(5, 1))

    def test_the_output_limit_shows(self) -> None:
        assert call(says("I ste", reason="length")).end.was_cut

    def test_hidden_reasoning_never_becomes_text(self) -> None:
        outcome = call(
            streams(
                delta_chunk(role="assistant", content="", reasoning_content="She lies."),
                delta_chunk(reasoning="So I lie."),
                delta_chunk(content="Yes."),
                delta_chunk("stop"),
                "[DONE]",
            )
        )
        assert outcome.texts == ["Yes."]

    @pytest.mark.parametrize("size", [1, 3, 100])
    def test_reasoning_between_tags_at_the_start_never_becomes_text(self, size: int) -> None:
        said = "\n<think>She <b>lies</b>.</think>\n\nYes, <think> I do."
        outcome = call(says(*(said[at : at + size] for at in range(0, len(said), size))))
        assert outcome.text == "Yes, <think> I do."

    @pytest.mark.parametrize("said", ["<", "<thin", " <b>Yes</b>", "1 < 2"])
    def test_text_that_only_begins_like_a_tag_is_text(self, said: str) -> None:
        assert call(says(*said)).text == said

    def test_a_missing_end_mark_is_no_loss_once_the_reply_is_complete(self) -> None:
        outcome = call(streams(delta_chunk("stop", content="Yes.")))
        assert (outcome.text, outcome.end) == ("Yes.", Finished())


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "hint"),
        [
            (400, "temperature is out of range."),
            (401, "OPENAI_API_KEY"),
            (403, "temperature is out of range."),
            (404, "STORYENGINE_MODEL"),
            (422, "temperature is out of range."),
        ],
    )
    def test_a_refusal_is_permanent_and_says_what_to_do(self, status: int, hint: str) -> None:
        outcome = call(refuses(status, "temperature is\nout of range"))
        assert isinstance(outcome.error, ProviderRefused)
        assert outcome.error.permanent
        assert hint in str(outcome.error)
        assert f"({status})" in str(outcome.error)
        assert f"127.0.0.1:{outcome.server.port}" in str(outcome.error)
        assert len(outcome.server.exchanges) == 1

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
    def test_the_key_is_in_no_message(self, status: int) -> None:
        answers = [refuses(status, f"Incorrect API key provided: {KEY}.")] * 3
        outcome = call(*answers)
        assert KEY not in str(outcome.error)
        assert outcome.error.__cause__ is None
        assert outcome.error.__suppress_context__

    def test_an_empty_account_is_not_asked_again(self) -> None:
        outcome = call(refuses(429, "You exceeded your quota.", code="insufficient_quota"))
        assert isinstance(outcome.error, ProviderRefused)
        assert outcome.waits == []

    def test_a_redirect_is_not_followed(self) -> None:
        async def run() -> tuple[Outcome, ChatServer]:
            async with chat_server(says("Stolen.")) as other:
                target = {"Location": f"{other.base_url}/chat/completions"}
                async with chat_server(responds(307, headers=target)) as server:
                    outcome = Outcome(server)
                    await read_into(outcome, provider_at(server.base_url))
                    return outcome, other

        outcome, other = asyncio.run(run())
        assert isinstance(outcome.error, ProviderRefused)
        assert "127.0.0.1" in str(outcome.error)
        assert other.exchanges == []


class TestRetries:
    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
    def test_a_passing_trouble_is_tried_again(self, status: int) -> None:
        status_line = responds(status) if status != 529 else _status_529
        outcome = call(status_line, says("Yes."))
        assert outcome.text == "Yes."
        assert len(outcome.waits) == 1

    @pytest.mark.parametrize(
        ("value", "unit"), [("7", ""), ("7.0", ""), ("7000", "-ms")], ids=["whole", "point", "ms"]
    )
    def test_the_server_says_how_long_to_wait(self, value: str, unit: str) -> None:
        outcome = call(responds(429, headers={f"Retry-After{unit}": value}), says("Yes."))
        assert outcome.waits == [7.0]

    def test_the_server_says_until_when_to_wait(self) -> None:
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
        outcome = call(responds(503, headers={"Retry-After": until}), says("Yes."))
        (wait,) = outcome.waits
        assert 0 < wait <= 20

    def test_a_server_that_wants_a_long_wait_is_left_alone(self) -> None:
        outcome = call(responds(429, headers={"Retry-After": "300"}))
        assert isinstance(outcome.error, ProviderBusy)
        assert "300 seconds" in str(outcome.error)
        assert outcome.waits == []

    def test_nonsense_in_retry_after_is_passed_over(self) -> None:
        outcome = call(responds(429, headers={"Retry-After": "nan"}), says("Yes."))
        (wait,) = outcome.waits
        assert 0 < wait < 1

    def test_waits_grow_and_tries_end(self) -> None:
        outcome = call(*[responds(503)] * 3)
        assert isinstance(outcome.error, ProviderBusy)
        assert not outcome.error.permanent
        first, second = outcome.waits
        assert 0.25 <= first <= 0.5 <= second <= 1

    def test_a_connection_dropped_before_text_is_tried_again(self) -> None:
        assert call(hangs_up(), hangs_up(""), says("Yes.")).text == "Yes."

    def test_a_server_that_only_drops_connections_is_unreachable(self) -> None:
        outcome = call(*[hangs_up()] * 3)
        assert isinstance(outcome.error, ProviderUnreachable)
        assert len(outcome.waits) == 2

    def test_nobody_listens(self) -> None:
        async def run() -> Outcome:
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
                async with chat_server() as server:
                    outcome = Outcome(server)
                    provider = provider_at(address, waits=outcome.waits)
                    await read_into(outcome, provider)
                    return outcome

        outcome = asyncio.run(run())
        assert isinstance(outcome.error, ProviderUnreachable)
        assert len(outcome.waits) == 2

    def test_after_the_first_word_nothing_is_tried_again(self) -> None:
        outcome = call(hangs_up("I step"))
        assert outcome.texts == ["I step"]
        assert isinstance(outcome.error, StreamBroken)
        assert outcome.waits == []


class TestBrokenAnswers:
    @pytest.mark.parametrize(
        "answer",
        [
            responds(200, "<html>502 Bad Gateway</html>"),
            responds(200, {"choices": [{"message": {"content": "Not streamed."}}]}),
            streams("not-json"),
            streams('{"unexpected": true}', "[DONE]"),
            streams("[1, 2]", "5", '"text"', "null", '{"choices": 5}', '{"choices": [7]}'),
            streams('{"choices": [{"delta": 3}]}', '{"choices": [{"delta": {"content": 5}}]}'),
            streams(),
            streams("[DONE]"),
            says(),
            says(" ", "\n"),
            says("", reason="length"),
            says("<think>Hm.", reason="length"),
            says(reason="content_filter"),
        ],
    )
    def test_what_is_no_reply_is_named_as_such(self, answer: Answer) -> None:
        outcome = call(answer, answer, answer)
        assert outcome.texts == []
        assert isinstance(outcome.error, UnusableReply | ProviderUnreachable)
        assert str(outcome.error)

    @pytest.mark.parametrize(
        "answer",
        [
            streams(delta_chunk(content="I step"), "not-json"),
            streams(delta_chunk(content="I step")),
            streams(delta_chunk(content="I step"), "[DONE]"),
            streams(delta_chunk(content="I step"), '{"error": {"message": "Boom", "code": 500}}'),
            says("I step", reason="content_filter"),
        ],
    )
    def test_what_breaks_after_text_keeps_the_text(self, answer: Answer) -> None:
        outcome = call(answer)
        assert outcome.texts == ["I step"]
        assert isinstance(outcome.error, StreamBroken)

    def test_bytes_that_are_no_text(self) -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.send_raw(STREAM_HEAD + b"b\r\ndata: \xff\xfe\n\n\r\n0\r\n\r\n")

        assert isinstance(call(answer).error, UnusableReply)

    def test_an_error_in_the_stream_may_pass(self) -> None:
        trouble = streams('{"error": {"message": "Upstream is down", "code": 502}}')
        assert call(trouble, says("Yes.")).text == "Yes."

    def test_a_refusal_in_the_stream_is_a_refusal(self) -> None:
        refusal = streams('{"error": {"message": "Too many tokens", "code": 400}}')
        outcome = call(refusal)
        assert isinstance(outcome.error, ProviderRefused)
        assert "Too many tokens" in str(outcome.error)

    def test_a_model_that_declines_says_so(self) -> None:
        declining = streams(delta_chunk(refusal="I cannot."), delta_chunk("stop"), "[DONE]")
        outcome = call(declining)
        assert isinstance(outcome.error, UnusableReply)
        assert "I cannot." in str(outcome.error)


class TestTimeOuts:
    @pytest.mark.parametrize("texts", [(), ("",)], ids=["no answer", "no text"])
    def test_the_first_word_has_its_time(self, texts: tuple[str, ...]) -> None:
        outcome = call(falls_silent(*texts), time_outs=TimeOuts(LONG, SHORT, LONG, LONG))
        assert isinstance(outcome.error, ProviderTimeout)
        assert outcome.waits == []

    def test_the_next_word_has_its_time(self) -> None:
        outcome = call(falls_silent("I step"), time_outs=TimeOuts(LONG, LONG, SHORT, LONG))
        assert outcome.texts == ["I step"]
        assert isinstance(outcome.error, StreamBroken)

    def test_a_complete_reply_does_not_wait_for_its_usage(self) -> None:
        async def finish_and_hang(exchange: Exchange) -> None:
            await exchange.send_raw(STREAM_HEAD)
            await exchange.send_text("Yes.")
            await exchange.send_finish()
            usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
            await exchange.send_chunk(usage=usage)
            await exchange.is_left.wait()

        outcome = call(finish_and_hang, time_outs=TimeOuts(LONG, LONG, LONG, SHORT))
        assert outcome.end == Finished(was_cut=False, usage=Usage(3, 1))


class TestConnections:
    def test_closing_the_stream_hangs_up_at_once(self) -> None:
        async def run() -> None:
            async with chat_server(falls_silent("I step", " inside")) as server:
                async with aclosing(provider_at(server.base_url).stream(REQUEST)) as parts:
                    assert await anext(parts) == TextDelta("I step")
                    assert not server.is_left.is_set()
                await asyncio.wait_for(server.is_left.wait(), LONG)

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

        asyncio.run(run())

    def test_calls_of_one_loop_share_a_connection(self) -> None:
        async def run() -> int:
            async with chat_server(*[says("Yes.")] * 3) as server:
                provider = provider_at(server.base_url)
                for _ in range(3):
                    await read_into(Outcome(server), provider)
                return server.connections

        assert asyncio.run(run()) == 1

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
        assert [provider.open_clients for provider in providers] == [0, 0, 0]
        assert [str(each.message) for each in recwarn if each.category is ResourceWarning] == []

    def test_one_provider_works_in_one_loop_after_another(self) -> None:
        async def call_once(provider: OpenAICompatibleProvider, server: ChatServer) -> str:
            outcome = Outcome(server)
            await read_into(outcome, provider)
            return outcome.text

        async def run() -> list[str]:
            async with chat_server(*[says("Yes.")] * 2) as server:
                provider = provider_at(server.base_url)
                calls = [
                    asyncio.to_thread(asyncio.run, call_once(provider, server)) for _ in range(2)
                ]
                return [await each for each in calls]

        assert asyncio.run(run()) == ["Yes.", "Yes."]


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


async def _status_529(exchange: Exchange) -> None:
    await exchange.send_raw(b"HTTP/1.1 529 Overloaded\r\nContent-Length: 0\r\n\r\n")
