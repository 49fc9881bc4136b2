"""Reads the label of a speaker at the beginning of a line, such as "Tom:", "**Tom** —" or "[Tom]".

A reader gets the beginning of a line, and more of it each time. It raises Unclear until the line
shows whether it begins with a label. The answer then depends on nothing that follows.

A colon after a name makes a label. Without a colon a name has to be marked as a label in another
way, because prose begins its lines with names too: by brackets, by bold signs or a heading and a
dash, or by a line of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from agents.prompting.cleaning.line_beginnings import (
    BRACKETS,
    COLONS,
    DASHES,
    MARKS,
    MOST_MARKS,
    PARENTHESES,
    QUOTES,
    WIDE_BRACKETS,
    Line,
    Unclear,
)
from sessions.language.speaker_marks import NO_MEMBERS, sign_as_read
from sessions.roster import SLOTS, default_name

# A label has at most this many characters. The limit bounds the text that is held back for a
# possible label.
_LONGEST_LABEL = 200
_BOLD = ("**", "__")
# After these signs, a name on a line of its own belongs to the sentence before it, like the
# signature under a letter.
_GOES_ON = COLONS | set(",;、") | set(DASHES)
# Words that may begin or end a name and name nobody by themselves.
_IDLE = frozenset({"a", "an", "the", "der", "die", "das", "le", "la", "el"})
_DEFAULT_NAMES = frozenset(map(default_name, SLOTS))
_ARTICLE = "The "
# A model that answers as this role means itself.
_ANSWERS = "Assistant"
# In stories, words of a machine may stand behind the name of this role in brackets.
_MACHINE = "System"
# The word that a small model writes as if it were the name of the character.
_SELF = "I"


class Speaker(Enum):
    OWN = "own"
    OTHER = "other"
    ROLE = "role"
    # The spelling `_SELF`, which a small model may use for the character.
    SELF = "self"


@dataclass(frozen=True)
class Label:
    """The label of a line. `length` counts its characters, and `lead` has the kinds of the signs in
    front of it, such as ">" for a quotation and "-" for a list."""

    name: str
    is_own: bool
    length: int
    lead: str = ""


@dataclass(frozen=True)
class Place:
    """Where a line begins. `last` is the last sign before the line, "" if there is none. `listed`
    says with what the line before began, if both lines may belong to a list: the kinds of the signs
    of its lead, or ":" for a label that is an entry."""

    is_first: bool = True
    has_gap: bool = True
    last: str = ""
    listed: str = ""

    def is_entry(self, lead: str) -> bool:
        """Return whether a label with this lead is an entry of a list, which the person reads out
        or makes, and not the beginning of another person's words."""
        if lead and not _is_heading(lead):
            return self.last in COLONS or self.listed == lead
        return not self.has_gap and (self.last in COLONS or self.listed == ":")


@dataclass(frozen=True)
class _Spelling:
    """A way to write the name of a speaker. A part of a name counts only in its own letters,
    because it may be an ordinary word."""

    written: str
    read: str
    name: str
    speaker: Speaker
    is_part: bool = False


@dataclass(frozen=True)
class _Front:
    """The signs and marks in front of a name, which end at `length`."""

    lead: str
    opening: str
    length: int


