"""Keeps a window from overwriting a value of Tab 1, the narrator's instructions, a working copy, or
a choice on the pages of models, that it has not seen.

A page knows a mark for each value that it shows. With scripts it sends the mark with each value
that it saves, and gets the mark of the stored value. Without scripts it sends a form with several
values, and their marks in a hidden field.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.utils import timezone

from agents.modes.fields import present_setup
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import is_setup_open
from sessions.chapter.people import followed, persons_before
from sessions.exceptions import ChapterError
from sessions.language.text import with_line_feeds
from sessions.models import Session
from sessions.roster import CAST_TEXTS, NAME, SLOTS
from storyengine.tabs.setup_cells import PREFIX
from storyengine.web.render import HttpRequest, nothing_new
from storyengine.web.saved_first import SEEN_VALUES

# The header with the mark of the value that the window has seen, and in the answer with the mark of
# the value that is stored now.
HEADER = "X-Seen"
FIELD = SEEN_VALUES
# The hidden field of a form that is saved as a whole, with one mark.
FORM_FIELD = "seen"
# The names of the fields on pages.
_LABELS = {
    "world_text": "World, kind of story, tone",
    "chapter_text": "This chapter, this place",
    "agent_count": "Agents in this chapter",
    "chunk_size": "Prompts in one summary",
    "definition_text": "Narrator",
    "target_words": "Target length",
    "text": "Working copy",
}
_LABELS_BY_SLOT = {
    **{one.field_name: one.label for one in CAST_TEXTS},
    "before": "Person in the chapter before",
}


@dataclass(frozen=True)
class Conflict:
    """A value that another window has changed after this window saw it."""

    field: str
    mine: str
    stored: str

    @property
    def mark(self) -> str:
        return mark_of(self.stored)

    @property
    def label(self) -> str:
        kind, _, slot = self.field.rpartition("_")
        if kind in _LABELS_BY_SLOT and slot.isdecimal():
            return f"{_LABELS_BY_SLOT[kind]} of agent {slot}"
        place = self.field.removeprefix(PREFIX).replace(".", " ").replace("_", " ")
        return _LABELS.get(self.field, place.capitalize())


class ChangedElsewhere(ChapterError):
    """The refusal of values because another window or program has changed the stored values
    meanwhile."""

    status = 412
    title = "Changed elsewhere"
    # The part of a page that shows the stored value and lets the user choose. The next field is the
    # same as a form of its own, for a page without scripts.
    template = "world/_changed_elsewhere.html"
    form_template = "world/_choice_of_values.html"

    def __init__(self, conflicts: list[Conflict], *, saved_others: bool = False) -> None:
        self.conflicts = conflicts
        self.marks = json.dumps({one.field: one.mark for one in conflicts})
        others = " Everything else that you sent is saved." if saved_others else ""
        super().__init__(
            "Another window has changed this since you opened this page. Your words are still "
            f"here, and they are not saved yet: choose which of the two stays.{others}"
        )


@dataclass(frozen=True)
class Sent:
    """The fields of a form, and the marks of the values that the window has seen, both by the names
    of the fields. A value without a mark overwrites whatever is stored."""

    fields: Mapping[str, str]
    marks: Mapping[str, str]
    # Whether the form has all values of the page, even values that the user has not changed.
    is_whole: bool

    @classmethod
    def read(cls, request: HttpRequest) -> "Sent":
        fields = {name: str(text) for name, text in request.POST.items() if name != FIELD}
        if request.htmx:
            mark = request.headers.get(HEADER, "")
            return cls(fields, dict.fromkeys(fields, mark), is_whole=False)
        try:
            marks = json.loads(request.POST.get(FIELD, ""))
        except (ValueError, RecursionError):
            marks = {}
        return cls(fields, marks if isinstance(marks, dict) else {}, is_whole=True)

    def to_save(self, stored: Mapping[str, str]) -> tuple[dict[str, str], list[Conflict]]:
        """Return the fields that may be saved, and the conflicts: the values that would overwrite
        values which the window has not seen."""
        saved, conflicts = {}, []
        for name, text in self.fields.items():
            words, mark = with_line_feeds(text), self.marks.get(name)
            present = stored.get(name)
            if present is None or not mark or words == present or mark_of(present) == mark:
                saved[name] = text
            elif not (self.is_whole and mark_of(words) == mark):
                conflicts.append(Conflict(name, words, present))
        return saved, conflicts


class FormChangedElsewhere(ChapterError):
    """The refusal of a whole form because another window has changed the stored values
    meanwhile."""

    status = 412
    title = "Changed elsewhere"


def check_form_seen(request: HttpRequest, stored: object, sent: object) -> None:
    """Raise FormChangedElsewhere if the form would overwrite values that its window has not seen. A
    form without a mark overwrites whatever is stored."""
    seen = request.POST.get(FORM_FIELD, "")
    if seen and sent != stored and seen != form_mark(stored):
        raise FormChangedElsewhere(
            "Another window has changed this since you opened the page. What you sent is not "
            "saved, and what the other window has set stays. Open the page again, and change it "
            "there."
        )


def form_mark(stored: object) -> str:
    """Return the mark of the values that a form shows. `stored` consists of texts, numbers and
    dataclasses."""
    return mark_of(repr(stored))


def mark_of(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def marks_of(values: Mapping[str, str]) -> str:
    """Return the marks of the values as a JSON object, by the names of the fields."""
    return json.dumps({name: mark_of(value) for name, value in values.items()})


def lock_values(session_id: uuid.UUID) -> Session:
    """Return the chapter, and let every other save of its values wait until this transaction
    ends."""
    # An UPDATE locks the row on every database.
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())
    return get_chapter(session_id)


def to_save_on_tab1(session_id: uuid.UUID, sent: Sent) -> tuple[dict[str, str], list[Conflict]]:
    """Return the values that may be saved on Tab 1, and the conflicts. If Tab 1 is closed, there
    are no conflicts.

    The caller saves in the same transaction, which refuses a closed Tab 1.
    """
    chapter = lock_values(session_id)
    if not is_setup_open(chapter):
        return dict(sent.fields), []
    return sent.to_save(values_of_tab1(chapter))


def mark_after(values: Mapping[str, str], sent: Sent) -> str:
    """Return the mark of the value that was saved, or "" if the form had several."""
    saved = [mark_of(values[field]) for field in sent.fields if field in values]
    return saved[0] if len(saved) == 1 else ""


def answer_saved(
    request: HttpRequest,
    sent: Sent,
    conflicts: list[Conflict],
    read_stored: Callable[[], Mapping[str, str]],
    page: str,
) -> HttpResponse:
    """Answer a request that saved all sent values except the conflicts. A script gets the mark of
    the value that is stored now, and a form without scripts leads to the page at this address.
    Raises ChangedElsewhere if there are conflicts."""
    if conflicts:
        raise ChangedElsewhere(conflicts, saved_others=not request.htmx)
    if not request.htmx:
        return HttpResponseRedirect(page)
    response = nothing_new()
    response[HEADER] = mark_after(read_stored(), sent)
    return response


def values_of_narrator(chapter: Session) -> dict[str, str]:
    return {
        "definition_text": chapter.narrative_agent_definition_text,
        "target_words": str(chapter.target_words),
    }


def values_of_tab1(chapter: Session) -> dict[str, str]:
    values = {
        "world_text": chapter.tab1.world_text,
        "chapter_text": chapter.tab1.chapter_text,
        "agent_count": str(len(chapter.selected_agent_slots)),
        "chunk_size": str(chapter.chunk_size_prompts),
    }
    for one in CAST_TEXTS:
        texts = chapter.agent_texts(one.name)
        values |= {f"{one.field_name}_{slot}": texts.get(str(slot), "") for slot in SLOTS}
    values |= {f"{NAME.field_name}_{slot}": chapter.character(slot).name for slot in SLOTS}
    if before := followed(chapter):
        chosen = persons_before(chapter, before)
        values |= {f"before_{slot}": str(chosen.get(slot) or "") for slot in SLOTS}
    return values | values_of_setup(present_setup(chapter))


def values_of_setup(setup: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a mode's setup, by the names of their fields."""
    return dict(_places(setup, PREFIX))


def _places(found: Any, place: str) -> list[tuple[str, str]]:
    """Return the values of a mode's setup, each with the name of its field."""
    if isinstance(found, Mapping):
        parts = found.items()
    elif isinstance(found, list):
        parts = enumerate(found)  # type: ignore[assignment]
    else:
        return [(place.removesuffix("."), found if isinstance(found, str) else json.dumps(found))]
    return [pair for key, part in parts for pair in _places(part, f"{place}{key}.")]
