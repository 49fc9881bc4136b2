"""The kinds of values in the files of chapters and stories.

The limits on single values are in this module. The limits on the number of values are in
storyengine.settings.import_limits.
"""

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from sessions.language.languages import is_tag
from sessions.language.text import as_line, seen, tidied, why_no_name, why_not_text
from sessions.limits import (
    AGENT_CHAR_LIMIT,
    AGENT_NAME_CHAR_LIMIT,
    CHANGE_NAME_CHAR_LIMIT,
    DRAFT_CHAR_LIMIT,
    LANGUAGE_TAG_CHAR_LIMIT,
    MAX_AGENTS,
    MAX_PEOPLE_IN_PLAY,
    MAX_TARGET_WORDS,
    MIN_TARGET_WORDS,
    NARRATIVE_AGENT_CHAR_LIMIT,
    PAYLOAD_CHAR_LIMIT,
    PROMPT_CHAR_LIMIT,
    TAB1_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
)
from sessions.models import FIRST_NUMBER_IN_PLAY
from sessions.payloads import why_not_storable
from sessions.roster import CastText
from storyengine.settings.import_limits import OVER_THE_NETWORK, Limits

# The type of pydantic's error for a list that has too many entries.
TOO_MANY: Final = "too_many"
# The limit in characters of a model's text. The engine never shortens a reply, and no model writes
# nearly so much at once.
MODEL_TEXT_CHAR_LIMIT = 1_000_000
ERROR_CHAR_LIMIT = 5_000
_LARGEST_NUMBER = 1_000_000
# A time must lie in these years. The program computes later times from the times in a file. So no
# time in a file may be near the end of the calendar.
_YEARS = range(2000, 2200)
_TIME = re.compile(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z",
)


def _read_signs(value: object) -> object:
    if not isinstance(value, str):
        return value
    if problem := why_not_text(value):
        said = f"holds characters that are not text: {problem}"
        raise PydanticCustomError("not_text", "{said}", {"said": said})
    return tidied(value)


def _read_text(value: object) -> object:
    """Return a text in the form that is stored, as for texts from pages and the API."""
    value = _read_signs(value)
    return seen(value) if isinstance(value, str) else value


def _read_line(value: object) -> object:
    value = _read_text(value)
    return as_line(value) if isinstance(value, str) else value


def _read_name(value: object) -> object:
    """Return a name as a line. A name in which nothing can be seen does not become empty, so that
    it is refused later."""
    value = _read_signs(value)
    return as_line(value) if isinstance(value, str) else value


def _check_name(value: str) -> str:
    if problem := why_no_name(value):
        said = f"is no name: {problem}"
        raise PydanticCustomError("no_name", "{said}", {"said": said})
    return value


def _check_line(value: str) -> str:
    if as_line(value) != value:
        raise PydanticCustomError("not_a_line", "must be one line without space around it")
    return value


