"""Renders Tab 2's transcript from events.

The form of the transcript follows the contract 'A' to 'I' of the specification, and no code parses
it. Sizes are counted in code points of the plain text, which is also the text that a browser
copies.
"""

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from sessions.layer_words import layer_in_words
from sessions.limits import TAB2_CHAR_LIMIT
from sessions.models import THOUGHT, Attempt, Event, Session
from sessions.record.chosen_events import chosen_events, committed_attempts, other_events
from sessions.roster import Character

DASHED_LINE = "-------------"
TRUNCATION_NOTE = "(Earlier transcript truncated for display.)"
BOUNDARY_ABOVE_NOTE = "(summary boundary above)"
# A function that takes the witnesses of an event, and returns whether the event is shown.
Perceived = Callable[[Collection[int]], bool]
_SEPARATOR = "\n\n"
_FEW_PROMPTS = 200
# The words for how an attempt was made, by its kind. The braces stand for the layer that a trial
# changed.
_MADE = {Attempt.Kind.EDIT: "edited by hand", Attempt.Kind.TRIAL: "with {} changed"}
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){3,}")


@dataclass(frozen=True)
class Entry:
    """An event as it is shown. `character` is None if the event belongs to the GM or the system."""

    prompt_index: int
    role: str
    prefix: str
    text: str
    character: Character | None = None
    # False if the attempt of the entry is not chosen.
    is_chosen: bool = True
    # The names of the witnesses, unless the user speaks. "" if everybody is a witness.
    perceived_by: str = ""
    # True for a thought. It is shown only on request, and it is no part of the transcript.
    is_thought: bool = False
    # True for an entry that has only the number of a turn, because the user wrote nothing at this
    # turn, if the turn has other entries. Only models read this entry.
    is_silent: bool = False
    attempt_id: uuid.UUID | None = None
    # For a reply, its place among all replies to the prompt, if these are shown, and the way in
    # which it was made, if not by the usual request: "2 of 3" and "edited by hand". Both may be "".
    place: str = ""
    made: str = ""

    @property
    def is_told(self) -> bool:
        """Whether the entry is part of the transcript that can be downloaded."""
        return self.is_chosen and not (self.is_thought or self.is_silent)

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
    def first_number(self) -> int:
        """The number of the first prompt that has an entry, or 0."""
        return self.entries[0].prompt_index if self.entries else 0

    @property
    def first_part(self) -> int:
        """The number of chosen entries of the first prompt if its own words are missing. It is 0 if
        the transcript begins with a whole turn."""
        if not self.entries or self.entries[0].role == Event.Role.USER:
            return 0
        at_first = (one for one in self.entries if one.prompt_index == self.first_number)
        return sum(one.is_chosen for one in at_first)

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
        yield from (entry.rendered for entry in before if entry.is_told)
        if self.boundary_is_visible:
            yield DASHED_LINE
        yield from (entry.rendered for entry in after if entry.is_told)

    @property
    def plain_text(self) -> str:
        return _SEPARATOR.join(self.lines())

    @property
    def char_count(self) -> int:
        return len(self.plain_text)


def read_transcript(
    chapter: Session,
    *,
    limit: int | None = TAB2_CHAR_LIMIT,
    with_all_replies: bool = False,
    with_thoughts: bool = False,
) -> Transcript:
    """Read the newest events that fit `limit` when they are rendered. If `limit` is None, read all
    events.

    With `with_all_replies`, attempts that are not chosen are read too. With `with_thoughts`,
    thoughts are read too. Neither of them counts towards the limit.
    """
    events = chosen_events(chapter, with_thoughts=True).reverse()
    entries = (render_event(event, chapter) for event in events.iterator(chunk_size=200))
    newest_first = _asked_for(_numbered(entries, newest_first=True), with_thoughts)
    boundary = chapter.last_summarized_prompt_index
    if limit is None:
        transcript = Transcript(list(newest_first)[::-1], boundary)
    else:
        transcript = window_entries(newest_first, boundary, limit)
    return (
        _with_attempts(transcript, chapter, True, with_thoughts) if with_all_replies else transcript
    )


