"""Functions that start a server, call it, and record the outcome of the call."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from agents.llm.providers.answers.streamed_answers import TimeOuts
from agents.llm.providers.base import (
    Finished,
    Message,
    ModelRequest,
    Provider,
    Restart,
    TakenOff,
    TextDelta,
    ToolCall,
)
from agents.llm.providers.failures.call_errors import ProviderError
from agents.llm.providers.failures.retries import Retries
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.llm.providers.tests.chat_server import Answer, ChatServer, chat_server

KEY = "sk-very-secret"
REQUEST = ModelRequest(
    model="some-model",
    messages=(Message("system", "Be Mara."), Message("user", "The door opens.")),
    max_output_tokens=50,
)
# Times in seconds: no test takes as long as LONG, and a test can wait for SHORT.
LONG, SHORT = 30.0, 0.05


@dataclass
class Outcome:
    """The texts, tool calls and errors of one call, and the server that was called."""

    server: ChatServer
    texts: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    taken_off: list[str] = field(default_factory=list)
    failure: ProviderError | None = None
    # The seconds that the provider wanted to wait before each retry.
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
            elif isinstance(part, ToolCall):
                outcome.tool_calls.append(part)
            elif isinstance(part, TakenOff):
                outcome.taken_off.append(part.text)
            elif isinstance(part, Restart):
                outcome.taken_off = [] if part.is_next_try else outcome.taken_off + outcome.texts
                outcome.texts = []
            else:
                outcome.finished.append(part)
    except ProviderError as error:
        outcome.failure = error


def call(
    *answers: Answer, request: ModelRequest = REQUEST, time_outs: TimeOuts | None = None
) -> Outcome:
    """Start a server that gives these answers, and call it once."""

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
