"""Cleans the reply of a character while it is written.

Models imitate the transcript: they write their own name in front of a reply, and go on with the
words of somebody else. The own name is removed, and the reply ends before the first line that
begins with the name of another member of the cast and a colon. A line inside a quotation stays, so
that a character can read a letter aloud. A small model also writes "I:" before what it says or
does. This is removed from every line.

The text is read sign by sign, and what is kept depends only on the signs before. So the words are
the same whatever pieces they come in. A line that may still turn out to begin with a name is held
back until that is clear.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sessions.roster import SLOTS, default_name

_COLONS = ":\N{FULLWIDTH COLON}"
# The marks that a model may put around a name, with those that close them.
_MARKS = {"*": "*", "_": "_", "[": "]"}
_MOST_MARKS = 3
# Further marks that a small model puts around a name.
_MARKS_OF_SMALL_MODELS = {'"': '"', "“": "”"}
# The word that a small model writes as if it were the name of the character.
_SELF = "I"
# The marks that open a quotation, with those that close it.
_QUOTATIONS = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』"}
# Words that may begin or end a name and name nobody by themselves.
_IDLE = frozenset({"a", "an", "the", "der", "die", "das", "le", "la", "el"})
_DEFAULT_NAMES = frozenset(map(default_name, SLOTS))


@dataclass
class ReplyCleaner:
    """The cleaner of one reply of the character `own`. `others` are the other names of the cast.
    `is_small` says that a small model writes the reply.

    `take` returns the text that is clear by now, and `end` the rest. `ended_before` is the name of
    the member whose line ended the reply, or "".
    """

    own: str
    others: Sequence[str] = ()
    is_small: bool = False
    ended_before: str = field(default="", init=False)
    # The line feeds that came last, with their blanks. They are left out if the reply ends here.
    _space: str = field(default="", init=False)
    # The beginning of the present line while it may be a name, or "".
    _line: str = field(default="", init=False)
    _is_line_start: bool = field(default=True, init=False)
    # True until the first words of the reply are clear.
    _is_first: bool = field(default=True, init=False)
    _drops_space: bool = field(default=False, init=False)
    # The marks that close the open quotation, or "".
    _closing: str = field(default="", init=False)

    def __post_init__(self) -> None:
        names = [name for name in dict.fromkeys((self.own, *self.others)) if name.strip()]
        self._whole = {_folded(name): name for name in reversed(names)}
        # A part of a name counts only in its own letters, because it may be an ordinary word.
        self._parts: dict[str, str] = {}
        for name in names:
            for part in _parts(name):
                bearers = [one for one in names if part.casefold() in _folded(one).split(" ")]
                if bearers == [name]:
                    self._parts[part] = name
        self._marks = _MARKS
        if self.is_small:
            self._marks = _MARKS | _MARKS_OF_SMALL_MODELS
            self._parts.setdefault(_SELF, _SELF)

    def take(self, piece: str) -> str:
        """Return the text that is clear once this piece has come."""
        return "".join(self._read(sign) for sign in piece if not self.ended_before)

    def end(self) -> str:
        """Return the text that was held back, because nothing follows it."""
        rest = self._space + self._line
        self._space = self._line = ""
        return rest

    def _read(self, sign: str) -> str:
        if sign.isspace() and (sign == "\n" or not self._line):
            return self._read_space(sign)
        if not (self._line or self._is_line_start) or self._closing:
            return self._pass(sign)
        self._line += sign
        speaker = self._speaker()
        if speaker is None:
            return ""
        if not speaker or (speaker == self.own and not self._is_first):
            return self._pass(self._line)
        self._line = ""
        if speaker in (self.own, _SELF):
            # The line feeds before the own name are left out, because it begins the reply.
            self._space = "" if self._is_first else self._space
            self._is_first, self._drops_space, self._is_line_start = False, True, False
        else:
            self._space, self.ended_before = "", speaker
        return ""

    def _read_space(self, sign: str) -> str:
        is_within_line = not (self._line or self._space or self._is_line_start or self._drops_space)
        if sign != "\n" and is_within_line:
            return sign
        clear = self._pass(self._line) if self._line else ""
        if sign == "\n":
            self._is_line_start = True
        if not self._drops_space:
            self._space += sign
        if self._space.count("\n") > 1:
            # A quotation that is open at the end of a paragraph was not closed, or the next
            # paragraph opens it again.
            self._closing = ""
        return clear

    def _pass(self, text: str) -> str:
        """Return the text with the space before it, because it is clear."""
        for sign in text:
            if self._closing:
                self._closing = "" if sign in self._closing else self._closing
            else:
                self._closing = _QUOTATIONS.get(sign, "")
        clear = self._space + text
        self._space = self._line = ""
        self._is_first = self._drops_space = self._is_line_start = False
        return clear

    def _speaker(self) -> str | None:
        """Return the member whose name and colon begin the present line, or "" if no name does, or
        None if that is not clear yet."""
        opening = self._line[: len(self._line) - len(self._line.lstrip("".join(self._marks)))]
        if len(opening) > _MOST_MARKS:
            return ""
        closing = "".join(self._marks[mark] for mark in reversed(opening))
        rest = self._line[len(opening) :]
        is_open = not rest
        for known, written in ((self._whole, str.casefold), (self._parts, str)):
            for spelt, name in known.items():
                after = _after_name(rest, spelt, written)
                if name == _SELF and after and after[0].isspace():
                    # Most lines that begin with "I" go on with a blank. They are shown at once.
                    continue
                found = _is_label(after, closing)
                if found:
                    return name
                is_open = is_open or found is None
        return None if is_open else ""


def clean_reply(
    text: str, own: str, others: Sequence[str], *, is_small: bool = False
) -> tuple[str, str]:
    """Return the cleaned text of a whole reply, and the name of the member whose line ended it."""
    cleaner = ReplyCleaner(own, others, is_small)
    clean = cleaner.take(text) + cleaner.end()
    return clean.rstrip() if cleaner.ended_before else clean, cleaner.ended_before


def _is_label(rest: str | None, closing: str) -> bool | None:
    """Return whether a name is followed by a colon, and by the marks that close those around the
    name. Return None if that is not clear yet. `rest` comes from `_after_name`.

    The colon may stand between these marks. Marks that enclose more than the name are emphasis, as
    in the text of a note.
    """
    if not rest:
        return None if rest == "" else False
    before = 0
    while before < len(closing) and rest.startswith(closing[: before + 1]):
        before += 1
    rest, closing = rest[before:].lstrip(), closing[before:]
    if not rest or rest[0] not in _COLONS:
        return False if rest else None
    after = rest[1:]
    if after.startswith(closing):
        return True
    return None if closing.startswith(after) else False


def _after_name(text: str, spelt: str, written: Callable[[str], str]) -> str | None:
    """Return what follows the name at the beginning of the text, or "" if the text ends within or
    after the name, or None if it begins otherwise."""
    at = place = 0
    while place < len(spelt):
        if at == len(text):
            return ""
        if spelt[place] == " ":
            blanks = len(text[at:]) - len(text[at:].lstrip())
            if not blanks:
                return None
            at, place = at + blanks, place + 1
            continue
        sign = written(text[at])
        if not spelt.startswith(sign, place):
            return None
        at, place = at + 1, place + len(sign)
    return text[at:]


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def _parts(name: str) -> list[str]:
    """Return the first and the last word of a name, by which a model may call its bearer."""
    words = name.split()
    if len(words) < 2 or name in _DEFAULT_NAMES:
        return []
    return [word for word in (words[0], words[-1]) if word.casefold() not in _IDLE]
