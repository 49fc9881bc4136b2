"""Tests of the bounds on the heads of answers. `test_hostile_answers.py` tests them with endless
heads too."""

import asyncio

import pytest

from agents.llm.providers.answers.answer_heads import MOST_BYTES, MOST_LINES
from agents.llm.providers.failures.call_errors import UnusableReply
from agents.llm.providers.tests.chat_server import STREAM_HEAD, Answer, Exchange, chat_server, says
from agents.tests.calling import Outcome, call, provider_at, read_into

pytestmark = pytest.mark.usefixtures("calls_allowed")

HINT = b"HTTP/1.1 103 Hints\r\nX: %s\r\n\r\n"
# A head that has nearly half of the bytes that an answer's heads may have.
LONG_HINT = HINT % (b"x" * (MOST_BYTES // 2 - 200))


def announced(*heads: bytes) -> Answer:
    """Make a reply after these heads."""

    async def answer(exchange: Exchange) -> None:
        for head in heads:
            await exchange.send_raw(head)
        await says("I step inside.")(exchange)

    return answer


def test_heads_below_the_bounds_are_read() -> None:
    assert call(announced(LONG_HINT, LONG_HINT)).text == "I step inside."


@pytest.mark.parametrize(
    "heads", [[LONG_HINT] * 3, [HINT % b"x"] * MOST_LINES], ids=["bytes", "lines"]
)
def test_they_are_counted_together(heads: list[bytes]) -> None:
    outcome = call(announced(*heads))
    assert isinstance(outcome.error, UnusableReply)
    assert "far more than" in str(outcome.error)
    # Another try would only get such an answer again.
    assert outcome.waits == []


def test_each_answer_on_a_connection_is_counted_anew() -> None:
    async def run() -> list[Outcome]:
        async with chat_server(*[announced(LONG_HINT)] * 4) as server:
            provider = provider_at(server.base_url)
            outcomes = [Outcome(server) for _ in range(4)]
            for outcome in outcomes:
                await read_into(outcome, provider)
            return outcomes

    outcomes = asyncio.run(run())
    assert [outcome.text for outcome in outcomes] == ["I step inside."] * 4
    assert outcomes[0].server.connections == 1


def test_the_body_does_not_count() -> None:
    lines = b"\n" * (2 * MOST_BYTES)

    async def answer(exchange: Exchange) -> None:
        await exchange.send_raw(STREAM_HEAD + b"%x\r\n%s\r\n" % (len(lines), lines))
        await exchange.send_text("I step inside.")
        await exchange.send_finish()
        await exchange.send_end()

    assert call(answer).text == "I step inside."


def test_a_proxy_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Outcome:
        async with chat_server(announced(*[LONG_HINT] * 3)) as server:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
            for name in ("no_proxy", "NO_PROXY"):
                monkeypatch.delenv(name, raising=False)
            outcome = Outcome(server)
            await read_into(outcome, provider_at("http://model.example/v1"))
            return outcome

    outcome = asyncio.run(run())
    assert "far more than" in str(outcome.error)
    assert len(outcome.server.exchanges) == 1
