"""The cells that a mode adds to Tab 1. The name of each field in a cell says which value of the
mode's setup the field edits."""

from collections.abc import Callable, Mapping
from typing import Any

from agents.exceptions import BadSetup
from agents.modes.fields import present_setup, setup_of
from agents.modes.registry import find_mode
from sessions.language.text import with_line_feeds
from sessions.models import Session

# The beginning of the name of a field for the mode's setup. The place of the value follows, as in
# `setup.season` and `setup.berths.0.depth`.
PREFIX = "setup."


def cells_context(chapter: Session) -> dict[str, Any]:
    """Return the context of the mode's cells, or an empty context if the mode has none."""
    mode = find_mode(chapter.mode)
    if mode is None or not mode.pages.cells:
        return {}
    problem = ""
    try:
        setup_of(chapter)
    except BadSetup as error:
        problem = str(error)
    return {
        "has_own_cast": mode.setup.cast_of is not None,
        "setup": present_setup(chapter),
        "setup_problem": problem,
    }


def read_cells(form: Mapping[str, str]) -> Callable[[dict[str, Any]], None] | None:
    """Return a function that puts the values of the form into a mode's setup.

    Returns None if the form has no such values.
    """
    fields = {
        name.removeprefix(PREFIX): with_line_feeds(text)
        for name, text in form.items()
        if name.startswith(PREFIX)
    }

    def change(setup: dict[str, Any]) -> None:
        for place, text in fields.items():
            _put(setup, place.split("."), text)

    return change if fields else None


def _put(setup: dict[str, Any], place: list[str], text: str) -> None:
    """Put the text at this place of the setup. Raises BadSetup if the setup has no such place."""
    found: Any = setup
    try:
        for part in place[:-1]:
            found = found[_key(found, part)]
        key = _key(found, place[-1])
        found[key]
        found[key] = text
    except (LookupError, TypeError, ValueError):
        raise BadSetup([(tuple(place), "there is no such field")]) from None


def _key(found: Any, part: str) -> int | str:
    """Return `part` as an index if `found` is a list, and otherwise as the name of a key."""
    return int(part) if isinstance(found, list) and part.isdecimal() else part
