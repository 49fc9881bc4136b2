"""Tests of the end of a streamed reply, and of events that may follow the end."""

import pytest

from agents.llm.providers.base import Finished
from agents.llm.providers.tests.chat_server import STREAM_HEAD, Answer, Exchange
from agents.tests.calling import call, delta_chunk

pytestmark = pytest.mark.usefixtures("calls_allowed")


def in_one_piece(*events: str) -> Answer:
    """Make an answer that sends all these events in one chunk of the response."""
    payload = "".join(f"data: {event}\n\n" for event in events).encode()

    async def answer(exchange: Exchange) -> None:
        await exchange.send_raw(STREAM_HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(payload), payload))

    return answer


class TestTheEndOfAReply:
    """A reply ends in the same way if later events arrive together with its end."""

    @pytest.mark.parametrize(
        "after",
        [
            ['{"error": {"message": "Boom"}}'],
            ["usage follows"],
            ["[DONE]", "bye"],
        ],
    )
    def test_what_fails_after_it_is_not_missed(self, after: list[str]) -> None:
        outcome = call(in_one_piece(delta_chunk(content="I step."), delta_chunk("stop"), *after))
        assert outcome.text == "I step."
        assert outcome.end == Finished()

    def test_a_connection_that_is_lost_after_it_is_not_missed(self) -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.send_raw(STREAM_HEAD)
            await exchange.send_text("I step")
            await exchange.send_text(" inside.")
            await exchange.send_finish()
            exchange.writer.write_eof()

        outcome = call(answer)
        assert outcome.text == "I step inside."
        assert outcome.end == Finished()
