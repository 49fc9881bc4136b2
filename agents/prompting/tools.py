"""Defines tools: typed functions that a model may call. Each tool gets a context and returns a
result.

A tool reads its context, returns a sentence, and proposes changes to its own chapter. It may use
neither the database nor the settings, and while it runs Django refuses every query (see
`ToolWriting` in agents/calling).
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from agents.llm.providers.base import ToolSchema
from agents.prompting.forms.schemas import argument_schema
from agents.prompting.layers import Piece
from sessions.limits import CHANGE_NAME_CHAR_LIMIT

# The forms in which a model may write tool calls: in the form of the server's protocol ("native"),
# as a JSON object, or as XML in the text.
ToolForm = Literal["native", "json", "xml"]

# One tool call may ask at most this many questions. Each question is a call of a model.
MOST_QUESTIONS = 2

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{CHANGE_NAME_CHAR_LIMIT - 1}}}")


def check_tool_name(name: str) -> None:
    """Raise ValueError for a name that servers do not accept."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a tool: letters, digits and _.")


class ToolArguments(BaseModel):
    """The base class of the arguments of a tool. Unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ProposedChange:
    """A change of the world that a tool proposes. `payload` is a JSON object.

    The caller that asked for the reply stores the change when the step ends.
    """

    kind: str
    payload: Mapping[str, Any]
    step: int = 0


@dataclass(frozen=True)
class ToolContext:
    """All data that a tool may know.

    `reader` is the slot of the character that the tool reads for, or None if the narrator acts.
    `readable` is the data that this character or narrator may know at this step. `changes` are the
    changes that earlier tool calls of this run proposed. `answers` are the answers to the questions
    of `Tool.asks`, in order: each an instance of the arguments of its AnswerTool, or None if the
    call of the model failed or was refused.
    """

    chapter_id: uuid.UUID
    reader: int | None
    readable: Mapping[str, Any]
    changes: tuple[ProposedChange, ...] = ()
    answers: tuple[Any, ...] = ()

    @property
    def answer(self) -> Any:
        """The answer to the first question, or None without one."""
        return self.answers[0] if self.answers else None


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call. The model reads `sentence`. The texts of other authors in it are
    escaped."""

    sentence: str
    changes: tuple[ProposedChange, ...] = ()


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


@dataclass(frozen=True)
class AnswerTool(Generic[ArgumentsT]):
    """A tool whose arguments are a model's answer to a question. It is never run."""

    name: str
    description: str
    arguments: type[ArgumentsT]

    def __post_init__(self) -> None:
        check_tool_name(self.name)

    @cached_property
    def schema(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, argument_schema(self.arguments))


@dataclass(frozen=True)
class Question:
    """A question that a tool asks a model before it runs.

    `agent` is the name of the agent that is asked, which is not the agent that writes the reply.
    `pieces` are the pieces that belong only to this request, by the names of the agent's layers.
    The model answers by calling the tool `answer`.
    """

    agent: str
    pieces: Mapping[str, Sequence[Piece]]
    answer: AnswerTool[Any]


@dataclass(frozen=True)
class Tool:
    """The declaration of a tool.

    `run` is called with the arguments as an instance of the class `arguments`. It may propose only
    changes of the kinds in `change_kinds`. `asks` is called before it, with the same arguments, and
    returns a question to a model or None. It is called again with the answer in its context, until
    it returns None or MOST_QUESTIONS have been asked. `run` then finds the answers in its context,
    and has to manage without an answer that did not come.
    """

    name: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Any, ToolContext], ToolResult]
    change_kinds: frozenset[str] = frozenset()
    asks: Callable[[Any, ToolContext], Question | None] | None = None

    def __post_init__(self) -> None:
        check_tool_name(self.name)

    @cached_property
    def schema(self) -> ToolSchema:
        """The tool's schema, with descriptions and bounds. It has only texts, numbers, booleans,
        choices, lists and objects."""
        return ToolSchema(self.name, self.description, argument_schema(self.arguments))


AnyTool = Tool | AnswerTool[Any]
