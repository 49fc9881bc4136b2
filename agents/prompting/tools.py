"""Defines tools: typed functions that a model may call. Each gets a context and returns a result.

A tool reads its context, returns a sentence, and proposes changes to its own chapter. It has access
to neither database nor settings, and runs where Django refuses every query (see `ToolWriting` in
agents/calling).
"""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from agents.prompting.forms.schemas import json_schema_for
from agents.providers.base import ToolSchema
from sessions.limits import CHANGE_NAME_CHAR_LIMIT

# The form in which a model writes tool calls. It is the server's own, a JSON object, or XML in the
# text.
ToolForm = Literal["native", "json", "xml"]

_NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{CHANGE_NAME_CHAR_LIMIT - 1}}}")


class ToolArguments(BaseModel):
    """The base class of the arguments of a tool. Unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ProposedChange:
    """A change of the world that a tool proposes. `payload` is a JSON object.

    The caller that asked for the reply stores the change with this step.
    """

    kind: str
    payload: Mapping[str, Any]
    step: int = 0


@dataclass(frozen=True)
class ToolContext:
    """Everything that a tool may know.

    `reader` is the slot of the character for whom it reads, or None for the narrator. `readable` is
    what that reader may see at this step. `changes` are the changes that earlier calls of this run
    proposed.
    """

    chapter_id: uuid.UUID
    reader: int | None
    readable: Mapping[str, Any]
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """The result of a call. The model reads `sentence`, in which the words of others are
    escaped."""

    sentence: str
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A tool.

    `run` gets the arguments as an instance of the class `arguments`. It may propose only changes of
    the kinds in `change_kinds`.
    """

    name: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Any, ToolContext], ToolResult]
    change_kinds: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a tool: small letters, digits and _.")

    @cached_property
    def schema(self) -> ToolSchema:
        """The tool's schema. It has only texts, numbers, booleans, choices, lists and objects."""
        return ToolSchema(self.name, self.description, json_schema_for(self.arguments))