def read_prompts(
    chapter: Session,
    first: int,
    last: int,
    *,
    with_all_replies: bool = False,
    with_thoughts: bool = False,
) -> Transcript:
    """Read the prompts from `first` to `last` with their replies."""
    events = chosen_events(chapter, from_prompt=first, to_prompt=last, with_thoughts=True)
    entries = _numbered(render_event(event, chapter) for event in events)
    transcript = Transcript(
        list(_asked_for(entries, with_thoughts)), chapter.last_summarized_prompt_index
    )
    return _with_attempts(transcript, chapter, with_all_replies, with_thoughts)


def _asked_for(entries: Iterable[Entry], with_thoughts: bool) -> Iterator[Entry]:
    """Yield the entries. Without `with_thoughts`, leave out thoughts."""
    return (entry for entry in entries if with_thoughts or not entry.is_thought)


def _with_attempts(
    transcript: Transcript, chapter: Session, with_all_replies: bool, with_thoughts: bool
) -> Transcript:
    """Say how each reply was made. With `with_all_replies`, add the entries of attempts that are
    not chosen, in the order of their commits."""
    if not transcript.entries:
        return transcript
    entries = list(transcript.entries)
    numbers = (entries[0].prompt_index, entries[-1].prompt_index)
    if with_all_replies:
        others = other_events(
            chapter, from_prompt=numbers[0], to_prompt=numbers[1], with_thoughts=with_thoughts
        )
        entries += [replace(render_event(one, chapter), is_chosen=False) for one in others]
    attempts = committed_attempts(chapter.pk).filter(turn__number__range=numbers)
    rows = attempts.values_list("turn__number", "pk", "kind", "changed_layer__layer_name")
    by_turn: dict[int, list[uuid.UUID]] = {}
    made: dict[uuid.UUID | None, str] = {}
    for number, attempt_id, kind, layer in rows:
        by_turn.setdefault(number, []).append(attempt_id)
        made[attempt_id] = _MADE.get(Attempt.Kind(kind), "").format(layer_in_words(layer or ""))

    def at(entry: Entry) -> int:
        turn = by_turn.get(entry.prompt_index, [])
        return turn.index(entry.attempt_id) + 1 if entry.attempt_id in turn else 0

    def told(entry: Entry) -> Entry:
        count = len(by_turn.get(entry.prompt_index, []))
        if entry.role != Event.Role.AGENT or not at(entry):
            return entry
        place = f"{at(entry)} of {count}" if with_all_replies and count > 1 else ""
        return replace(entry, place=place, made=made[entry.attempt_id])

    ordered = sorted(entries, key=lambda entry: (entry.prompt_index, at(entry)))
    return replace(transcript, entries=_without_repeated_words(told(one) for one in ordered))


