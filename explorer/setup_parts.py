"""The texts and parts of which the setup of an exploration consists, with their limits."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from sessions.limits import AGENT_NAME_CHAR_LIMIT

TEXT_LIMIT, LINE_LIMIT = 5_000, 500

Name = Annotated[str, StringConstraints(strip_whitespace=True, max_length=AGENT_NAME_CHAR_LIMIT)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, max_length=LINE_LIMIT)]
Text = Annotated[str, StringConstraints(max_length=TEXT_LIMIT)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


def none_if_empty(value: object) -> object:
    """Return None for the empty choice of a form."""
    return None if value == "" else value
