"""The explorer, an agent with tools that only tests use, and one model for each form of tool
calls."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.calling.calls import Reply
from agents.calling.tool_steps import Step, ToolWriting
from agents.llm.providers.base import ModelRequest, ToolCall
from agents.llm.providers.scripted import Script
from agents.prompting.agent import Agent
from agents.prompting.layers import Layer, text_layer
from agents.prompting.tools import (
    ProposedChange,
    Tool,
    ToolArguments,
    ToolContext,
    ToolForm,
    ToolResult,
)
from agents.tests.declared import AGENTS
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

# For each form of tool calls, a model that is asked to write in this form. The model for "native"
# accepts tools. The model for "json" accepts no tools while it reasons, but it accepts JSON
# schemas. The model for "xml" writes better XML than JSON.
MODELS: dict[ToolForm, str] = {"native": "gpt-4o", "json": "gpt-5.6", "xml": "claude-2"}


class Going(ToolArguments):
    to: str


class Looking(ToolArguments):
    at: str = "everything"


def go(arguments: Going, context: ToolContext) -> ToolResult:
    if arguments.to not in context.readable["places"]:
        return ToolResult("There is no way to it from here.")
    change = ProposedChange("moved", {"to": arguments.to})
    return ToolResult(f"You are at {arguments.to} now.", (change,))


def look(arguments: Looking, context: ToolContext) -> ToolResult:
    return ToolResult(f"You see {context.readable['seen']}.")


GO = Tool("go", "Goes to a place.", Going, go, frozenset({"moved"}))
LOOK = Tool("look", "Looks around.", Looking, look)


def explorer(*tools: Tool, form: ToolForm = "native", most_steps: int = 8) -> Agent:
    return Agent(
        None,
        "explorer",
        "Explorer",
        "gpt-4o",
        output_tokens=500,
        reasoning_tokens=1_000,
        temperature=0.5,
        layers=(),
        tools=tools or (GO, LOOK),
        tool_form=form,
        most_steps=most_steps,
    )


@dataclass
class World:
    """A chapter in which the explorer writes a reply, with the text and the steps of the reply."""

    chapter: Session
    seen: str = "the lamp"
    shown: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    on_step: Callable[[Step], None] | None = None
    # A test may set this function to give the explorer's request other layers.
    layers: Callable[[], list[Layer]] | None = None

    @property
    def place(self) -> str:
        changes = [change for step in self.steps for change in step.changes]
        moves = [str(change.payload["to"]) for change in changes if change.kind == "moved"]
        return moves[-1] if moves else "the quay"

    def writing(self, agent: Agent, **made_for: Any) -> ToolWriting:
        return ToolWriting(agent, self.chapter.pk, self._compose, self._read, **made_for)

    def write(self, agent: Agent, **made_for: Any) -> Reply:
        writing = self.writing(agent, **made_for)
        return async_to_sync(writing.write)(on_text=self.shown.append, on_step=self.keep)

    async def keep(self, step: Step) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)

    def _compose(self) -> list[Layer]:
        if self.layers is not None:
            return self.layers()
        return [
            text_layer("SYSTEM", "You explore.", role="system", has_heading=False),
            text_layer("USER_PROMPT", f"You stand at {self.place}."),
        ]

    def _read(self) -> Mapping[str, Any]:
        # This function may query the database, although tools may not.
        title = Session.objects.get(pk=self.chapter.pk).title
        return {"places": ["the tower", "the shore"], "seen": self.seen, "title": title}


@pytest.fixture
def native(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare the explorer as agent 11, and choose the model that accepts tools."""
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = "http://localhost:9/v1"
    settings.MODEL_BY_AGENT = {}
    settings.MODEL = MODELS["native"]
    monkeypatch.setitem(AGENTS, 11, explorer())


@pytest.fixture(params=["native", "json", "xml"])
def form(request: pytest.FixtureRequest, settings: Settings, native: None) -> ToolForm:
    """Run the test once for each form of tool calls, with a model that is asked to write in this
    form."""
    form: ToolForm = request.param
    settings.MODEL = MODELS[form]
    return form


@pytest.fixture
def world() -> World:
    return World(make_active_chapter())


def sent_text(request: ModelRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def says(form: ToolForm, text: str, *calls: tuple[str, object]) -> Script:
    """Make a model's answer with this text and these tool calls in the given form."""
    if form == "json":
        entries = [{"name": name, "arguments": arguments} for name, arguments in calls]
        return Script(json.dumps({"text": text, "calls": entries}))
    if form == "xml":
        return Script(text + "".join(_element(name, arguments) for name, arguments in calls))
    made = [
        ToolCall(f"call-{at}", name, said if isinstance(said, str) else json.dumps(said))
        for at, (name, said) in enumerate(calls)
    ]
    return Script(text, tool_calls=tuple(made))


def sentences(steps: Sequence[Step]) -> list[str]:
    return [run.sentence for step in steps for run in step.runs]


def _element(name: str, arguments: object) -> str:
    inside = (
        "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in arguments.items())
        if isinstance(arguments, dict)
        else str(arguments)
    )
    return f'<call name="{name}">{inside}</call>'
