"""The objects that agents 0 and 8 return, with their shapes, JSON schemas and checks.

A payload is stored as the model returned it, except for the repetitions that restatements.py
removes. The shapes only decide whether the payload is acceptable. They accept a number in place of
a text and null in place of an empty value, but never fill in missing values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from agents.llm.providers.failures.call_errors import UnusableReply
from sessions.payloads import problem_in_words, why_not_storable
from sessions.roster import Character

Payload = dict[str, Any]

_MAX_PROBLEMS = 5


class InvalidReply(UnusableReply):
    """A reply does not have the form that the request asked for. The message tells the model what
    to repair."""


@dataclass(frozen=True)
class Reading:
    """The payload of a reply. `remark` says what was repaired, or is "" if nothing was."""

    payload: Payload
    remark: str = ""


def _as_text(value: object) -> object:
    """Return null and booleans as text, and any other value unchanged. The validator then turns
    numbers into text and refuses the rest."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value


def _as_list(value: object) -> object:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str | dict) else value


EntryT = TypeVar("EntryT")
Model = TypeVar("Model", bound=BaseModel)
Text = Annotated[str, Field(max_length=800), BeforeValidator(_as_text)]
Several = Annotated[list[EntryT], Field(max_length=14), BeforeValidator(_as_list)]


def _any_numbers(value: object) -> list[int]:
    """Accept any value, even a wrong or a missing one, because the program checks the numbers when
    it stores the block (`memory.fold.source_numbers`)."""
    return []


# The numbers of the prompts that an entry comes from.
At = Annotated[list[int], BeforeValidator(_any_numbers), Field(default_factory=list)]


