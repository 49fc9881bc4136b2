"""Finds where a text names somebody.

A name that is found although nobody is named would show a hidden person too early, and a name that
is not found can still be told by the narrator. So a name counts only where little else can be
meant.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sessions.language.name_forms import (
    is_finnish,
    is_too_short,
    may_stand_before,
    may_stand_behind,
    word_with,
)
from sessions.language.sentences import ends_sentence
from sessions.language.spelling import Respelt, plain_spelling
from sessions.language.stop_words import STOP_WORDS
from sessions.language.word_names import COMMANDS, MONTHS, WORD_NAMES
from sessions.language.words import is_unspaced, language_of

_BETWEEN = "[\\s\u2010\u2011-]+"
_PARTS = re.compile("[^\\s\u2010\u2011-]+")
# The number of characters beside a name that are looked at.
_BESIDE = 80
_OPENING = "\"'\u201c\u201d\u201e\u2018\u00ab\u00bb\u2039\u203a([{\u2012-\u2015-"
_OPENED = re.compile(rf"[{_OPENING}][*_]*\Z")
_AFTER_DASH = re.compile(r"(?:\A|\s)[\u2012-\u2015-]{1,2}\s+\Z")
_AFTER_TITLE = re.compile(
    r"\b(?:mr|mrs|ms|miss|dr|st|prof|capt|sgt|lt|mme|mlle|sr|sra|rev)\.?\s+\Z", re.I
)
_AFTER_ARTICLE = re.compile(
    r"\b(?:the|an?|this|my|your|his|our|their|der|die|das|den|dem|des|eine?[nmrs]?|la|le|une?|el|una|het|een)\s+\Z",
    re.I,
)
_IN_TIME = re.compile(
    r"\b(?:in|of|by|since|until|till|last|next|every|each|early|late|mid|from|during"
    r"|it(?:['\u2019]s| is| was)|\d(?:st|nd|rd|th)?)[\s-]+\Z",
    re.I,
)
_DAY = re.compile(r"\s+\d")
_HALF_BEFORE = re.compile("(?P<letter>[^\\W\\d_])[^\\W\\d_]*[-\u2010\u2011]\\Z")
_HALF_BEHIND = re.compile("[-\u2010\u2011](?P<letter>[^\\W\\d_])")
# The sign that takes the place of another name. It is no letter.
_NOBODY = "\u25a1"
_WORDS = re.compile(r"[^\W\d_]+")
_ARABIC_ARTICLE = "\u0627\u0644"
_SERVANT_OF = "\u0639\u0628\u062f"
# The words that show that a word at the beginning of a sentence is a name: somebody is called by
# it, something belongs to the person, or the person does something that only people do.
_IS_CALLED = re.compile(r"[*_]*(?:\s*[,!?\u2026]|\.\.\.)")
_POSSESSES = re.compile("['\u2019]s(?!\\w)")
_AND_ANOTHER = re.compile(r"\s+(?:and|&)\s+(?P<other>[A-Z]\w+)")
_ACTS = re.compile(
    r"[*_]*\s+(?:sa(?:id|ys)|ask(?:s|ed)|nod(?:s|ded)|smil(?:es|ed)|laugh(?:s|ed)|whisper(?:s|ed)"
    r"|shrug(?:s|ged)|grin(?:s|ned)|frown(?:s|ed)|sigh(?:s|ed)|mutter(?:s|ed)|repl(?:ies|ied)"
    r"|answer(?:s|ed)|shout(?:s|ed)|step(?:s|ped)|walk(?:s|ed)|kneel(?:s|ed)|knelt|blink(?:s|ed)"
    r"|cough(?:s|ed)|wink(?:s|ed)|glanc(?:es|ed)|wav(?:es|ed)|bow(?:s|ed)|lean(?:s|ed)|open(?:s|ed)"
    r"|s(?:its|at)|pick(?:s|ed)|hand(?:s|ed)|sh(?:akes|ook)|pull(?:s|ed)|push(?:es|ed)|puts|clears"
    r"|turn(?:s|ed) (?:to (?:me|us|you|him|her|them)|around|away|back)"
    r"|look(?:s|ed) (?:at|up|down|over|around|away|back)"
    r"|hesitat(?:es|ed)|paus(?:es|ed)|stare[sd]|gasp(?:s|ed)|scowl(?:s|ed)|crouch(?:es|ed))\b"
)
_STOP = frozenset().union(*STOP_WORDS.values())
# Words that never stand behind a helping verb or the like at the beginning of a sentence.
_IS = re.compile(r"[*_]*\s+(?:is|was|has|had)\b")
# The words that a command has as its object.
_OBJECT = re.compile(
    r"\s+(?:the|an?|my|your|his|her|its|our|their|him|them|it|me|us|this|that|these|those)\b"
)
# The endings that make another word of a name, as in don't and ma'am.
_GOES_ON = re.compile("['\u2019](?:t|am|all)(?!\\w)", re.I)


def is_named_in(text: str, name: str, others: Collection[str] = ()) -> bool:
    """Return whether the text has this name, whatever marks its letters have. `others` are the
    names of other people, whose forms are not taken for this name.

    If the first letter of a word of the name is large, it has to be large in the text too:
    otherwise Will would be in each "she will". A name that is also a word counts at the beginning
    of a sentence only if something shows that it is the name.
    """
    sought = _read_name(name)
    told = _read(text)
    if not sought.parts or not sought.may_be_in(told.plain):
        return False
    told = _without_longer(told, sought, others)
    foreign = {plain_spelling(one) for one in others} - {sought.plain}
    is_word = sought.is_word or told.has_small(sought)
    return any(
        not is_word or told.shows_name(place)
        for place in told.places_of(sought)
        if told.word_at(place) not in foreign and not told.is_command(place)
    )


@dataclass(frozen=True)
class _Name:
    """A name to look for. `is_large` says of each part whether it begins with a large letter."""

    plain: str
    parts: tuple[str, ...]
    is_large: tuple[bool, ...]

    @property
    def is_word(self) -> bool:
        """Whether the name is a word of a language, too."""
        if len(self.parts) != 1:
            return False
        return self.plain in _STOP or (self.is_large[0] and self.plain in WORD_NAMES)

    def may_be_in(self, plain: str) -> bool:
        """Return whether the text has the beginnings of all parts, so that a full search is worth
        the time."""
        parts = [_SERVANT_OF] if self.plain.startswith(_SERVANT_OF) else self.parts
        roots = (part.removeprefix(_ARABIC_ARTICLE) for part in parts)
        return all((one[:-2] if len(one) > 3 else one[:2]) in plain for one in roots)


@lru_cache(maxsize=4_096)
def _read_name(name: str) -> _Name:
    original = name.strip()
    spelt = Respelt(original, plain_spelling)
    parts = [found for found in _PARTS.finditer(spelt.text) if any(map(str.isalnum, found[0]))]
    large = tuple(_is_large(original, spelt, part.start()) for part in parts)
    return _Name(" ".join(part[0] for part in parts), tuple(part[0] for part in parts), large)


@lru_cache(maxsize=4_096)
def _pattern_of(name: _Name, language: str) -> re.Pattern[str]:
    pattern = _BETWEEN.join(word_with(part, language) for part in name.parts)
    if name.plain.startswith(_SERVANT_OF):
        # Texts write such names as one word or as two words.
        rest = name.plain.removeprefix(_SERVANT_OF).lstrip()
        pattern = rf"{_SERVANT_OF}\s*{re.escape(rest)}"
    if name.plain.startswith(_ARABIC_ARTICLE):
        # Behind the word for "to", the article loses its first letter.
        pattern = rf"{pattern}|(?<=\u0644){re.escape(name.plain[1:])}"
    return re.compile(pattern)


def _is_large(original: str, spelt: Respelt, at: int) -> bool:
    """Return whether the letter at this place of the plain spelling is large in the original."""
    letter = original[spelt.place(at, at + 1)[0]]
    return letter != letter.lower()


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() or unicodedata.category(sign).startswith("M")


class _Told:
    """A text that is searched for names, with its plain spelling. Places are pairs of the start and
    the end of a name in the plain spelling."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._spelt = Respelt(text, plain_spelling)
        self.plain = self._spelt.text
        self._language = "finnish" if is_finnish(text) else language_of([text])

    def places_of(self, name: _Name) -> Iterator[tuple[int, int]]:
        """Yield the places where the name stands, with the large letters that it needs."""
        for start, end in self._places_of(name):
            starts = [start + found.start() for found in _PARTS.finditer(self.plain[start:end])]
            needed = zip(starts, name.is_large, strict=False)
            if all(_is_large(self.text, self._spelt, at) for at, is_large in needed if is_large):
                yield start, end

    def has_small(self, name: _Name) -> bool:
        """Return whether the text has the name as a word with a small letter elsewhere."""
        if len(name.parts) != 1 or not name.is_large[0]:
            return False
        starts = (start for start, _ in self._places_of(name))
        return any(not _is_large(self.text, self._spelt, start) for start in starts)

    def _places_of(self, name: _Name) -> Iterator[tuple[int, int]]:
        for found in _pattern_of(name, self._language).finditer(self.plain):
            if self._stands_alone(*found.span()):
                yield found.span()

    def _stands_alone(self, start: int, end: int) -> bool:
        name, before, behind = self.plain[start:end], *self._beside(start, end)
        return not (
            (before and not may_stand_before(before, name))
            or (behind and not may_stand_behind(behind, name))
            or is_too_short(name, before, behind)
            or _GOES_ON.match(self.plain, end)
            or self._is_half_of_a_name(start, end)
        )

    def _beside(self, start: int, end: int) -> tuple[str, str]:
        """Return the letters directly before and behind a place."""
        first, last = start, end
        while first and start - first < _BESIDE and _is_of_word(self.plain[first - 1]):
            first -= 1
        while last < len(self.plain) and last - end < _BESIDE and _is_of_word(self.plain[last]):
            last += 1
        return self.plain[first:start], self.plain[end:last]

    def word_at(self, place: tuple[int, int]) -> str:
        before, behind = self._beside(*place)
        return f"{before}{self.plain[slice(*place)]}{behind}"

    def _is_half_of_a_name(self, start: int, end: int) -> bool:
        """Return whether the word is a part of another name, which has a hyphen and another word
        with a large letter, as in Jean-Luc."""
        first, last = self._spelt.place(start, end)
        before = _HALF_BEFORE.search(self.text[max(first - _BESIDE, 0) : first])
        halves = before, _HALF_BEHIND.match(self.text[last : last + 2])
        return any(half["letter"].isupper() for half in halves if half)

    def without(self, name: _Name) -> str:
        """Return the text without this name."""
        kept, at = [], 0
        for start, end in self._places_of(name):
            first, last = self._spelt.place(start, end)
            kept += [self.text[at:first], _NOBODY]
            at = last
        return "".join([*kept, self.text[at:]])

    def shows_name(self, place: tuple[int, int]) -> bool:
        """Return whether something shows that the word at this place is a name: a large letter
        within a sentence, or the words beside it."""
        start, end = self._spelt.place(*place)
        before = self.text[max(start - _BESIDE, 0) : start]
        behind = self.text[end : end + _BESIDE]
        is_month = self.plain[slice(*place)] in MONTHS
        if (
            not _is_large(self.text, self._spelt, place[0])
            or _AFTER_ARTICLE.search(before)
            or (is_month and (_IN_TIME.search(before) or _DAY.match(behind)))
        ):
            return False
        if _IS_CALLED.match(behind) or _POSSESSES.match(behind) or _AFTER_TITLE.search(before):
            return True
        if self._is_shouted(before, self.text[start:end], behind):
            return False
        if not _begins_sentence(before, is_whole=start <= _BESIDE):
            return True
        if not is_month and self.plain[slice(*place)] in _STOP and _IS.match(behind):
            return True
        another = _AND_ANOTHER.match(behind)
        is_with_another = another and plain_spelling(another["other"]) not in WORD_NAMES
        return bool(is_with_another or _ACTS.match(behind))

    def is_command(self, place: tuple[int, int]) -> bool:
        """Return whether the word at this place begins a sentence that tells somebody what to
        do."""
        if self.plain[slice(*place)] not in COMMANDS:
            return False
        start, end = self._spelt.place(*place)
        before = self.text[max(start - _BESIDE, 0) : start]
        has_object = _OBJECT.match(self.text, end)
        return bool(has_object) and _begins_sentence(before, is_whole=start <= _BESIDE)

    def _is_shouted(self, before: str, word: str, behind: str) -> bool:
        """Return whether this word and the words beside it have only large letters, so that a large
        letter does not show a name."""
        beside = [*_WORDS.findall(before)[-1:], *_WORDS.findall(behind)[:1]]
        said = [one for one in beside if len(one) > 1 and one.upper() != one.lower()]
        return word.isupper() and len(word) > 1 and bool(said) and all(map(str.isupper, said))


@lru_cache(maxsize=8)
def _read(text: str) -> _Told:
    return _Told(text)


def _without_longer(told: _Told, sought: _Name, others: Collection[str]) -> _Told:
    """Return the text without the other names that contain this name."""
    for one in map(_read_name, others):
        is_part = f" {sought.plain} " in f" {one.plain} "
        if is_unspaced(sought.plain):
            is_part = sought.plain in one.plain
        if is_part and one.plain != sought.plain:
            told = _read(told.without(one))
    return told


def _begins_sentence(before: str, *, is_whole: bool) -> bool:
    """Return whether a sentence begins behind this text, which is the text before a place, or the
    last part of it."""
    if _OPENED.search(before) or _AFTER_DASH.search(before):
        return True
    said = before.rstrip(" \t*_#>")
    if not said:
        return is_whole
    return said[-1] in "\n:" or ends_sentence(said)
