"""Keeps a window from overwriting a value of Tab 1, or a working copy, that it has not seen.

A page knows a mark for each value that it shows. It sends the mark with each value that it saves,
and gets the mark of what was stored.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.http import QueryDict
from django.utils import timezone

from agents.mode_fields import present_setup
from sessions.access import get_chapter
from sessions.chapters import is_setup_open
from sessions.exceptions import ChapterError
from sessions.models import Session
from sessions.roster import SLOTS
from sessions.text import with_line_feeds
from storyengine.tabs.setup_cells import PREFIX

# The header with the mark of the value that the window has seen, and in the answer with the mark of
# the value that is stored now.
HEADER = "X-Seen"


class ChangedElsewhere(ChapterError):
    """The refusal of a value because another window or program has changed the stored one since."""

    status = 412
    title = "Changed elsewhere"
    # The part of a page that shows the stored value, and lets the user choose.
    template = "world/_changed_elsewhere.html"

    def __init__(self, field: str, stored: str) -> None:
        self.field, self.stored, self.mark = field, stored, mark_of(stored)
        super().__init__(
            "Another window has changed this since you opened this page. Your words are still "
            "here, and they are not saved yet: choose which of the two stays."
        )


def mark_of(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def marks_of(chapter: Session) -> dict[str, str]:
    """Return the mark of each value of Tab 1, by the name of its field."""
    return {name: mark_of(value) for name, value in _stored_values(chapter).items()}


def check_seen(session_id: uuid.UUID, form: QueryDict, seen: str) -> None:
    """Raise ChangedElsewhere if the form has a value that would overwrite another one than the
    window has seen. Without a mark nothing is checked, nor if Tab 1 is closed.

    The caller saves the form in the same transaction, which refuses a closed Tab 1.
    """
    if not seen:
        return
    # This UPDATE locks the row on every database, so that another save waits.
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())
    chapter = get_chapter(session_id)
    if not is_setup_open(chapter):
        return
    stored = _stored_values(chapter)
    for field, text in form.items():
        value = stored.get(field)
        if value is not None and mark_of(value) != seen and with_line_feeds(str(text)) != value:
            raise ChangedElsewhere(field, value)


def check_text_seen(field: str, stored: str, seen: str) -> None:
    """Raise ChangedElsewhere if the window has seen another text than the stored one. Without a
    mark nothing is checked. The caller has locked the row and saves another text."""
    if seen and mark_of(stored) != seen:
        raise ChangedElsewhere(field, stored)


def mark_after(session_id: uuid.UUID, form: QueryDict) -> str:
    """Return the mark of the value that was saved, or "" if the form had several."""
    marks = marks_of(get_chapter(session_id))
    saved = [marks[field] for field in form if field in marks]
    return saved[0] if len(saved) == 1 else ""


def _stored_values(chapter: Session) -> dict[str, str]:
    values = {
        "world_text": chapter.tab1.world_text,
        "chapter_text": chapter.tab1.chapter_text,
        "agent_count": str(len(chapter.selected_agent_slots)),
        "chunk_size": str(chapter.chunk_size_prompts),
    }
    identities = chapter.agent_texts("identity_text")
    for slot in SLOTS:
        one = chapter.character(slot)
        values[f"name_{slot}"] = one.name
        values[f"pronouns_{slot}"] = one.pronouns
        values[f"public_{slot}"] = one.public_text
        values[f"identity_{slot}"] = identities.get(str(slot), "")
    return values | dict(_places(present_setup(chapter), PREFIX))


def _places(found: Any, place: str) -> list[tuple[str, str]]:
    """Return the values of a mode's setup, each with the name of its field."""
    if isinstance(found, Mapping):
        parts = found.items()
    elif isinstance(found, list):
        parts = enumerate(found)  # type: ignore[assignment]
    else:
        return [(place.removesuffix("."), found if isinstance(found, str) else json.dumps(found))]
    return [pair for key, part in parts for pair in _places(part, f"{place}{key}.")]
