"""Tab 2's transcript, rendered from Events by the contract 'A' to 'I'; it is never parsed.

Sizes are code points of the rendered plain text, which is also what a copy of the page yields.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import QuerySet

from sessions.limits import TAB2_CHAR_LIMIT
from sessions.models import Event, Session
from sessions.roster import Character, character

DASHED_LINE = "-------------"
TRUNCATION_NOTE = "(Earlier transcript truncated for display.)"
BOUNDARY_ABOVE_NOTE = "(summary boundary above)"
_SEPARATOR = "\n\n"
_FEW_PROMPTS = 200
EventT = TypeVar("EventT", "Entry", Event)
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){3,}")


@dataclass(frozen=True)
class Entry:
    """One event as it is shown: `character` is None for the GM and the system."""

    prompt_index: int
    role: str
    prefix: str
    text: str
    character: Character | None = None

    @property
    def rendered(self) -> str:
        return self.prefix + self.text


@dataclass(frozen=True)
class Transcript:
    """The newest entries that fit the window, oldest first."""

    entries: list[Entry]
    last_summarized_prompt_index: int
    is_truncated: bool = False

    @property
    def boundary_is_visible(self) -> bool:
        boundary = self.last_summarized_prompt_index
        return any(entry.prompt_index == boundary for entry in self.entries)

    @property
    def boundary_is_above(self) -> bool:
        return self.is_truncated and not self.boundary_is_visible and self._has_boundary

    @property
    def _has_boundary(self) -> bool:
        return self.last_summarized_prompt_index > 0

    @property
    def before_boundary(self) -> list[Entry]:
        return self._split()[0]

    @property
    def after_boundary(self) -> list[Entry]:
        return self._split()[1]

    def _split(self) -> tuple[list[Entry], list[Entry]]:
        boundary = self.last_summarized_prompt_index
        at = sum(entry.prompt_index <= boundary for entry in self.entries)
        return self.entries[:at], self.entries[at:]

    def lines(self) -> Iterator[str]:
        if self.is_truncated:
            yield TRUNCATION_NOTE
        if self.boundary_is_above:
            yield BOUNDARY_ABOVE_NOTE
        before, after = self._split()
        yield from (entry.rendered for entry in before)
        if self.boundary_is_visible:
            yield DASHED_LINE
        yield from (entry.rendered for entry in after)

    @property
    def plain_text(self) -> str:
        return _SEPARATOR.join(self.lines())

    @property
    def char_count(self) -> int:
        return len(self.plain_text)


def read_transcript(chapter: Session, *, limit: int | None = TAB2_CHAR_LIMIT) -> Transcript:
    """The window of the newest events whose rendering fits `limit`; None means all of it."""
    events = chapter.events.order_by("-prompt_index", "-created_at")
    newest_first = (render_event(event, chapter) for event in events.iterator(chunk_size=200))
    boundary = chapter.last_summarized_prompt_index
    if limit is None:
        return Transcript(list(newest_first)[::-1], boundary)
    return window_entries(newest_first, boundary, limit)


def read_prompts(chapter: Session, first: int, last: int) -> Transcript:
    """All of these prompts with their replies."""
    entries = [render_event(event, chapter) for event in _events_between(chapter, first, last)]
    return Transcript(entries, chapter.last_summarized_prompt_index)


def window_entries(newest_first: Iterable[Entry], boundary: int, limit: int) -> Transcript:
    """Take whole entries, newest first, while everything that is shown fits `limit`."""
    # Room for the line and both notes is kept from the start, so that none of them can overflow.
    room = limit - sum(
        len(_SEPARATOR) + len(note) for note in (DASHED_LINE, TRUNCATION_NOTE, BOUNDARY_ABOVE_NOTE)
    )
    entries: list[Entry] = []
    for entry in newest_first:
        size = len(entry.rendered) + len(_SEPARATOR)
        if size > room:
            if not entries:
                entries.append(_cut_start(entry, room))
            return Transcript(entries[::-1], boundary, is_truncated=True)
        entries.append(entry)
        room -= size
    return Transcript(entries[::-1], boundary)


def _cut_start(entry: Entry, room: int) -> Entry:
    """A single entry larger than the window shows its end."""
    kept = entry.text[-max(room - len(entry.prefix) - len(_SEPARATOR), 0) :]
    return Entry(entry.prompt_index, entry.role, entry.prefix, kept, entry.character)


def render_event(event: Event, chapter: Session) -> Entry:
    return _render(chapter, event.prompt_index, event.role, event.agent_slot, event.text)


def _render(
    chapter: Session, prompt_index: int, role: str, agent_slot: int | None, text: str
) -> Entry:
    text = normalize_blank_lines(text)
    if role == Event.Role.AGENT and agent_slot is not None:
        speaker = character(agent_slot, chapter.agent_names)
        return Entry(prompt_index, role, f"{speaker.name}: ", text, speaker)
    prefix = f"{prompt_index}) " if role == Event.Role.USER else ""
    return Entry(prompt_index, role, prefix, text)


def normalize_blank_lines(text: str) -> str:
    """Three or more blank lines become two; none stand at the edges."""
    return _BLANK_LINES.sub("\n\n\n", text.strip("\n"))


def is_replaced(entry: Entry | Event, following: Entry | Event) -> bool:
    """Whether both are replies to one prompt: the story goes by the latest."""
    is_reply = entry.role == following.role == Event.Role.AGENT
    return is_reply and entry.prompt_index == following.prompt_index


def chosen_events(
    chapter: Session, *, from_prompt: int = 1, to_prompt: int | None = None
) -> list[Event]:
    """The events of these prompts in order, with the latest reply of each prompt only."""
    return list(_with_latest_replies(_events_between(chapter, from_prompt, to_prompt)))


def chosen_entries(
    chapter: Session, *, from_prompt: int = 1, to_prompt: int | None = None
) -> Iterator[Entry]:
    """The same as they are shown, without their rows: a chapter may have ten thousand."""
    events = _events_between(chapter, from_prompt, to_prompt)
    rows = events.values_list("prompt_index", "role", "agent_slot", "text")
    is_long = to_prompt is None or to_prompt - from_prompt > _FEW_PROMPTS
    # A cursor for a few rows would be asked three times for what one query brings.
    read = rows.iterator(chunk_size=500) if is_long else rows
    return _with_latest_replies(_render(chapter, *row) for row in read)


def _events_between(chapter: Session, first: int, last: int | None) -> QuerySet[Event]:
    events = chapter.events.filter(prompt_index__gte=first)
    if last is not None:
        events = events.filter(prompt_index__lte=last)
    return events.order_by("prompt_index", "created_at")


def _with_latest_replies(events: Iterable[EventT]) -> Iterator[EventT]:
    newest: EventT | None = None
    for event in events:
        if newest is not None and not is_replaced(newest, event):
            yield newest
        newest = event
    if newest is not None:
        yield newest


def render_events(events: Iterable[Event], chapter: Session) -> str:
    """Plain text of these events as a prompt or a download carries it."""
    return _SEPARATOR.join(render_event(event, chapter).rendered for event in events)
