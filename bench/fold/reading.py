"""Asks the exact prompts of the fold test for the values of subjects, and compares the answers with
the truth."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import TYPE_CHECKING

from testing.told_story import Kind, Known, Story, Subject

if TYPE_CHECKING:
    from memory.telling.now_view import NowItem, NowSection

_LINE = re.compile(r"^<(\w+)(?: [^>]*)?>(.*)</\1>$", re.MULTILINE)
_MARK = re.compile(r"\b([MRI])(\d{4}x\d{5})\b")
# The elements that tell what holds now, and those that tell what is past.
_NOW = frozenset({"now", "where", "location", "open", "closed", "canon"})
_PAST = frozenset({"was", "no_longer_true"})
# The elements that tell the same as the sections of the Now view.
_TAGS = {"where": "where", "state": "now", "open": "open", "closed": "closed", "canon": "canon"}
_MOST_EXAMPLES = 20
_Values = dict[Subject, set[str]]


@dataclass
class Count:
    right: int = 0
    of: int = 0

    def add(self, is_right: bool) -> None:
        self.right += is_right
        self.of += 1


@dataclass
class Tally:
    """What was counted in prompts.

    `now` counts pairs of a reader and a subject whose value the reader knows, and `knowledge` pairs
    with a subject that now has a value which the reader does not know. `past` counts older values
    that stand in a prompt: right are those that are marked as past. `kept` counts older values that
    memory must have, because nothing was left out. `world` counts values of the whole world at a
    turn. `examples` tells some of the mistakes in words.
    """

    now: Count = field(default_factory=Count)
    past: Count = field(default_factory=Count)
    kept: Count = field(default_factory=Count)
    world: Count = field(default_factory=Count)
    knowledge: Count = field(default_factory=Count)
    leaks: int = 0
    prompts: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(what)


@dataclass(frozen=True)
class Asking:
    """The prompt of the character `reader`. `turn` is the last turn before, and memory covers the
    turns up to `covered`. With `named`, only these subjects are asked for. `is_whole` says that the
    prompt leaves nothing out that memory has."""

    text: str
    reader: int
    turn: int
    covered: int
    named: Collection[Subject] | None = None
    is_whole: bool = False

    def __str__(self) -> str:
        return f"turn {self.turn}, character {self.reader}"


class _Told:
    """What a prompt tells. `held` has the values that it tells as those of now, by subject, and
    `past` those that it marks as past. `said` has what the turns of the record say, with their
    numbers."""

    def __init__(self, text: str, story: Story) -> None:
        self.held: _Values = defaultdict(set)
        self.past: _Values = defaultdict(set)
        self.said: dict[Subject, list[tuple[int, str]]] = defaultdict(list)
        self.marks: set[tuple[str, str]] = set(_MARK.findall(text))
        by_key = {subject.key: subject for subject in story.subjects}
        for tag, inner in _LINE.findall(text):
            if tag in _NOW or tag in _PAST:
                values = self.held if tag in _NOW else self.past
                for subject, value in read_line(tag, unescape(inner), by_key):
                    values[subject].add(value)
        _, _, after = text.partition("## RECENT_CONTEXT\n")
        record = re.split(r"^## [A-Z]", after, maxsplit=1, flags=re.MULTILINE)[0]
        marks = dict.fromkeys(mark for kind, mark in _MARK.findall(record) if kind == "M")
        for turn in (story.book[f"M{mark}"] for mark in marks):
            for change in turn.changes:
                if change.sentence in record:
                    self.said[change.subject].append((turn.number, change.value))

    def answer(self, subject: Subject, covered: int) -> str:
        """Return the value that the prompt gives the subject, or "" if it gives none.

        What the record says of turns after `covered` comes after memory. If memory tells several
        values as those of now, the answer is all of them.
        """
        if later := [value for number, value in sorted(self.said[subject]) if number > covered]:
            return later[-1]
        return " and ".join(sorted(self.held.get(subject, ())))


def read_line(tag: str, told: str, by_key: dict[str, Subject]) -> Iterator[tuple[Subject, str]]:
    """Yield the subjects that this line of memory is about, with their values."""
    if tag == "where":
        names, _, place = told.rpartition(": ")
        for name in names.split(", "):
            subject = by_key.get(f"{name}'s location")
            # A person who acts is supposed to be at the scene, which is no value of the subject.
            if subject and place in subject.values:
                yield subject, place
        return
    if tag == "location":
        told = f"location: {told}"
    key, _, rest = told.partition(": ")
    subject = by_key.get(key) or by_key.get(told.partition(" (")[0])
    if subject is None:
        return
    if subject.kind is Kind.THREAD:
        rest = told.removeprefix(subject.key)
        ends = [one for one in ("kept", "broken") if re.search(rf"\b{one}\b", rest)]
        # What was said about an open thread before it was opened again is past.
        yield subject, "open" if tag == "open" else " then ".join(ends) or "open"
        return
    for value in subject.values:
        if re.match(rf"{re.escape(value)}\b", rest):
            yield subject, value


def check_prompt(asking: Asking, story: Story, written: set[tuple[str, str]], tally: Tally) -> None:
    """Count what is right and wrong in this prompt. `written` is what agent 8 wrote down."""
    told = _Told(asking.text, story)
    tally.prompts += 1
    known = story.known([asking.reader], until=asking.turn)
    earlier = story.known([asking.reader], until=asking.covered)
    world = story.known(until=asking.turn)
    for subject in story.subjects:
        knows = known.get(subject)
        if asking.named is None or subject in asking.named:
            now = world[subject].now if subject in world else ""
            _check_now(subject, knows, now, asking, told, tally)
        held, past = told.held.get(subject, set()), told.past.get(subject, set())
        right = {one[subject].now for one in (known, earlier) if subject in one}
        tally.past.right += len(past)
        tally.past.of += len(past) + len(held - right)
        for value in held - right:
            tally.note(f"{asking}: {subject.key} was {value!r}, which is not marked as past")
        for value in (held | past) - story.ever(subject, asking.reader, knows):
            tally.leaks += 1
            tally.note(f"{asking}: {subject.key} as {value!r} was not witnessed")
    if asking.is_whole:
        _check_kept(asking, story, written, told, tally)
    _check_marks(asking, told, story, tally)


def _check_now(
    subject: Subject, knows: Known | None, now: str, asking: Asking, told: _Told, tally: Tally
) -> None:
    """Count whether the prompt gives the subject the value that the reader knows. The value `now`
    is that of the world."""
    wanted = knows.now if knows else ""
    # A ruling comes after all turns of the record.
    answer = told.answer(subject, asking.turn if knows and knows.ruling else asking.covered)
    if wanted:
        tally.now.add(answer == wanted)
    if now != wanted:
        tally.knowledge.add(answer == wanted)
    if answer != wanted:
        tally.note(f"{asking}: {subject.key} is {wanted!r}, and the prompt says {answer!r}")


def _check_kept(
    asking: Asking, story: Story, written: set[tuple[str, str]], told: _Told, tally: Tally
) -> None:
    """Count the older values that a prompt which leaves nothing out must have."""
    values: dict[Subject, list[str]] = defaultdict(list)
    for turn in story.turns[: asking.covered]:
        for change in turn.changes if asking.reader in turn.witnesses else ():
            if (turn.mark, change.subject.key) in written:
                values[change.subject].append(change.value)
    ruled = story.ruled
    for subject, (*older, last) in values.items():
        # A ruling leaves out what it withdraws.
        # Of a thread, only its ends are told as past.
        gone = set(older) - {last, "open"} if subject not in ruled else ()
        for value in gone:
            is_kept = value in told.past.get(subject, ())
            tally.kept.add(is_kept)
            if not is_kept:
                tally.note(f"{asking}: {subject.key} was {value!r}, which is not told any more")


def _check_marks(asking: Asking, told: _Told, story: Story, tally: Tally) -> None:
    for kind, mark in told.marks:
        turn = story.book[f"M{mark}"]
        may_know = story.may_know(turn, asking.reader, asking.turn)
        if not may_know or (kind == "I" and not story.has_done(turn, asking.reader)):
            tally.leaks += 1
            tally.note(f"{asking}: {kind}{mark} leaked")


def check_leaks(text: str, audience: Collection[int], story: Story, tally: Tally) -> None:
    """Count the marks in agent 8's request that not all of the audience witnessed."""
    for kind, mark in set(_MARK.findall(text)):
        turn = story.book[f"M{mark}"]
        # Agent 8 is told the intents of all.
        if not all(story.may_know(turn, one, len(story.turns)) for one in audience):
            tally.leaks += 1
            tally.note(f"agent 8, for {audience}: {kind}{mark} leaked")