class _Shape(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class World(_Shape):
    genre: Text
    tone: Text
    themes: Several[Text]
    rules_of_reality: Several[Text]
    factions_or_powers: Several[Text]
    key_lore: Several[Text]
    safety_or_boundaries: Several[Text]


class ChapterSetting(_Shape):
    premise: Text
    location: Text
    time: Text
    environment: Several[Text]
    active_threats: Several[Text]
    open_mysteries: Several[Text]
    chapter_goals: Several[Text]


def _any_roster(value: object) -> list[object]:
    """Accept any roster, even a wrong or a missing one, because the program fills in its own."""
    return []


class RosterEntry(_Shape):
    slot: int
    color: Text
    name: Text


class WorldChapterLock(_Shape):
    """The block that agent 0 returns: a summary of Tab 1.

    The roster in `agents` is never read. The block is stored with the chapter's own roster.
    """

    memory_type: Literal["world_chapter_lock"]
    world: World
    chapter: ChapterSetting
    agents: Annotated[list[RosterEntry], BeforeValidator(_any_roster)] = Field(default_factory=list)
    canon_locks: Several[Text]
    assumptions: Several[Text]


class ChunkRange(_Shape):
    from_marker: Text
    to_marker: Text
    prompt_count_in_chunk: int


class LocationUpdates(_Shape):
    where: Text
    notable_environment_changes: Several[Text]
    at: At


class MajorEvent(_Shape):
    event: Text
    cause: Text
    effect: Text
    participants: Several[Text]
    at: At


class CharacterAction(_Shape):
    # The slot is None for a person. A person also acts in the story, but has no panel.
    agent_slot: Annotated[int | None, WithJsonSchema({"type": "integer"})]
    name: Text
    did: Text
    intent: Text
    result: Text
    at: At


class StateChange(_Shape):
    key: Text
    before: Text
    after: Text
    notes: Text
    at: At


class RelationshipShift(_Shape):
    between: Several[Text]
    change: Text
    evidence: Text
    at: At


class Discovery(_Shape):
    thing: Text
    who_found: Text
    why_it_matters: Text
    at: At


class Thread(_Shape):
    thread: Text
    stakes: Text
    next_likely_trigger: Text
    at: At


class TurnDelta(_Shape):
    """The block that agent 8 returns: everything that is new or changed in one stretch of play.

    Each entry may name the prompts from which it comes (`at`). Plain texts have no room for this.
    So a second list beside them, such as `canon_locks_at` beside `canon_locks`, has the number of a
    prompt for each text.
    """

    memory_type: Literal["turn_delta"]
    range: ChunkRange
    location_updates: LocationUpdates
    major_events: Several[MajorEvent]
    character_actions: Several[CharacterAction]
    state_changes: Several[StateChange]
    relationship_shifts: Several[RelationshipShift]
    items_clues_discovered: Several[Discovery]
    unresolved_threads: Several[Thread]
    canon_locks: Several[Text]
    contradictions_or_questions: Several[Text]
    canon_locks_at: At
    contradictions_or_questions_at: At


Shape = WorldChapterLock | TurnDelta

# The limits for a small model: of a text in characters, and of a list in entries. Even an answer
# that reaches all these limits is below the output limit, so the model always completes its object.
_TIGHT_LENGTH = 80
_TIGHT_LENGTHS = {
    "premise": 200,
    "rules_of_reality": 120,
    "key_lore": 120,
    "open_mysteries": 120,
    "canon_locks": 120,
    "event": 120,
    "did": 100,
    # A contradiction may be longer, because it states two facts.
    "contradictions_or_questions": 200,
    "thread": 100,
    "name": 40,
    "participants": 40,
    "between": 40,
    "who_found": 40,
    "key": 60,
    "color": 10,
    "from_marker": 8,
    "to_marker": 8,
}
_TIGHT_ITEMS = 3
_TIGHT_LISTS = {
    "rules_of_reality": 4,
    "canon_locks": 3,
    "major_events": 4,
    "character_actions": 2,
    "items_clues_discovered": 2,
    "unresolved_threads": 2,
    "notable_environment_changes": 2,
    "assumptions": 2,
    "between": 2,
    "relationship_shifts": 2,
    "contradictions_or_questions": 2,
    "at": 2,
}
# A small model is not asked for these lists of numbers, because it would not give them as many
# entries as the lists of texts that they belong to.
_BESIDE_TEXTS = ("canon_locks_at", "contradictions_or_questions_at")


def json_schema_for(model: type[BaseModel], *, tight: bool = False) -> dict[str, Any]:
    """Return the shape as a JSON schema without references. All its keys are required.

    The schema has only keywords that the strict modes of hosted servers accept. If `tight` is True,
    it also has limits of length for llama.cpp, which turns the schema into a grammar. Without these
    limits a small model would write up to its output limit.
    """
    source = model.model_json_schema()
    return _plain_schema(source, source.get("$defs", {}), name="", tight=tight)


@cache
def argument_schema(model: type[BaseModel], *, says_optional: bool = False) -> dict[str, Any]:
    """Return the schema of a tool's arguments, with their meanings and the bounds within which they
    are accepted.

    Every key is required, because models are to name all keys. If `says_optional` is True, only
    keys without a default are required.
    """
    source = model.model_json_schema()
    said = _OF_ARGUMENTS if says_optional else _OF_ARGUMENTS - {"required"}
    return _plain_schema(source, source.get("$defs", {}), name="", tight=False, said=said)


def without_lengths(schema: Any) -> Any:
    """Return the schema without the bounds that strict modes of hosted servers refuse, and that
    make the grammar of a local server large."""
    match schema:
        case dict():
            kept = {key: part for key, part in schema.items() if key not in _LENGTHS}
            return {key: without_lengths(part) for key, part in kept.items()}
        case list():
            return [without_lengths(part) for part in schema]
    return schema


def lock_schema_for(*, tight: bool = False) -> dict[str, Any]:
    """Return agent 0's schema. A small model is not asked for the roster, which would only take
    time."""
    schema = json_schema_for(WorldChapterLock, tight=tight)
    return _without(schema, "agents") if tight else schema


def with_roster(payload: Payload, roster: Sequence[Character]) -> Payload:
    """Return agent 0's payload with the chapter's own roster in place of what the model wrote."""
    agents = [{"slot": one.slot, "color": one.color, "name": one.name} for one in roster]
    return {**payload, "agents": agents}


def delta_schema_for(
    first: int,
    last: int,
    roster: Sequence[Character],
    *,
    told: Sequence[int] = (),
    tight: bool = False,
    shape: type[TurnDelta] = TurnDelta,
) -> dict[str, Any]:
    """Return agent 8's schema, which allows only the slots of the roster and certain numbers of
    prompts.

    Slot 0 stands for people without a slot. An entry can come only from the prompts `told`, or from
    any prompt of the stretch if `told` is not given. `shape` has the keys that a mode adds.
    """
    schema = json_schema_for(shape, tight=tight)
    parts = schema["properties"]
    chunk = parts["range"]["properties"]
    chunk["from_marker"] = {"type": "string", "enum": [str(first)]}
    chunk["to_marker"] = {"type": "string", "enum": [str(last)]}
    chunk["prompt_count_in_chunk"] = {"type": "integer", "enum": [last - first + 1]}
    action = parts["character_actions"]["items"]["properties"]
    action["agent_slot"] = {"type": "integer", "enum": [0, *(one.slot for one in roster)]}
    numbers = {"type": "integer", "enum": [*(told or range(first, last + 1))]}
    for part in parts.values():
        entry = part.get("items", part).get("properties", {})
        if "at" in entry:
            entry["at"]["items"] = numbers
    for name in _BESIDE_TEXTS:
        parts[name]["items"] = {"type": "integer", "enum": [0, *numbers["enum"]]}
    return _without(schema, *_BESIDE_TEXTS) if tight else schema


def _without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the schema of an object without these keys."""
    properties = {key: part for key, part in schema["properties"].items() if key not in names}
    return schema | {"properties": properties, "required": list(properties)}


def check_payload(payload: Payload, model: type[Model]) -> Model:
    """Return the payload as an instance of `model`. Raises InvalidReply if the payload does not
    have this shape or cannot be stored; the message says what is allowed."""
    check_storable(payload)
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        problems = [_describe(details) for details in error.errors(include_url=False)]
        more = len(problems) - _MAX_PROBLEMS
        tail = f"; and {more} more" if more > 0 else ""
        raise InvalidReply("; ".join(problems[:_MAX_PROBLEMS]) + tail) from None


# The keywords of an argument's schema that a request has beside its type. The second set has the
# keywords among them that limit the lengths of texts.
_OF_ARGUMENTS = frozenset(
    {"description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength"}
    | {"maxLength", "minItems", "maxItems", "required"}
)
_LENGTHS = frozenset({"minLength", "maxLength"})


def _plain_schema(
    node: dict[str, Any],
    definitions: dict[str, Any],
    *,
    name: str,
    tight: bool,
    said: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return pydantic's schema of one field, reduced to keywords that every server understands and
    to those in `said`."""
    part = partial(_plain_schema, definitions=definitions, tight=tight, said=said)
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return part({**target, **{key: node[key] for key in said & node.keys()}}, name=name)
    if "anyOf" in node:
        [one] = [each for each in node["anyOf"] if each.get("type") != "null"]
        return part({**one, **{key: node[key] for key in said & node.keys()}}, name=name)
    kind = node["type"]
    more = {key: node[key] for key in node if key in said}
    if kind == "object":
        properties = {key: part(value, name=key) for key, value in node["properties"].items()}
        required = node.get("required", []) if "required" in said else list(properties)
        return {
            "type": kind,
            **more,
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
    if kind == "array":
        items = part(node["items"], name=name)
        bound = {"maxItems": _TIGHT_LISTS.get(name, _TIGHT_ITEMS)} if tight else {}
        return {"type": kind, **more, "items": items, **bound}
    if "const" in node:
        return {"type": kind, **more, "enum": [node["const"]]}
    if "enum" in node:
        return {"type": kind, **more, "enum": node["enum"]}
    if kind == "string" and tight:
        return {"type": kind, "maxLength": _TIGHT_LENGTHS.get(name, _TIGHT_LENGTH)}
    return {"type": kind, **more}


def check_storable(payload: Payload) -> None:
    """Raise InvalidReply for an object that cannot be stored as JSON."""
    if problem := why_not_storable(payload):
        raise InvalidReply(problem)


def _describe(details: ErrorDetails) -> str:
    """Return a description of one problem: its place, its kind and what is allowed, without the
    payload's words."""
    where = ".".join(str(part) for part in details["loc"]) or "the object"
    # The message of a mode's validator may repeat words of the payload.
    is_told = details["type"] not in ("extra_forbidden", "value_error")
    return f"{where} {problem_in_words(details) if is_told else 'is not acceptable'}"
