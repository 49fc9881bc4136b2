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

from sessions.chapter.chapters import SetupChange
from sessions.language.speaker_marks import is_mark, person_as_read
from sessions.language.text import as_line, why_no_name
from sessions.language.typed_texts import read_text
from sessions.limits import (
    AGENT_NAME_CHAR_LIMIT,
    MAX_AGENTS,
    PROMPT_CHAR_LIMIT,
    PRONOUNS_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
    STARTER_CHAR_LIMIT,
    TAB1_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
)
from sessions.models import DEFAULT_MODE, Session
from sessions.payloads import place_in_words, problem_in_words
from sessions.roster import COLORS

logger = logging.getLogger(__name__)

FOLDER = Path(settings.BASE_DIR) / "starters"

# The longest line of a card. A longer line would make one card much higher than the others.
_CARD_LINE = 60


def _text(limit: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=limit)


def _check_name(name: str) -> str:
    if problem := why_no_name(name):
        raise ValueError(problem)
    if is_mark(name):
        raise ValueError(f"nobody can be called “{name}”, which would look like the Game Master")
    return name


# A text in the form in which a chapter stores it, so that Tab 1 can be compared with the starter.
_Text = Annotated[str, BeforeValidator(read_text)]
Name = Annotated[
    _Text, _text(AGENT_NAME_CHAR_LIMIT), AfterValidator(as_line), AfterValidator(_check_name)
]
Prompt = Annotated[_Text, _text(PROMPT_CHAR_LIMIT)]
Tab1Text = Annotated[_Text, _text(TAB1_CHAR_LIMIT)]
CardLine = Annotated[_Text, _text(_CARD_LINE)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StarterCharacter(_Part):
    name: Name
    pronouns: Annotated[_Text, _text(PRONOUNS_CHAR_LIMIT)]
    public: Annotated[_Text, _text(PUBLIC_TEXT_CHAR_LIMIT)]
    hint: CardLine
    identity: Tab1Text


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
    """A starter. `name` is the name of its file, by which a chapter names the starter."""

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
        """Return the payload of the lock, in the form in which agent 0 would write it, but without
        the list of the cast."""
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
    by_slot = {str(slot): one for slot, one in enumerate(starter.characters, start=1)}
    return SetupChange(
        world_text=starter.world,
        chapter_text=starter.chapter,
        selected_agent_slots=[int(slot) for slot in by_slot],
        agent_names={slot: one.name for slot, one in by_slot.items()},
        agent_pronouns={slot: one.pronouns for slot, one in by_slot.items()},
        agent_public_text={slot: one.public for slot, one in by_slot.items()},
        agent_identity_text_by_slot={slot: one.identity for slot, one in by_slot.items()},
    )


def unchanged_starter(chapter: Session) -> Starter | None:
    """Return the starter with exactly the texts of the chapter's Tab 1, or None.

    The title and the number of prompts of a summary may differ, because no text of the starter
    depends on them.
    """
    starter = find_starter(chapter.starter) if chapter.starter else None
    if starter is None or chapter.mode != DEFAULT_MODE:
        return None
    tab1, setup = chapter.tab1, setup_of(starter)
    cast = {str(one.slot): (one.name, one.pronouns, one.public_text) for one in chapter.characters}
    meant = {
        str(slot): (one.name, one.pronouns, one.public)
        for slot, one in enumerate(starter.characters, start=1)
    }
    identities = chapter.agent_texts("identity_text")
    is_same = (
        (tab1.world_text, tab1.chapter_text) == (setup.world_text, setup.chapter_text)
        and cast == meant
        and len(chapter.everybody) == len(cast)
        and {slot: identities.get(slot) for slot in cast} == setup.agent_identity_text_by_slot
    )
    return starter if is_same else None


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
