"""A provider for tests. It plays scripted replies and records the requests."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from agents.llm.providers.answers.answer_text import AnswerText
from agents.llm.providers.answers.answers import Answer
from agents.llm.providers.base import (
    Finished,
    ModelRequest,
    Provider,
    StreamPart,
    ToolCall,
    Usage,
)
from agents.llm.providers.failures.failures import Failure
from agents.llm.providers.failures.subjects import Subject

# Scripts are as long as their tests need.
_NO_LIMIT = 1_000_000_000


@dataclass
class Script:
    """One scripted reply.

    `text` is streamed word by word, and read like the text of any server. Then `error` is raised if
    there is one. Otherwise `tool_calls` follow, if the request has tools. If there is a `gate`, the
    reply waits before the word number `gate_at` until the gate opens.
    """

    text: str = ""
    error: Exception | None = None
    was_cut: bool = False
    gate: asyncio.Event | None = None
    gate_at: int = 0
    tool_calls: tuple[ToolCall, ...] = ()


def _chunk(text: str, reason: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}


@dataclass
class ScriptedProvider(Provider):
    """A provider that plays the queued scripts in order. When the queue is empty, it answers with
    the text that `fallback` returns."""

    name: str = "scripted"
    host: str = ""
    fallback: Callable[[ModelRequest], str] | None = None
    history: list[ModelRequest] = field(default_factory=list)
    queue: deque[Script] = field(default_factory=deque)

    def enqueue(self, *replies: str | Exception | Script) -> None:
        for reply in replies:
            if isinstance(reply, str):
                self.queue.append(Script(reply))
            elif isinstance(reply, Script):
                self.queue.append(reply)
            else:
                self.queue.append(Script(error=reply))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        self.history.append(request)
        script = self._next_script(request)
        answer = Answer(
            Subject("The scripted model"),
            _NO_LIMIT,
            has_tools=bool(request.tools),
            text=AnswerText(continues=request.continues),
        )
        words = script.text.split(" ") if script.text else []
        for at, word in enumerate(words):
            if script.gate is not None and at == script.gate_at:
                await script.gate.wait()
            for part in answer.take(_chunk(word if at == len(words) - 1 else word + " ")):
                yield part
            await asyncio.sleep(0)
        if script.error is None:
            answer.take(_chunk("", "length" if script.was_cut else "stop"))
        for part in answer.rest():
            yield part
        if script.error is not None:
            raise script.error
        calls = script.tool_calls if request.tools else ()
        if not calls:
            try:
                answer.check()
            except Failure as failure:
                raise failure.error from None
        for call in calls:
            yield call
        prompt_characters = sum(len(message.content) for message in request.messages)
        yield Finished(answer.was_cut, Usage(prompt_characters // 4, len(words)))

    def _next_script(self, request: ModelRequest) -> Script:
        if self.queue:
            return self.queue.popleft()
        if self.fallback is not None:
            return Script(self.fallback(request))
        raise AssertionError("The scripted provider was asked for more than the test wrote.")
