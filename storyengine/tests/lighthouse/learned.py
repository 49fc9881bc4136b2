"""What the people of the lighthouse learn. Agent 8 is asked for it beside its own keys, and what it
tells becomes a late result."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from agents.prompting.memory_additions import MemoryAddition, Told
from sessions.models import Attempt
from sessions.play.played_world import everybody_at
from storyengine.tests.lighthouse.state import LEARNED


class Lesson(BaseModel):
    who: str = Field(min_length=1, max_length=80)
    what: str = Field(min_length=1, max_length=200)
    source: Literal["witnessed", "told", "inferred"]
    # The name of the key is a word of Python's.
    from_whom: str = Field("", alias="from", max_length=80)


class Learned(BaseModel):
    learned: list[Lesson] = []


def brings(attempt: Attempt, told: Sequence[Told]) -> dict[str, Any] | None:
    """Return who has learned what, without everybody who was not there or whom nobody knows."""
    names = {one.name: one.number for one in everybody_at(attempt.session, attempt=attempt)}
    lessons = [
        {"who": lesson.who, "what": lesson.what, "until": one.last}
        for one in told
        for lesson in one.fields.learned
        if names.get(lesson.who) in one.audience
    ]
    return {"lessons": lessons} if lessons else None


ADDITION = MemoryAddition(Learned, "storyengine.tests.lighthouse.learned", LEARNED, brings)
