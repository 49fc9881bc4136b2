"""The scripted model of the tests of every mode. It answers all agents of a chapter.

Each text of a user or of a model has a mark, a word that occurs only once. Memory repeats all marks
that it reads, so that a mark tells wherever a text has gone.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field

from agents.llm.providers.base import Finished, ModelRequest, StreamPart, ToolCall
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running.database import in_database
from agents.tests.replies import answer_in_form, turn_delta
from chaos.scenarios import Scenario
from testing.world_replies import answer_to, lessons_in

# The marks of what is said, of thoughts, and of what one character alone knows of itself.
MARK = re.compile(r"zq\d+")
THOUGHT_MARK = re.compile(r"tq\d+")
SECRET_MARK = re.compile(r"sq\d+")
# A mark of a delta stands in a list of at most this many, because a delta has few lines.
TOGETHER = 10


@dataclass
class ScriptedModel(ScriptedProvider):
    """Whoever writes replies gets the queued scripts, and then made-up ones. `written` has all of
    these. `at_end` is called once, after the words of the next text that is not followed by tool
    calls, while its call still runs."""

    scenario: Scenario = field(default_factory=lambda: Scenario("any"))
    written: list[Script] = field(default_factory=list)
    at_end: Callable[[], object] | None = None
    count: int = 0

    def mark(self, kind: str = "zq") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        is_written = self.is_writers(request)
        async for part in super().stream(request):
            if isinstance(part, Finished) and is_written and not self.queue and self.at_end:
                act, self.at_end = self.at_end, None
                await in_database(act)
            yield part

    def _next_script(self, request: ModelRequest) -> Script:
        system = request.messages[0].content
        if "turn_delta" in system:
            return Script(self._delta(request))
        if "world_chapter_lock" in system or "prose" in system:
            return Script(answer_in_form(request))
        for name in self.scenario.answers.keys() & {tool.name for tool in request.tools}:
            return _called(name, self.scenario.answers[name])
        if not self.is_writers(request):
            return _out_of_sight(request)
        script = self.queue.popleft() if self.queue else Script(f"Reply {self.mark()}.")
        self.written.append(script)
        return script

    def is_writers(self, request: ModelRequest) -> bool:
        """Return whether the request is for a reply, and not for memory or a question of a tool."""
        system, tools = request.messages[0].content, {tool.name for tool in request.tools}
        if any(form in system for form in ("turn_delta", "world_chapter_lock", "prose")):
            return False
        if tools:
            return bool(tools & {name for name, _arguments in self.scenario.tools})
        return "## OUT_OF_SIGHT" not in text_of(request)

    def _delta(self, request: ModelRequest) -> str:
        sent = text_of(request)
        marks = sorted({*MARK.findall(sent), *THOUGHT_MARK.findall(sent)})
        tens = (marks[at : at + TOGETHER] for at in range(0, len(marks), TOGETHER))
        told = [f"somebody spoke of {' and '.join(some)}" for some in tens]
        return json.dumps(
            turn_delta(canon_locks=told, major_events=[], unresolved_threads=[])
            | lessons_in(sent, str(self.count))
            | self.scenario.answers.get("memory", {})
        )


def text_of(request: ModelRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def marks_in(texts: Iterable[str], kind: re.Pattern[str] = MARK) -> set[str]:
    return set(kind.findall(" ".join(texts)))


def calls(text: str, *made: tuple[str, object]) -> Script:
    """Return a step with this text and these tool calls."""
    return Script(
        text,
        tool_calls=tuple(
            ToolCall(f"call-{at}", name, json.dumps(arguments))
            for at, (name, arguments) in enumerate(made)
        ),
    )


def _called(name: str, arguments: object) -> Script:
    return calls("", (name, arguments))


def _out_of_sight(request: ModelRequest) -> Script:
    """Answer an agent that no prompt is for, such as one that works out what happens elsewhere."""
    messages = [message.as_sent() for message in request.messages]
    tools = [tool.as_sent() for tool in request.tools]
    answer = answer_to({"messages": messages, "tools": tools})
    if answer is None:
        return Script("They talk about the weather.")
    made = [one["function"] for one in answer.tool_calls]
    return calls(answer.text, *((one["name"], json.loads(one["arguments"])) for one in made))