class LabelReader:
    """Reads labels with the names of `own` and of `others`, and of the roles that are not in the
    cast, such as the Game Master.

    `numbers` are the numbers that the Game Master's words may begin with in the transcript. A
    reader of a text that `continues` a reply knows only the own name and its colon.
    """

    def __init__(
        self,
        own: str,
        others: Sequence[str] = (),
        *,
        is_small: bool = False,
        numbers: Sequence[int] = (),
        continues: bool = False,
    ) -> None:
        self._is_small, self._numbers, self._continues = is_small, numbers, continues
        names = [name for name in dict.fromkeys((own, *others)) if name.strip()]
        whole = {_as_read(name): name for name in reversed(names)}
        spellings = [_spelt(name, name, _kind(name, own)) for name in whole.values()]
        parts: dict[str, str] = {}
        for name in names:
            for part in _parts(name):
                read = _as_read(part)
                bearers = [one for one in names if read in _as_read(one).split(" ")]
                if bearers == [name] and read not in whole:
                    parts[part] = name
        spellings += [_spelt(part, name, _kind(name, own), True) for part, name in parts.items()]
        if is_small:
            spellings.append(_spelt(_SELF, _SELF, Speaker.SELF, True))
        if not continues:
            known = set(whole) | set(map(_as_read, parts))
            roles = {
                role: words for role, words in NO_MEMBERS.items() if _as_read(role) not in known
            }
            spellings += [_spelt(role, words, Speaker.ROLE) for role, words in roles.items()]
        self._spellings = spellings

    def read(self, text: str, place: Place) -> Label | None:
        """Return the label at the beginning of the line, or None. The text may reach into the next
        line. Raises Unclear."""
        if len(text) > _LONGEST_LABEL:
            return None
        is_unclear = False
        for read in self._ways_to_read(text, place):
            try:
                label = read()
            except Unclear:
                is_unclear = True
                continue
            if label:
                return label
        if is_unclear:
            raise Unclear
        return None

    def _ways_to_read(self, text: str, place: Place) -> Iterator[Callable[[], Label | None]]:
        if self._numbers and place.has_gap and not place.is_first:
            yield lambda: self._prompt(Line(text))
        line = Line(text)
        front = _Front(line.lead(), line.opening(), line.at)
        if len(front.opening) > MOST_MARKS:
            return
        begins = sign_as_read(line.sign())
        for spelling in self._spellings:
            if spelling.read.startswith(begins):
                yield partial(self._read, Line(text, front.length), front, spelling, place)

    def _prompt(self, line: Line) -> Label | None:
        """Read the number of a prompt of the Game Master, as the transcript writes it: "7) "."""
        number = line.digits()
        is_number = number and int(number) in self._numbers and line.take(")")
        if is_number and line.sign().isspace():
            return Label(NO_MEMBERS["GM"], False, line.at, "1")
        return None

    def _read(self, line: Line, front: "_Front", spelling: _Spelling, place: Place) -> Label | None:
        label: Label | None
        if place.is_first and spelling.written.startswith(_ARTICLE):
            # Many replies begin with this word, and need not be held back.
            return None
        lead, opening = front.lead, front.opening
        written = line.name(spelling.read)
        if written is None or not _is_written_so(written, spelling):
            return None
        closing = [MARKS[mark] for mark in reversed(opening)]
        is_own = spelling.speaker in (Speaker.OWN, Speaker.SELF)
        is_own = is_own or (spelling.written == _ANSWERS and place.is_first)
        # A person's actions are told in emphasis. Beside the own name they are kept.
        no_asides = f"{opening}*_" if is_own else opening
        aside = "" if spelling.speaker is Speaker.SELF else line.asides(without=no_asides)
        line.close(closing)
        label = Label(spelling.name, is_own, line.at, lead)
        if spelling.speaker is not Speaker.SELF:
            aside += line.asides(without=no_asides)
            line.blanks()
        if line.take(COLONS):
            label = self._with_colon(line, label, spelling, place, opening, closing)
            # "Tom (my brother): gone" is prose.
            may_be_prose = spelling.speaker is Speaker.OTHER and _has_words(aside)
            return None if label and may_be_prose and line.goes_on_small() else label
        if closing or spelling.speaker is Speaker.SELF or self._continues:
            return None
        return _without_colon(line, label, spelling, place, opening, written)

    def _with_colon(
        self,
        line: Line,
        label: Label,
        spelling: _Spelling,
        place: Place,
        opening: str,
        closing: list[str],
    ) -> Label | None:
        if closing:
            line.blanks()
            line.close(closing)
        if closing:
            # The marks enclose more than the name, as in the text of a note.
            return None
        label = _upto(line, label)
        if label.is_own and spelling.speaker is not Speaker.SELF and not place.is_first:
            is_label = place.has_gap and not label.lead and place.last not in COLONS
            return label if is_label and not self._continues else None
        is_quoted = any(mark in QUOTES for mark in opening)
        if is_quoted and not self._is_small and not line.begins_sentence():
            return None
        return label


def _without_colon(
    line: Line,
    label: Label,
    spelling: _Spelling,
    place: Place,
    opening: str,
    written: str,
) -> Label | None:
    """Read the rest of a label that has no colon."""
    if label.is_own and not place.is_first:
        return None
    is_bracketed = any(mark in BRACKETS for mark in opening) and spelling.written != _MACHINE
    is_marked = is_bracketed or any(bold in opening for bold in _BOLD) or _is_heading(label.lead)
    is_list = bool(label.lead) and not _is_heading(label.lead)
    if (is_list and not is_bracketed) or any(
        mark in QUOTES or mark in PARENTHESES for mark in opening
    ):
        return None
    if not is_marked and written not in (spelling.written, spelling.written.upper()):
        return None
    stands_apart = place.has_gap and not (place.last.isalnum() or place.last in _GOES_ON)
    if line.has_dash():
        label = _upto(line, label)
        if line.ends():
            return label if is_marked or stands_apart else None
        # A script has the names of its speakers in capitals.
        is_script = stands_apart and written.isupper() and not spelling.written.isupper()
        is_label = is_marked or is_script or label.is_own
        return label if is_label and line.begins_sentence() else None
    if line.ends():
        if label.is_own or is_bracketed or _is_heading(label.lead):
            return label
        if is_marked and stands_apart:
            return label
        return label if stands_apart and line.goes_on_below() else None
    is_wide = any(mark in WIDE_BRACKETS for mark in opening)
    return label if is_bracketed and (is_wide or line.is_after_blank) else None


def _upto(line: Line, label: Label) -> Label:
    return Label(label.name, label.is_own, line.at, label.lead)


def _has_words(aside: str) -> bool:
    return any(mark in PARENTHESES for mark in aside) and any(map(str.isalpha, aside))


def _is_heading(lead: str) -> bool:
    return lead.endswith("#")


def _is_written_so(written: str, spelling: _Spelling) -> bool:
    if spelling.speaker is Speaker.ROLE:
        return not written[0].islower()
    return not spelling.is_part or written in (spelling.written, spelling.written.upper())


def _kind(name: str, own: str) -> Speaker:
    return Speaker.OWN if name == own else Speaker.OTHER


def _spelt(written: str, name: str, speaker: Speaker, is_part: bool = False) -> _Spelling:
    return _Spelling(" ".join(written.split()), _as_read(written), name, speaker, is_part)


def _as_read(name: str) -> str:
    return " ".join("".join(map(sign_as_read, word)) for word in name.split())


def _parts(name: str) -> list[str]:
    """Return the first and the last word of a name. A model may use either of them for the
    person."""
    words = name.split()
    if len(words) < 2 or name in _DEFAULT_NAMES:
        return []
    return [word for word in (words[0], words[-1]) if word.casefold() not in _IDLE]
