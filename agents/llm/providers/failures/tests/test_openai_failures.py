"""Tests of an OpenAI-compatible server that refuses a call, fails, or stops in the middle of an
answer."""

import asyncio
import socket
from dataclasses import replace

import pytest

from agents.llm.providers.answers.streamed_answers import TimeOuts
from agents.llm.providers.base import Finished, Usage
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnreachable,
    StreamBroken,
    UnusableReply,
)
from agents.llm.providers.tests.chat_server import (
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
from agents.tests.calling import (
    KEY,
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


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "hint"),
        [
            (400, "choose another model"),
            (401, "OPENAI_API_KEY"),
            (402, "too little credit"),
            (403, "whether its key may use this model"),
            (404, "STORYENGINE_MODEL"),
            (422, "choose another model"),
        ],
    )
    def test_a_refusal_is_permanent_and_says_what_to_do(self, status: int, hint: str) -> None:
        outcome = call(refuses(status, "temperature is\nout of range"))
        assert isinstance(outcome.error, ProviderRefused)
        assert outcome.error.permanent
        assert hint in str(outcome.error)
        assert "temperature" not in str(outcome.error)
        assert outcome.error.said == ("" if status == 401 else "temperature is out of range.")
        assert f"127.0.0.1:{outcome.server.port}" in str(outcome.error)
        assert len(outcome.server.exchanges) == 1

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
    def test_the_key_is_in_no_message(self, status: int) -> None:
        answers = [refuses(status, f"Incorrect API key provided: {KEY}.")] * 3
        outcome = call(*answers)
        assert outcome.error is not None
        assert KEY not in f"{outcome.error} {outcome.error.said}"
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

    def test_a_server_that_wants_a_long_wait_is_left_alone(self) -> None:
        outcome = call(responds(429, headers={"Retry-After": "300"}))
        assert isinstance(outcome.error, ProviderBusy)
        assert "300 seconds" in str(outcome.error)
        assert outcome.waits == []

    @pytest.mark.parametrize(
        "value", ["86401", "1e300", "inf", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"]
    )
    def test_no_wait_is_longer_than_a_day(self, value: str) -> None:
        outcome = call(responds(429, headers={"Retry-After": value}))
        assert str(outcome.error).endswith("Try again in a day.")
        assert outcome.waits == []

    @pytest.mark.parametrize("value", ["", "nan", "soon", "Mon, 01 Jan 99999999999 00:00:00 GMT"])
    def test_a_wait_that_is_none_is_the_programs_own(self, value: str) -> None:
        outcome = call(responds(429, headers={"Retry-After": value}), says("Yes."))
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
            streams(delta_chunk(content="I step"), '{"error": {"message": "Boom", "code": 500}}'),
            says("I step", reason="content_filter"),
        ],
    )
    def test_what_breaks_after_text_keeps_the_text(self, answer: Answer) -> None:
        outcome = call(answer)
        assert outcome.texts == ["I step"]
        assert isinstance(outcome.error, StreamBroken)

    def test_the_key_is_not_in_what_a_model_says(self) -> None:
        declining = streams(delta_chunk(refusal=f"No, {KEY}."), delta_chunk("stop"), "[DONE]")
        outcome = call(declining)
        assert outcome.error is not None
        assert outcome.error.said == "No, [key]."

    @pytest.mark.parametrize("streams_text", [True, False])
    @pytest.mark.parametrize("page", ["{}", "<html><title>{}</title><p>Wait.</p></html>"])
    def test_what_came_in_place_of_a_reply_is_shown(self, page: str, *, streams_text: bool) -> None:
        said = page.format(f"Service {KEY} is waking up")
        outcome = call(responds(200, said), request=replace(REQUEST, streams=streams_text))
        assert isinstance(outcome.error, UnusableReply)
        assert "waking up" in outcome.error.said
        assert KEY not in outcome.error.said


class TestTimeOuts:
    @pytest.mark.parametrize("texts", [(), ("",)], ids=["no answer", "no text"])
    def test_the_first_word_has_its_time(self, texts: tuple[str, ...]) -> None:
        outcome = call(falls_silent(*texts), time_outs=TimeOuts(LONG, SHORT, LONG, LONG))
        assert isinstance(outcome.error, ProviderTimeout)
        assert outcome.waits == []

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


async def _status_529(exchange: Exchange) -> None:
    await exchange.send_raw(b"HTTP/1.1 529 Overloaded\r\nContent-Length: 0\r\n\r\n")
