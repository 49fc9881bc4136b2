"""Writes the reply of an agent with tools in steps: call the model, run its tool calls, repeat.

Each step is an ordinary model call, with the consent, caps, deadline and record of
agents/calling/calls.py. Tools run on the event loop, where Django refuses every query, so they can
use only the data that the caller has read for them.
"""

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any

from django.db import Error as DatabaseError

from agents.calling.answers_by_call import ask_for_call
from agents.calling.calls import OnText, Reply, in_accepted_form, let_call_through, make_call
from agents.calling.model_access import model_of, read_model
from agents.calling.prepared_calls import Compose, PreparedCall, prepare_call
from agents.llm.providers.answers.tool_calls import own_id
from agents.llm.providers.base import ToolCall
from agents.llm.providers.failures.call_errors import EmptyReply, OnlyThoughts, ProviderError
from agents.modes.registry import find_agent
from agents.prompting.agent import Agent, in_chapter
from agents.prompting.forms.schemas import InvalidReply, check_payload
from agents.prompting.forms.tool_answers import AnswerReader
from agents.prompting.forms.tool_arguments import arguments_meant, decoded, name_meant
from agents.prompting.forms.tool_forms import answer_schema, tool_form_for, tools_layer
from agents.prompting.layers import Layer, Piece, text_layer
from agents.prompting.tools import (
    MOST_QUESTIONS,
    ProposedChange,
    Tool,
    ToolArguments,
    ToolContext,
    ToolForm,
    ToolResult,
)
from agents.running.database import in_database
from agents.running.unforeseen import traceback_of
from sessions.chapter.access import get_chapter
from sessions.exceptions import ChapterError
from sessions.language.text import is_blank, scrub_reply
from sessions.limits import MAX_CHANGES_OF_AN_ATTEMPT

logger = logging.getLogger(__name__)

# The limits in characters of a tool's sentence, and of the reason why a call was not run.
LONGEST_SENTENCE = 4_000
_LONGEST_PROBLEM = 400

_FAILED = "The tool failed and changed nothing. Go on without it."
_REPEATED = (
    "You have made this call already and nothing has changed since: what came of it stands above."
)
_LAST = "Your next answer is the last one: call nothing more in it, and end what you say."
_NO_MORE = "No further call is run: the number of steps is used up."
_TOO_MANY = (
    "It changed nothing: with it, this reply would change more in the world than one reply can. "
    "End what you say."
)


@dataclass(frozen=True)
class CallRun:
    """The result of one tool call. The model is told the `sentence`."""

    call: ToolCall
    sentence: str
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class Step:
    """One call of a model, with its tool calls. `text` is the part of the answer that users see."""

    number: int
    text: str
    runs: tuple[CallRun, ...] = ()

    @property
    def changes(self) -> tuple[ProposedChange, ...]:
        return tuple(change for run in self.runs for change in run.changes)


OnStep = Callable[[Step], Awaitable[None]]
# Notes the present place, and returns a function that takes back all text after it.
Here = Callable[[], Callable[[], None]]
ComposeQuestion = Callable[[Agent, Mapping[str, Sequence[Piece]]], Sequence[Layer]]


