"""Tests of the bounds on the heads of answers. `test_hostile_answers.py` tests them with endless
heads too."""

import asyncio

import pytest

from agents.llm.providers.answers.answer_heads import MOST_BYTES, MOST_LINES
from agents.llm.providers.failures.call_errors import UnusableReply
from agents.llm.providers.tests.chat_server import Answer, Exchange, chat_server, says
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
