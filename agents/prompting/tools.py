"""Defines tools: typed functions that a model may call, with their context and their result.

A tool reads its context, returns a sentence, and proposes changes to its own chapter. It gets
neither database nor settings, and runs where Django refuses every query (`ToolWriting` in
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

# The form in which a model writes calls: its server's own, a JSON object, or XML in the text.
ToolForm = Literal["native", "json", "xml"]

_NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{CHANGE_NAME_CHAR_LIMIT - 1}}}")


class ToolArguments(BaseModel):
    """The base class of the arguments of tools; unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ProposedChange:
    """A change of the world that a tool proposes; `payload` is a JSON object. The caller that asked
    for the reply stores it as a change of this step."""

    kind: str
    payload: Mapping[str, Any]
    step: int = 0


@dataclass(frozen=True)
class ToolContext:
    """Everything that a tool may know.

    `reader` is the slot for which it reads, or None for the narrator. `readable` is what that
    reader may see at this step. `changes` were proposed by earlier calls of this run.
    """

    chapter_id: uuid.UUID
    reader: int | None
    readable: Mapping[str, Any]
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """The result of a call. `sentence` is for the model, and words of others in it are escaped."""

    sentence: str
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A tool. `run` gets the arguments as an instance of `arguments`, and may propose only changes
    of the kinds in `change_kinds`."""

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
        """The tool's schema, made of texts, numbers, booleans, choices, lists and objects."""
        return ToolSchema(self.name, self.description, json_schema_for(self.arguments))