@dataclass
class ToolWriting:
    """A reply that is written in steps.

    `compose` returns the layers of the request. `read` returns the data that tools may know when
    they act for the character `reader`. Both functions are called again for each step, where the
    ORM may be used, so that they see the changes of the step before.
    """

    agent: Agent
    session_id: uuid.UUID
    compose: Compose
    read: Callable[[], Mapping[str, Any]]
    reader: int | None = None
    attempt_id: uuid.UUID | None = None
    job_id: uuid.UUID | None = None
    # A small model is stopped as soon as it writes one of these texts.
    stop: Sequence[str] = ()
    # A function that composes the request of a tool to another agent (`Tool.asks`), with the pieces
    # that belong only to this request. Without it, no tool asks anything.
    compose_question: ComposeQuestion | None = None
    # The number of changes that all steps together may propose.
    most_changes: int = MAX_CHANGES_OF_AN_ATTEMPT
    # The layers that earlier steps add to the request. The next two fields are the texts and the
    # changes of these steps.
    _said: list[Layer] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)
    _changes: list[ProposedChange] = field(default_factory=list)
    # For each call that was run: the number of changes that existed afterwards. The key is the
    # call's name and arguments.
    _made: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._last_step = self.agent.most_steps
        self._form = _form_of(self.agent)
        self._tools = {tool.name: tool for tool in self.agent.tools}

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def anew(self) -> "ToolWriting":
        """Return the same writing before its first step."""
        return replace(self, _said=[], _parts=[], _changes=[], _made={})

    async def write(
        self,
        *,
        on_text: OnText | None = None,
        here: Here | None = None,
        on_step: OnStep | None = None,
    ) -> Reply:
        """Write the reply and return the text of all steps.

        The reply ends when the model calls no more tools or has no steps left. A model that only
        repeats its calls would never end. So it gets one more step, or none if it has already
        written text. `here` is called at the beginning of each step. If the text of the step turns
        out to be hidden reasoning, the function that it returned takes the shown text back.
        `on_step` is awaited at the end of each step, before the next request is composed, so that
        the caller can store the changes of the step. Raises the errors of `call_model`, but only
        after `on_step` was given all complete steps.
        """
        was_cut = False
        for number in count(1):
            begin = len(self._parts)
            try:
                reply = await in_accepted_form(partial(self._ask, number, on_text, here))
            except (EmptyReply, OnlyThoughts):
                if not (self._parts or self._changes):
                    raise
                # An empty answer ends a reply that already has words or changes.
                break
            text, was_cut = "".join(self._parts[begin:]), reply.was_cut
            calls = reply.tool_calls
            # If the output limit cut off a tool call after some text, the model is not asked to
            # repeat the call.
            problem = "" if was_cut and text else reply.problem
            step = Step(number, text, await self._run_all(calls, number))
            if on_step is not None:
                await on_step(step)
            if not (calls or problem):
                break
            if calls and all(run.sentence == _REPEATED for run in step.runs):
                if not is_blank("".join(self._parts)):
                    break
                self._last_step = min(self._last_step, number + 1)
            if number == self._last_step:
                logger.warning("agent %s used up its steps", self.agent.label)
                break
            self._say(reply, step, problem)
        if is_blank("".join(self._parts)) and not self._changes:
            raise EmptyReply("The model returned an empty reply. Nothing was lost; try again.")
        return Reply(scrub_reply("".join(self._parts)), was_cut)

    async def _ask(self, number: int, on_text: OnText | None, here: Here | None) -> Reply:
        if not self._said:
            # The form is chosen before the first step, because the server may have refused an
            # earlier form. All steps of a reply have the same form.
            self._form = _form_of(self.agent)
        is_native, is_json = self._form == "native", self._form == "json"

        def prepare() -> PreparedCall:
            return prepare_call(
                read_model(self.agent),
                self.session_id,
                self._layers,
                json_schema=answer_schema(self._callable(number)) if is_json else None,
                stop=self.stop,
                tools=[tool.schema for tool in self.agent.tools] if is_native else (),
                attempt_id=self.attempt_id,
                job_id=self.job_id,
                step=number,
            )

        answer = AnswerReader(self.agent.tools, self._form)
        show = _Shown(self._parts, on_text)
        begin, go_back = len(self._parts), here() if here else None

        def take(piece: str) -> None:
            show.add(piece)

        def restart() -> None:
            nonlocal show
            del self._parts[begin:]
            show = _Shown(self._parts, on_text)
            if go_back is not None:
                go_back()

        call = await let_call_through(self.session_id, prepare)
        reply = await make_call(call, on_text=take, on_restart=restart, answer=answer)
        if is_native:
            # A call that was written in the text has no id, but its result needs one.
            called = tuple(
                replace(one, call_id=one.call_id or own_id(at))
                for at, one in enumerate(reply.tool_calls)
            )
            reply = replace(reply, tool_calls=called)
        return reply

    def _layers(self) -> list[Layer]:
        """Return the layers of the request, with the tools after the instructions and the earlier
        steps at the end."""
        return [*with_tools(self.agent, self.compose()), *self._said]

    def _callable(self, number: int) -> Sequence[Tool]:
        """Return the tools that an answer in JSON may call. There are none in the last step, unless
        it is the first step too."""
        return () if number == self._last_step > 1 else self.agent.tools

    async def _run_all(self, calls: Sequence[ToolCall], number: int) -> tuple[CallRun, ...]:
        if not calls:
            return ()
        if number == self._last_step:
            return tuple(CallRun(call, _NO_MORE) for call in calls)
        readable = MappingProxyType(dict(await in_database(self.read)))
        runs = []
        for call in calls:
            before = tuple(self._changes)
            context = ToolContext(self.session_id, self.reader, readable, before)
            result = await self._run(call, context, number)
            changes = tuple(replace(change, step=number) for change in result.changes)
            self._changes += changes
            runs.append(CallRun(call, result.sentence[:LONGEST_SENTENCE] or "Done.", changes))
        return tuple(runs)

    async def _run(self, call: ToolCall, context: ToolContext, number: int) -> ToolResult:
        """Run a tool call and return its result. If the call cannot be run, the result says why."""
        tool = self._tools.get(name_meant(call.name, self._tools))
        if call.problem:
            return ToolResult(call.problem)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return ToolResult(f"There is no tool of this name. The tools are: {names}.")
        try:
            payload = arguments_meant(call.arguments, tool.arguments)
            arguments = check_payload(payload, tool.arguments)
        except InvalidReply as invalid:
            return ToolResult(f"It was not run: {str(invalid)[:_LONGEST_PROBLEM]}.")
        made = (tool.name, json.dumps(payload, sort_keys=True))
        if self._made.get(made) == len(self._changes):
            return ToolResult(_REPEATED)
        answers: tuple[ToolArguments | None, ...] = ()
        for _ in range(MOST_QUESTIONS):
            asking = replace(context, answers=answers)
            is_asked, answer = await self._answer_for(tool, arguments, asking, number)
            if not is_asked:
                break
            answers = (*answers, answer)
        try:
            result = _result_of(tool, arguments, replace(context, answers=answers))
        except Exception as error:  # noqa: BLE001  (a tool's fault may not end the reply)
            logger.error("the tool %s failed:\n%s", tool.name, traceback_of(error))
            return ToolResult(_FAILED)
        count = len(self._changes) + len(result.changes)
        if count > self.most_changes:
            return ToolResult(_TOO_MANY)
        self._made[made] = count
        return result

    async def _answer_for(
        self, tool: Tool, arguments: ToolArguments, context: ToolContext, number: int
    ) -> tuple[bool, ToolArguments | None]:
        """Return whether the tool asks a question, and the answer. The answer is None if no usable
        answer came, because the tool can go on without an answer."""
        compose = self.compose_question
        if tool.asks is None or compose is None:
            return False, None
        try:
            question = tool.asks(arguments, context)
            if question is None:
                return False, None
            agent = await in_database(self._agent_to_ask, question.agent)
            answer: ToolArguments = await ask_for_call(
                agent,
                self.session_id,
                partial(compose, agent, question.pieces),
                question.answer,
                attempt_id=self.attempt_id,
                job_id=self.job_id,
                step=number,
            )
            return True, answer
        except DatabaseError:
            raise
        except (ProviderError, ChapterError) as error:
            name = type(error).__name__
            logger.warning("the question of the tool %s was not answered: %s", tool.name, name)
        except Exception as error:  # noqa: BLE001  (a tool's fault may not end the reply)
            logger.error("the question of %s failed:\n%s", tool.name, traceback_of(error))
        return True, None

    def _agent_to_ask(self, name: str) -> Agent:
        """Return the agent with the settings of the chapter."""
        agent = find_agent(name)
        if agent is None or agent.name == self.agent.name:
            # In the records of calls, the calls of the reply and the questions differ only by their
            # agent.
            raise ValueError("A tool asks an agent that there is, and not the one who calls it.")
        return in_chapter(agent, get_chapter(self.session_id))

    def _say(self, reply: Reply, step: Step, problem: str) -> None:
        """Add this step to the next request: the model's text, and the results of its tool
        calls."""
        is_next_last = step.number + 1 == self._last_step
        remarks = [*([problem] if problem else []), *([_LAST] if is_next_last else [])]
        if self._form != "native":
            wrote = Piece(reply.written, has_elements=True, has_calls=True)
            came = [f"{at}. {run.call.name}: {run.sentence}" for at, run in enumerate(step.runs, 1)]
            self._said += [
                Layer("STEP", (wrote,), role="assistant", has_heading=False),
                text_layer("TOOL_RESULTS", "\n".join([*came, *remarks])),
            ]
            return
        calls = tuple(replace(run.call, arguments=_sendable(run.call)) for run in step.runs)
        wrote = Piece(reply.text, has_elements=True)
        self._said.append(
            Layer("STEP", (wrote,), role="assistant", has_heading=False, tool_calls=calls)
        )
        for run in step.runs:
            told = " ".join([run.sentence, *(remarks if run is step.runs[-1] else [])])
            layer = text_layer("TOOL_RESULTS", told, role="tool", has_heading=False)
            self._said.append(replace(layer, tool_call_id=run.call.call_id))


