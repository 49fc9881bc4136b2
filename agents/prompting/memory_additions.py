"""The keys that a mode asks agent 8 for beside the keys of a delta, for example for the facts that
people have learned.

The added keys never make a delta unusable: an added entry that does not fit is left out. The added
keys are no part of memory. Their content becomes a late result, which changes the mode's world.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from agents.prompting.forms.schemas import Payload, TurnDelta, json_schema_for
from agents.prompting.layers import Piece
from agents.prompting.prompt_files import render_prompt
from sessions.models import Attempt

# The name of the layer that tells agent 8 of the added keys.
ADDED_KEYS = "ADDED_KEYS"


@dataclass(frozen=True)
class Told:
    """What agent 8 wrote into the added keys of one delta.

    `audience` are the witnesses of the events that the delta tells. It is empty if the delta is
    written for the narrator and the user alone. The stretch has the prompts from `first` to `last`.
    `fields` is an instance of `MemoryAddition.fields`.
    """

    audience: tuple[int, ...]
    first: int
    last: int
    fields: Any


@dataclass(frozen=True)
class MemoryAddition:
    """The declaration of the keys that a mode adds to the answer of agent 8.

    Each field of the model `fields` is a key, which has a default and no alias, and is best a list
    of entries. `prompt` names the prompt file that says what the keys are for. `brings` turns the
    content of the keys into the payload of one change of the kind `change_kind`, or returns None if
    there is nothing to change. It is called with the chosen attempt at the last turn of the
    stretch, and drops everybody whom the mode does not know or who was not there. The change is a
    late result: the next run that begins takes it, if the attempt is chosen then.
    """

    fields: type[BaseModel]
    prompt: str
    change_kind: str
    brings: Callable[[Attempt, Sequence[Told]], Mapping[str, Any] | None]

    @cached_property
    def shape(self) -> type[TurnDelta]:
        """The shape of a delta with the added keys. It accepts anything in these keys, because
        `read` checks them."""
        added: dict[str, Any] = {
            name: (Annotated[info.annotation, BeforeValidator(_default_of(info))], info)
            for name, info in self.fields.model_fields.items()
        }
        shape: type[TurnDelta] = create_model("TurnDelta", __base__=TurnDelta, **added)
        return shape

    def pieces(self) -> list[Piece]:
        """Return the pieces of the layer ADDED_KEYS."""
        keys = json.dumps(_example(json_schema_for(self.fields)), ensure_ascii=False)
        text = render_prompt("memory_addition", keys=keys, rules=render_prompt(self.prompt).strip())
        return [Piece(text, has_elements=True)]

    def take_from(self, payload: Payload) -> tuple[Payload, Payload]:
        """Return the payload of a delta without the added keys, and the added keys that fit."""
        names = self.fields.model_fields
        delta = {key: value for key, value in payload.items() if key not in names}
        said = {key: value for key, value in payload.items() if key in names}
        return delta, self._read(said).model_dump(mode="json", by_alias=True)

    def _read(self, said: Payload) -> BaseModel:
        """Return the fields without everything in them that does not fit the model."""
        while said:
            try:
                return self.fields.model_validate(said)
            except ValidationError as error:
                said = _without_misfits(said, error.errors(include_url=False))
        return self.fields()


def _default_of(info: FieldInfo) -> Callable[[object], Any]:
    return lambda _value: info.get_default(call_default_factory=True, validated_data={})


def _without_misfits(said: Payload, problems: Sequence[ErrorDetails]) -> Payload:
    """Return the fields without the parts that have a problem: without the entry, if the field is a
    list, and otherwise without the whole field."""
    kept = dict(said)
    misfits: dict[str, set[int]] = {}
    for problem in problems:
        name, place = [*map(str, problem["loc"][:1]), ""][0], problem["loc"][1:2]
        if isinstance(said.get(name), list) and place and isinstance(place[0], int):
            misfits.setdefault(name, set()).add(place[0])
        else:
            kept.pop(name, None)
    for name, places in misfits.items():
        if name in kept:
            kept[name] = [one for at, one in enumerate(said[name]) if at not in places]
    return {} if kept == said else kept


def _example(schema: Mapping[str, Any]) -> Any:
    """Return an example of the form that the schema describes, with the choices of a text."""
    match schema["type"]:
        case "object":
            return {key: _example(part) for key, part in schema["properties"].items()}
        case "array":
            return [_example(schema["items"])]
        case "string":
            return "|".join(schema.get("enum", ()))
        case "boolean":
            return False
    return 0
