"""The texts and parts that make up the setup of an exploration, with their limits."""

from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationInfo,
)

from sessions.language.text import as_line, why_no_name
from sessions.language.typed_texts import read_name, read_signs, read_text
from sessions.limits import AGENT_NAME_CHAR_LIMIT, PRONOUNS_CHAR_LIMIT, TITLE_CHAR_LIMIT

TEXT_LIMIT, LINE_LIMIT = 5_000, 500


def _check_name(name: str, info: ValidationInfo) -> str:
    if not is_stored(info) and (problem := why_no_name(name)):
        raise ValueError(problem)
    return name


def is_stored(info: ValidationInfo) -> bool:
    """Return whether stored fields are read. Such fields were checked when they were stored,
    perhaps by an older release, and it must still be possible to play their chapters."""
    return bool((info.context or {}).get("is_stored"))


# A text that must be kept sign by sign, such as a pattern.
Signs = Annotated[str, BeforeValidator(read_signs)]
AnyText = Annotated[str, BeforeValidator(read_text)]
# A name is a single line.
Name = Annotated[
    str,
    BeforeValidator(read_name),
    StringConstraints(max_length=AGENT_NAME_CHAR_LIMIT),
    AfterValidator(_check_name),
]
_OneLine = Annotated[AnyText, AfterValidator(as_line)]
Title = Annotated[_OneLine, StringConstraints(max_length=TITLE_CHAR_LIMIT)]
Pronouns = Annotated[_OneLine, StringConstraints(max_length=PRONOUNS_CHAR_LIMIT)]
Line = Annotated[AnyText, StringConstraints(strip_whitespace=True, max_length=LINE_LIMIT)]
Text = Annotated[AnyText, StringConstraints(max_length=TEXT_LIMIT)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


def lines_of(value: object) -> object:
    """Return the lines of a form's text as a list, without empty ones and without repetitions."""
    if not isinstance(value, str):
        return value
    return list(dict.fromkeys(filter(None, (line.strip() for line in value.splitlines()))))


def none_if_empty(value: object) -> object:
    """Return None for the empty choice of a form."""
    return None if value == "" else value
