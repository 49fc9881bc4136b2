"""The example that a user can put on an empty Tab 1: a world, a scene and three characters."""

import tomllib
import uuid
from functools import lru_cache
from pathlib import Path

from django.db import transaction

from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, rename_chapter, save_setup
from sessions.exceptions import InvalidInput
from sessions.models import Session
from sessions.roster import character

EXAMPLE_FILE = Path(__file__).resolve().parent / "example_chapter.toml"

#: A first prompt for a user who wants to see a reply before writing a prompt.
FIRST_PROMPT = (
    "The bent beam groans and one of the two lamps goes out. In the half-light you see that the "
    "floor under the scale has sunk by the width of a thumb. The other two are looking at you."
)


@lru_cache(maxsize=1)
def load_example() -> tuple[str, SetupChange]:
    """Return the example's title and its contents for Tab 1."""
    example = tomllib.loads(EXAMPLE_FILE.read_text(encoding="utf-8"))
    characters = {str(slot): one for slot, one in enumerate(example["characters"], start=1)}
    return example["title"], SetupChange(
        world_text=example["world"].strip(),
        chapter_text=example["chapter"].strip(),
        selected_agent_slots=[int(slot) for slot in characters],
        agent_names={slot: one["name"] for slot, one in characters.items()},
        agent_pronouns={slot: one["pronouns"] for slot, one in characters.items()},
        agent_public_text={slot: one["public"] for slot, one in characters.items()},
        agent_identity_text_by_slot={
            slot: one["identity"].strip() for slot, one in characters.items()
        },
    )


@transaction.atomic
def fill_example(session_id: uuid.UUID) -> Session:
    """Put the example on an empty Tab 1, and keep a title that the GM has given.

    Raises InvalidInput if something has been typed, and WrongState if Tab 1 is locked.
    """
    title, change = load_example()
    chapter = save_setup(session_id, SetupChange())
    if not is_empty(chapter):
        raise InvalidInput(
            "Something is written on Tab 1 already, so the example was not put there. "
            "Start a new chapter for it."
        )
    chapter = save_setup(session_id, change)
    if chapter.is_untitled:
        chapter = rename_chapter(session_id, title)
    return get_chapter(session_id)


def suggested_prompt(chapter: Session) -> str:
    """Return the example's first prompt, or "" if this is not the example or the chapter has a
    prompt already."""
    _, change = load_example()
    tab1, slots = chapter.tab1, [str(slot) for slot in chapter.selected_agent_slots]
    identities = chapter.agent_texts("identity_text")
    is_example = (
        (tab1.world_text, tab1.chapter_text) == (change.world_text, change.chapter_text)
        and chapter.agent_names == change.agent_names
        and {slot: identities.get(slot) for slot in slots} == change.agent_identity_text_by_slot
    )
    return FIRST_PROMPT if is_example and not chapter.prompt_index else ""


def is_empty(chapter: Session) -> bool:
    """Return whether nobody has typed anything on Tab 1, not even in a hidden panel."""
    tab1 = chapter.tab1
    texts = [tab1.world_text, tab1.chapter_text, *(one.identity_text for one in chapter.cast)]
    is_default = (
        one.as_character(one.slot or 0) == character(one.slot or 0) for one in chapter.cast
    )
    return not any(text.strip() for text in texts) and all(is_default)
