"""What a tool is: a typed function that a model may call, and all that it is given and may return.

A tool reads what its context holds, says a sentence, and proposes changes to its own chapter. It is
given no database and no settings, and it is run where Django refuses every query (`ToolWriting` in
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

# How a model writes its calls: as its server's own, as one JSON object, as XML in the text.
ToolForm = Literal["native", "json", "xml"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class ToolArguments(BaseModel):
    """The base of each tool's arguments: what it does not name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ProposedChange:
    """What a tool would do to the world; `payload` is an object of JSON. It is stored by whoever
    asked for the reply, as a change of this step."""

    kind: str
    payload: Mapping[str, Any]
    step: int = 0


@dataclass(frozen=True)
class ToolContext:
    """All that a tool may know.

    `reader` is the slot for whom it reads, None for the narrator. `readable` is what that reader
    may see at this step. `changes` were proposed by calls before this one, in this run.
    """

    chapter_id: uuid.UUID
    reader: int | None
    readable: Mapping[str, Any]
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """`sentence` is for the model; others' words in it are escaped like any text of the story."""

    sentence: str
    changes: tuple[ProposedChange, ...] = ()


@dataclass(frozen=True)
class Tool:
    """`run` gets the arguments as an instance of their model. It may propose only changes of the
    kinds that are named here."""

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
        """Fields of texts, numbers, truth values, choices, and lists or objects of these."""
        return ToolSchema(self.name, self.description, json_schema_for(self.arguments))