def read_view(
    sections: "Iterable[NowSection]", story: Story
) -> "Iterator[tuple[NowItem, Subject, str]]":
    """Yield the items of the Now view that are about subjects, with the subjects and their
    values."""
    by_key = {subject.key: subject for subject in story.subjects}
    for section in sections:
        for item in section.items:
            tag = _TAGS.get(section.key, "")
            if tag == "where" and ": " not in item.text:
                tag = "location"
            told = f"{item.text} ({item.aside})" if item.aside else item.text
            for subject, value in read_line(tag, told, by_key) if tag else ():
                yield item, subject, value


def check_world(
    sections: "Iterable[NowSection]",
    story: Story,
    covered: int,
    leave_out: Collection[Subject],
    tally: Tally,
) -> None:
    """Count which values the Now view has as they are after turn `covered`."""
    held: _Values = defaultdict(set)
    for _, subject, value in read_view(sections, story):
        held[subject].add(value)
    for subject, known in story.known(until=covered).items():
        if subject in leave_out:
            continue
        values = held.get(subject, set())
        tally.world.add(values == {known.now})
        if values != {known.now}:
            tally.note(
                f"the world at turn {covered}: {subject.key} is {known.now!r}, "
                f"and the Now view says {' and '.join(sorted(values))!r}"
            )