def with_tools(agent: Agent, layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers with the description of the agent's tools after the instructions, which are
    the first system message."""
    if not agent.tools:
        return list(layers)
    others = next((at for at, one in enumerate(layers) if one.role != "system"), len(layers))
    tools = tools_layer(_form_of(agent), agent.tools)
    return [*layers[:others], tools, *layers[others:]]


def _form_of(agent: Agent) -> ToolForm:
    return tool_form_for(model_of(agent).facts, agent.tool_form)


@dataclass
class _Shown:
    """A helper that shows the text of a step after the texts of earlier steps, with an empty line
    between them."""

    parts: list[str]
    on_text: OnText | None
    _has_begun: bool = False

    def add(self, text: str) -> None:
        if not self._has_begun:
            text = text.lstrip()
            if text and self.parts:
                before = "".join(self.parts[-2:])
                text = "\n" * (2 - min(len(before) - len(before.rstrip("\n")), 2)) + text
            self._has_begun = bool(text)
        if text:
            self.parts.append(text)
            if self.on_text is not None:
                self.on_text(text)


def _sendable(call: ToolCall) -> str:
    """Return the arguments as a JSON object, because some servers fail at any other arguments."""
    try:
        said = decoded(call.arguments)
        return json.dumps(said if isinstance(said, dict) else {})
    except RecursionError:
        return "{}"


def _result_of(tool: Tool, arguments: ToolArguments, context: ToolContext) -> ToolResult:
    result = tool.run(arguments, context)
    if unknown := {change.kind for change in result.changes} - tool.change_kinds:
        raise ValueError(f"{len(unknown)} kinds of change are not this tool's own.")
    return result