def _without_repeated_words(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries. If several attempts at a turn have the same words of the user, return the
    words once. They count as chosen if the chosen attempt has them."""
    kept: list[Entry] = []
    places: dict[tuple[int, str], int] = {}
    for entry in entries:
        if entry.role != Event.Role.USER:
            kept.append(entry)
            continue
        place = places.setdefault((entry.prompt_index, entry.rendered), len(kept))
        if place == len(kept):
            kept.append(entry)
        elif entry.is_chosen:
            kept[place] = entry
    return kept


def window_entries(newest_first: Iterable[Entry], boundary: int, limit: int) -> Transcript:
    """Return a transcript with as many of the newest entries as fit `limit` together. Entries are
    not cut, except the newest entry if it is larger than `limit`."""
    # The room for the dashed line and for the two other notes is reserved first, so that all three
    # always fit.
    room = limit - sum(
        len(_SEPARATOR) + len(note) for note in (DASHED_LINE, TRUNCATION_NOTE, BOUNDARY_ABOVE_NOTE)
    )
    entries: list[Entry] = []
    for entry in newest_first:
        is_unseen = entry.is_thought or entry.is_silent
        size = 0 if is_unseen else len(entry.rendered) + len(_SEPARATOR)
        if size > room:
            if not any(one.is_told for one in entries):
                entries.append(_cut_start(entry, room))
            return Transcript(entries[::-1], boundary, is_truncated=True)
        entries.append(entry)
        room -= size
    return Transcript(entries[::-1], boundary)


def _cut_start(entry: Entry, room: int) -> Entry:
    """Cut off the start of an entry that is larger than the window, because its end is the newest
    text."""
    kept = entry.text[-max(room - len(entry.prefix) - len(_SEPARATOR), 0) :]
    return Entry(entry.prompt_index, entry.role, entry.prefix, kept, entry.character)


def render_event(event: Event, chapter: Session) -> Entry:
    told = (event.prompt_index, event.role, event.agent_slot, event.text, event.kind)
    entry = replace(_render(chapter, *told), attempt_id=event.attempt_id)
    is_everybodys = set(event.witnesses) >= set(chapter.everybodys_numbers)
    if entry.is_thought or entry.role == Event.Role.USER or is_everybodys:
        return entry
    names = [chapter.character(number).name for number in event.witnesses]
    return replace(entry, perceived_by=", ".join(names) or "nobody of the cast")


def _render(
    chapter: Session, prompt_index: int, role: str, agent_slot: int | None, text: str, kind: str
) -> Entry:
    text = normalize_blank_lines(text)
    if role == Event.Role.AGENT and agent_slot is not None:
        speaker = chapter.character(agent_slot)
        is_thought = kind == THOUGHT
        return Entry(prompt_index, role, f"{speaker.name}: ", text, speaker, is_thought=is_thought)
    prefix = f"{prompt_index}) " if role == Event.Role.USER else ""
    return Entry(prompt_index, role, prefix, text)


def normalize_blank_lines(text: str) -> str:
    """Replace three or more blank lines by two, and remove blank lines at both ends."""
    return _BLANK_LINES.sub("\n\n\n", text.strip("\n"))


def chosen_entries(
    chapter: Session,
    *,
    from_prompt: int = 1,
    to_prompt: int | None = None,
    last_attempt: uuid.UUID | None = None,
    perceived: Perceived | None = None,
    with_thoughts: bool = False,
    prompts: Collection[int] | None = None,
) -> Iterator[Entry]:
    """Yield an entry for each event that `chosen_events` returns. No model objects are made,
    because there may be ten thousand events.

    `perceived` takes the witnesses of an event, and returns whether the event is included. Without
    `perceived`, every turn has an entry: if a turn has nothing but thoughts, the entry has only the
    turn's number.
    """
    events = chosen_events(
        chapter,
        from_prompt=from_prompt,
        to_prompt=to_prompt,
        last_attempt=last_attempt,
        with_thoughts=with_thoughts or perceived is None,
        prompts=prompts,
    )
    rows = events.values_list("prompt_index", "role", "agent_slot", "text", "kind", "witnesses")
    is_long = prompts is None and (to_prompt is None or to_prompt - from_prompt > _FEW_PROMPTS)
    # A few rows are read by a plain query, because a cursor would need three queries.
    read = rows.iterator(chunk_size=500) if is_long else rows
    entries = _numbered(
        _render(chapter, number, role, slot, text, kind)
        for number, role, slot, text, kind, witnesses in read
        if perceived is None or perceived(witnesses)
    )
    return _asked_for(entries, with_thoughts)


def _numbered(entries: Iterable[Entry], *, newest_first: bool = False) -> Iterator[Entry]:
    """Yield the entries. If the user wrote no words at a turn, also yield an entry with the turn's
    number."""
    for number, of_turn in groupby(entries, key=lambda entry: entry.prompt_index):
        turn = list(of_turn)
        first = turn[-1 if newest_first else 0]
        if first.role != Event.Role.USER:
            at = len(turn) if newest_first else 0
            says_nothing = all(one.is_thought for one in turn)
            silent = Entry(number, Event.Role.USER, f"{number})", "", is_silent=not says_nothing)
            turn.insert(at, silent)
        yield from turn
