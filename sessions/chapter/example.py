"""The example that a user can put on an empty Tab 1: a world, a scene and three characters."""

import tomllib
import uuid
from functools import lru_cache
from pathlib import Path

from django.db import transaction

from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, is_setup, rename_chapter, save_setup, setup_with
from sessions.exceptions import InvalidInput
from sessions.models import Session
from sessions.roster import PRIVATE_TEXTS, character

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
    setup = setup_with(example["world"], example["chapter"], example["characters"])
    return example["title"], setup


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
    is_begun = chapter.prompt_index > 0
    return FIRST_PROMPT if not is_begun and is_setup(chapter, load_example()[1]) else ""


def is_empty(chapter: Session) -> bool:
    """Return whether nobody has typed anything on Tab 1, not even in a hidden panel."""
    tab1 = chapter.tab1
    texts = [tab1.world_text, tab1.chapter_text]
    texts += [getattr(one, text.name) for one in chapter.cast for text in PRIVATE_TEXTS]
    is_default = (
        one.as_character(one.slot or 0) == character(one.slot or 0) for one in chapter.cast
    )
    return not any(text.strip() for text in texts) and all(is_default)
