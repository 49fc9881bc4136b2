"""Reads the starters: finished beginnings of chapters, as files that people can read and add.

A starter has Tab 1, the lock, and a few turns with replies that people wrote.
agents.flows.beginning.from_starters makes chapters from starters.
"""

import logging
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

from django.conf import settings
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from sessions.chapter.chapters import SetupChange, is_setup, setup_with
from sessions.language.speaker_marks import is_mark, person_as_read
from sessions.language.text import as_line, why_no_name
from sessions.language.typed_texts import read_text
from sessions.limits import (
    AGENT_NAME_CHAR_LIMIT,
    MAX_AGENTS,
    PROMPT_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
    STARTER_CHAR_LIMIT,
    TAB1_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
)
from sessions.models import DEFAULT_MODE, Session
from sessions.payloads import place_in_words, problem_in_words, with_fields
from sessions.roster import BESIDE_NAME, COLORS, CastText

logger = logging.getLogger(__name__)

FOLDER = Path(settings.BASE_DIR) / "starters"

# A line of a card has at most this many characters. A longer line would make one card much higher
# than the others.
_CARD_LINE = 60


def _text(limit: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=limit)


def _check_name(name: str) -> str:
    if problem := why_no_name(name):
        raise ValueError(problem)
    if is_mark(name):
        raise ValueError(f"nobody can be called “{name}”, which would look like the Game Master")
    return name


# A text as a chapter stores it, so that Tab 1 can be compared with the starter.
_Text = Annotated[str, BeforeValidator(read_text)]
Name = Annotated[
    _Text, _text(AGENT_NAME_CHAR_LIMIT), AfterValidator(as_line), AfterValidator(_check_name)
]
Prompt = Annotated[_Text, _text(PROMPT_CHAR_LIMIT)]
Tab1Text = Annotated[_Text, _text(TAB1_CHAR_LIMIT)]
CardLine = Annotated[_Text, _text(_CARD_LINE)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _field_of(one: CastText) -> tuple[Any, Any]:
    text = Annotated[_Text, _text(one.limit)]
    return (text, "") if one.may_lack else (text, ...)


@with_fields({one.field_name: _field_of(one) for one in BESIDE_NAME})
class StarterCharacter(_Part):
    """A character, with the texts that sessions.roster declares."""

    name: Name
    hint: CardLine


class SuggestedPrompt(_Part):
    to: Name
    prompt: Prompt


class StarterTurn(SuggestedPrompt):
    reply: Tab1Text


class StarterLock(_Part):
    world: dict[str, Any]
    chapter: dict[str, Any]
    canon_locks: list[str]


class Starter(_Part):
    """A starter. `name` is the name of its file. A chapter stores it to name the starter."""

    name: Annotated[str, _text(STARTER_CHAR_LIMIT)]
    title: Annotated[_Text, _text(TITLE_CHAR_LIMIT)]
    kind: CardLine
    premise: Annotated[_Text, _text(PUBLIC_TEXT_CHAR_LIMIT)]
    world: Tab1Text
    chapter: Tab1Text
    characters: Annotated[list[StarterCharacter], Field(min_length=2, max_length=MAX_AGENTS)]
    turns: Annotated[list[StarterTurn], Field(min_length=1)]
    next: SuggestedPrompt
    lock: StarterLock

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [one.name for one in self.characters]
        if len(set(map(person_as_read, names))) < len(names):
            raise ValueError("two characters have the same name")
        if strangers := {one.to for one in (*self.turns, self.next)} - set(names):
            raise ValueError(f"nobody in it is called {', '.join(sorted(strangers))}")
        return self

    def slot_of(self, name: str) -> int:
        """Return the slot of the character with this name."""
        return [one.name for one in self.characters].index(name) + 1

    def colored_characters(self) -> list[tuple[str, StarterCharacter]]:
        """Return the characters, each with the colour of its slot."""
        return list(zip(COLORS, self.characters, strict=False))

    def lock_payload(self) -> dict[str, Any]:
        """Return the payload of the lock as agent 0 would write it, but without the list of the
        cast."""
        lock = self.lock.model_dump()
        return {"memory_type": "world_chapter_lock", **lock, "assumptions": []}


def all_starters() -> tuple[Starter, ...]:
    return load_starters(FOLDER)


def find_starter(name: str) -> Starter | None:
    return next((one for one in all_starters() if one.name == name), None)


@lru_cache(maxsize=4)
def load_starters(folder: Path) -> tuple[Starter, ...]:
    """Return the starters of this folder, in the order of the files' names.

    A file that is no starter is left out, and the log says why, because a mistake in one file must
    not take the home page away.
    """
    starters = []
    for path in sorted(folder.glob("*.toml")):
        try:
            starters.append(read_starter(path))
        except (OSError, ValueError) as error:
            logger.error("%s is left out, because it is no starter: %s", path, _in_words(error))
    return tuple(starters)


def read_starter(path: Path) -> Starter:
    """Return the starter in this file. Raises ValueError if the file has another form."""
    return Starter(name=path.stem, **tomllib.loads(path.read_text(encoding="utf-8")))


def setup_of(starter: Starter) -> SetupChange:
    """Return the starter's values for Tab 1."""
    characters = [one.model_dump() for one in starter.characters]
    return setup_with(starter.world, starter.chapter, characters)


def unchanged_starter(chapter: Session) -> Starter | None:
    """Return the starter with exactly the texts of the chapter's Tab 1, or None. The title may
    differ, because no text of the starter depends on it."""
    starter = find_starter(chapter.starter) if chapter.starter else None
    if starter is None or chapter.mode != DEFAULT_MODE:
        return None
    return starter if is_setup(chapter, setup_of(starter)) else None


def next_prompt(chapter: Session) -> str:
    """Return the prompt that the chapter's starter suggests, or "" once the story has gone on or
    another character comes next."""
    starter = find_starter(chapter.starter) if chapter.starter and chapter.tab1_locked else None
    if starter is None or chapter.prompt_index != len(starter.turns):
        return ""
    is_next = chapter.next_agent_slot == starter.slot_of(starter.next.to)
    return starter.next.prompt if is_next else ""


def _in_words(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(
        f"{place_in_words(one['loc']) or 'it'}: {problem_in_words(one)}" for one in problems
    )
