"""Reads the one JSON object in a reply, and repairs it with care if it is malformed.

There are three steps, and each is taken only if the step before found no object: read valid JSON
without the fence or prose around it; remove trailing commas; repair the text with json-repair
(missing commas, other quotes, comments).

On the first try a repaired object is accepted only if it has every word of the reply. An object
that breaks off is refused unless only closing brackets are missing, because a model that is asked
again writes a shorter, complete object. On the last try both kinds of object are accepted.

But even on the last try an incomplete entry is left out, because half a sentence may say the
opposite. A key that the reply did not reach is not added, because an empty list would say that
nothing was new. The check then refuses the object. The record of the call keeps the text that was
left out.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from json_repair import repair_json

from agents.prompting.forms.schemas import InvalidReply, Payload, Reading, check_storable
from sessions.language.words import whole_words
from sessions.payloads import MAX_DEPTH, scrub_payload

Check = Callable[[Payload], None]
FoundT = TypeVar("FoundT")

# At most this many opening braces are tried as the start of the object.
_MAX_STARTS = 50
# A reply is repaired only if it has at most this many characters. The answers of agents 0 and 8 are
# shorter. The limit is needed because the time for repairs grows with the square of the length.
_MAX_CHARACTERS = 20_000

_CLOSING = {"{": "}", "[": "]"}
_KEY_FIRST = re.compile(r"""\{\s*["'\u201c]?memory_type""")
# A pattern that matches a comment in the log of json-repair.
_COMMENT = re.compile(r" comment: (.*), ignoring$", re.DOTALL)
_LITERALS = {"null", "none", "true", "false"}
# The errors that json-repair may raise for a text that is not JSON at all.
_MENDING_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def read_json(text: str, check: Check, *, is_last_try: bool) -> Reading:
    """Return the object in the text. Raises InvalidReply if `check` accepts no object in it."""
    if "{" not in text:
        raise InvalidReply("the reply holds no JSON object")
    payload = _read_strictly(text)
    if payload is not None:
        check(payload)
        return Reading(payload)
    source = _find_object(text)
    if source is None:
        raise InvalidReply(_why_unreadable(text))
    if source.is_too_deep:
        raise InvalidReply("the JSON object is nested too deeply")
    reading = _mend(source, is_last_try=is_last_try)
    if reading is None:
        raise InvalidReply(_why_unreadable(source.text, is_cut=source.is_cut))
    check(reading.payload)
    return reading


def count_lost_words(text: str, payload: Payload) -> int:
    """Return how many words of the text are missing in the payload's keys and values."""
    return (_words(_unescape(text)) - _words(_spoken(payload))).total()


@dataclass(frozen=True)
class _Source:
    """The text of an object that is not valid JSON, from its opening brace on.

    The entries of the object are complete up to the position `whole`. `open_brackets` are the
    brackets that are open at that position. `is_cut` is also True for an object that is nested too
    deeply, because such an object is not read to its end.
    """

    text: str
    is_cut: bool
    is_too_deep: bool
    whole: int
    open_brackets: str

    @property
    def without_cut_entry(self) -> str:
        closing = (_CLOSING[bracket] for bracket in reversed(self.open_brackets))
        return self.text[: self.whole] + "".join(closing)

    @property
    def lacks_only_brackets(self) -> bool:
        return self.open_brackets == "{" and not self.text[self.whole :].strip(" \n\t,`}")


def _read_strictly(text: str) -> Payload | None:
    # A model may write other objects before its reply, and a broken object may contain valid
    # objects. So only an object with the key memory_type counts, because the reply has this key.
    return _only_one([one for one in _objects_in(text) if "memory_type" in one])


def _only_one(found: list[FoundT]) -> FoundT | None:
    if len(found) > 1:
        raise InvalidReply(f"the reply holds {len(found)} JSON objects; return exactly one")
    return found[0] if found else None


def _objects_in(text: str) -> Iterator[Payload]:
    """Yield the JSON objects in the text that are not inside another object."""
    # The decoder accepts line breaks inside strings, which small models write.
    decoder = json.JSONDecoder(strict=False)
    at = 0
    for _ in range(_MAX_STARTS):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value


def _find_object(text: str) -> _Source | None:
    """Return the object that is meant as the reply, or None if there is none."""
    if "memory_type" not in text or len(text) > _MAX_CHARACTERS:
        return None
    found: list[_Source] = []
    at = 0
    for _ in range(_MAX_STARTS):
        at = text.find("{", at)
        if at < 0:
            break
        one = _Scan(text, at).source
        at += 1 if one.is_cut else len(one.text)
        if not one.is_cut and "memory_type" in one.text:
            found.append(one)
    source = _only_one(found)
    if source is None:
        starts = [match.start() for match in _KEY_FIRST.finditer(text)]
        start = starts[-1] if starts else text.rfind("{", 0, text.rfind("memory_type"))
        source = _Scan(text, start).source if start >= 0 else None
    return source


class _Scan:
    """A scanner that finds the end of an object, and the ends of its entries, although the object
    may be malformed."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._at = start
        self._open: list[str] = []
        self._quote = ""
        # The last character outside of strings that is not a space, and its position.
        self._before, self._before_at = "", start
        self._trailing_commas: list[int] = []
        self._whole, self._open_at_whole = start, ""
        while self._at < len(text):
            self._step(text[self._at])
            self._at += 1
            if not 0 < len(self._open) <= MAX_DEPTH:
                break
        self.source = _Source(
            self._without_trailing_commas()[start : self._at],
            is_cut=bool(self._open),
            is_too_deep=len(self._open) > MAX_DEPTH,
            whole=self._whole - start,
            open_brackets=self._open_at_whole,
        )

    def _step(self, character: str) -> None:
        if self._quote:
            self._step_in_text(character)
        elif not character.isspace():
            self._step_between(character)

    def _step_in_text(self, character: str) -> None:
        if character == "\\":
            self._at += 1
        elif character == self._quote and self._ends_text():
            self._quote, self._before = "", character
            if len(self._open) > 1:
                self._note_whole_entry(self._at + 1)

    def _step_between(self, character: str) -> None:
        if character == ",":
            self._note_whole_entry(self._at)
        if character in "\"'" and self._before and self._before in "{[,:\"'":
            self._quote = character
        elif character in _CLOSING:
            self._open.append(character)
            if character == "[":
                self._note_whole_entry(self._at + 1)
        elif character in "}]":
            if self._before == ",":
                self._trailing_commas.append(self._before_at)
            self._close(character)
        self._before, self._before_at = character, self._at

    def _without_trailing_commas(self) -> str:
        """Return the text with spaces instead of trailing commas, because json-repair might read
        them in a wrong way."""
        characters = list(self._text)
        for at in self._trailing_commas:
            characters[at] = " "
        return "".join(characters)

    def _ends_text(self) -> bool:
        """Return whether a quotation mark ends its string. It does if a comma, a colon or a bracket
        follows the mark."""
        rest = self._text[self._at + 1 : self._at + 200].lstrip()
        return not rest or rest[0] in ",:}]\"'/#"

    def _close(self, character: str) -> None:
        opening = "{" if character == "}" else "["
        if opening in self._open:
            while self._open.pop() != opening:
                pass
            self._note_whole_entry(self._at + 1)

    def _note_whole_entry(self, end: int) -> None:
        # Only the end of a whole entry counts. A value on a deeper level is a part of an entry.
        if self._open in (["{"], ["{", "["]):
            self._whole, self._open_at_whole = end, "".join(self._open)


def _mend(source: _Source, *, is_last_try: bool) -> Reading | None:
    """Return the repaired object, or None if it needs more repairs than this try allows."""
    if source.is_cut and not (is_last_try or source.lacks_only_brackets):
        return None
    payload, comments = _repair(source.without_cut_entry if source.is_cut else source.text)
    if payload is None:
        return None
    # An object that is nested too deeply is refused before its words are counted, because the
    # function that counts them is recursive.
    check_storable(scrub_payload(payload))
    lost = max(count_lost_words(source.text, payload) - comments, 0)
    if lost and not is_last_try:
        return None
    remark = "breaks off" if source.is_cut else "is malformed"
    return Reading(payload, f"the JSON {remark}; {lost} words of it were left out")


def _repair(text: str) -> tuple[Payload | None, int]:
    """Return the object in the text, read by json-repair if necessary, and the number of words in
    the comments that json-repair removed."""
    with suppress(ValueError, RecursionError):
        return json.loads(text, strict=False), 0
    try:
        value, log = repair_json(text, skip_json_loads=True, logging=True)
    except _MENDING_ERRORS:
        return None, 0
    if not isinstance(value, dict) or "memory_type" not in value:
        return None, 0
    comments = [found[1] for entry in log if (found := _COMMENT.search(entry["text"]))]
    return value, len(whole_words(" ".join(comments)))


def _words(text: str) -> Counter[str]:
    return Counter(word for word in whole_words(text) if word not in _LITERALS)


def _unescape(text: str) -> str:
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\.", " ", text)


def _spoken(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {_spoken(part)}" for key, part in value.items())
    if isinstance(value, list):
        return " ".join(_spoken(part) for part in value)
    return str(value)


def _why_unreadable(text: str, *, is_cut: bool = False) -> str:
    if is_cut:
        return "the JSON object breaks off before its end; return a shorter one, complete"
    start = text.find("{")
    try:
        json.JSONDecoder(strict=False).raw_decode(text, start)
    except json.JSONDecodeError as error:
        return f"the JSON is malformed at character {error.pos - start}: {error.msg}"
    except (ValueError, RecursionError):
        return "the JSON object is nested too deeply or holds a number that is too long"
    return "memory_type is missing; return one JSON object with all the required keys"