def _check_words(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("no_words", "must not be empty")
    return value


def _check_tag(value: str) -> str:
    if not is_tag(value):
        problem = "must be the tag of a language, such as pt-BR, or empty"
        raise PydanticCustomError("not_a_tag", problem)
    return value


def _check_payload(value: dict[str, Any]) -> dict[str, Any]:
    if problem := why_not_storable(value):
        said = f"cannot be stored: {problem}"
        raise PydanticCustomError("not_storable", "{said}", {"said": said})
    if len(json.dumps(value, ensure_ascii=False)) > PAYLOAD_CHAR_LIMIT:
        raise PydanticCustomError("payload_too_long", "is too long")
    return value


def at_most(kind: str) -> tuple[Any, ...]:
    """Return the annotation for a list whose length is limited by the field `kind` of Limits."""

    def check(value: object, info: ValidationInfo) -> object:
        limits: Limits = (info.context or {}).get("limits", OVER_THE_NETWORK)
        most = getattr(limits, kind)
        if isinstance(value, list) and len(value) > most:
            problem = f"has more than {most:,} entries"
            raise PydanticCustomError(TOO_MANY, "{problem}", {"problem": problem})
        return value

    schema = {"maxItems": getattr(OVER_THE_NETWORK, kind)}
    # The length is checked before pydantic reads the entries. So pydantic does not read the entries
    # of a list that is too long.
    return Field(fail_fast=True, json_schema_extra=schema), BeforeValidator(check)


def _read_time(value: object) -> datetime:
    if isinstance(value, str) and _TIME.fullmatch(value) and int(value[:4]) in _YEARS:
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    raise PydanticCustomError(
        "not_a_time",
        "must be a time such as 2026-01-31T23:59:59.000000Z, of the years 2000 to 2199",
    )


def _write_time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_Text = Annotated[str, BeforeValidator(_read_text)]
Tab1Text = Annotated[_Text, Field(max_length=TAB1_CHAR_LIMIT)]
NarratorText = Annotated[_Text, Field(max_length=NARRATIVE_AGENT_CHAR_LIMIT)]
ModelText = Annotated[_Text, Field(max_length=MODEL_TEXT_CHAR_LIMIT)]
DraftText = Annotated[_Text, Field(max_length=DRAFT_CHAR_LIMIT)]
ErrorText = Annotated[_Text, Field(max_length=ERROR_CHAR_LIMIT)]
_Line = Annotated[str, BeforeValidator(_read_line)]
Name = Annotated[
    str,
    BeforeValidator(_read_name),
    Field(max_length=AGENT_NAME_CHAR_LIMIT),
    AfterValidator(_check_name),
]
AgentName = Annotated[
    str, Field(max_length=AGENT_CHAR_LIMIT, pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$")
]
LanguageTag = Annotated[str, Field(max_length=LANGUAGE_TAG_CHAR_LIMIT), AfterValidator(_check_tag)]
Title = Annotated[_Line, Field(max_length=TITLE_CHAR_LIMIT), AfterValidator(_check_words)]
Payload = Annotated[dict[str, Any], AfterValidator(_check_payload)]
# The user's words of an attempt. They are empty if the user acts without words.
Words = Annotated[
    _Text,
    Field(max_length=PROMPT_CHAR_LIMIT),
    AfterValidator(lambda value: value and _check_words(value)),
]
# A title that may be empty.
OptionalTitle = Annotated[_Line, Field(max_length=TITLE_CHAR_LIMIT)]
# The name of a kind, such as the kind of a change, or the name of a cause.
Term = Annotated[_Text, Field(max_length=CHANGE_NAME_CHAR_LIMIT), AfterValidator(_check_line)]
Seed = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
# The highest number that a member of the cast can have. Slots are the lowest numbers, and people
# without a panel have the numbers above them.
MOST_MEMBERS = FIRST_NUMBER_IN_PLAY + MAX_PEOPLE_IN_PLAY - 1
Member = Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
Slot = Annotated[int, Field(ge=1, le=MAX_AGENTS)]
Number = Annotated[int, Field(ge=0, le=_LARGEST_NUMBER)]
TargetWords = Annotated[int, Field(ge=MIN_TARGET_WORDS, le=MAX_TARGET_WORDS)]
Time = Annotated[
    datetime,
    BeforeValidator(_read_time),
    PlainSerializer(_write_time),
    WithJsonSchema({"type": "string", "pattern": f"^{_TIME.pattern}$"}),
]


def cast_text(one: CastText) -> tuple[Any, Any]:
    """Return the field of a text of a member of the cast, other than the name."""
    kind: Any = _Line if one.is_line else _Text
    default: Any = "" if one.may_lack else ...
    return Annotated[kind, Field(max_length=one.limit)], Field(default, description=one.label)


class Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Tab1(Part):
    world_text: Tab1Text
    chapter_text: Tab1Text


class SourceSnapshot(Part):
    max_prompt_index_used: Number
    memory_blocks_used: Annotated[
        list[Number],
        *at_most("memory_blocks"),
        Field(description="Places in memory_blocks, the first one 0."),
    ]


class File(Part):
    """A whole file."""

    def to_json(self) -> bytes:
        """Return the file as JSON in UTF-8. Reading this JSON gives the same values again."""
        content = self.model_dump()
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def keys_of(*parts: type[Part]) -> frozenset[str]:
    return frozenset(name for part in parts for name in part.model_fields)
