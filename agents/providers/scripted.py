"""A provider for tests. It plays scripted replies and records the requests."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from agents.providers.base import (
    Finished,
    ModelRequest,
    Provider,
    StreamPart,
    TextDelta,
    ToolCall,
    Usage,
)
from agents.providers.exceptions import EmptyReply


@dataclass
class Script:
    """One scripted reply.

    `text` is streamed word by word. Then `error` is raised if there is one. Otherwise `tool_calls`
    follow, if the request has tools. If there is a `gate`, the reply waits before the word number
    `gate_at` until the gate opens.
    """

    text: str = ""
    error: Exception | None = None
    was_cut: bool = False
    gate: asyncio.Event | None = None
    gate_at: int = 0
    tool_calls: tuple[ToolCall, ...] = ()


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
        words = script.text.split(" ") if script.text else []
        for at, word in enumerate(words):
            if script.gate is not None and at == script.gate_at:
                await script.gate.wait()
            yield TextDelta(word if at == len(words) - 1 else word + " ")
            await asyncio.sleep(0)
        if script.error is not None:
            raise script.error
        calls = script.tool_calls if request.tools else ()
        if not script.text and not calls:
            raise EmptyReply("The model returned an empty reply.")
        for call in calls:
            yield call
        prompt_characters = sum(len(message.content) for message in request.messages)
        yield Finished(script.was_cut, Usage(prompt_characters // 4, len(words)))

    def _next_script(self, request: ModelRequest) -> Script:
        if self.queue:
            return self.queue.popleft()
        if self.fallback is not None:
            return Script(self.fallback(request))
        raise AssertionError("The scripted provider was asked for more than the test wrote.")
