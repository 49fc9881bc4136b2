"""Reads one JSON object or array from a text that arrives in pieces, and mends it on the way.

Models write line breaks and quotation marks inside of strings, trailing commas, keys without
quotation marks, Python's words for true and null, and brackets that do not match. The scanner
writes the same value as plain JSON, so that what has arrived can be read at any time.

Each decision depends on the signs before and on a bounded number of signs after, so the result is
the same, however the text is cut into pieces.
"""

import json
import re
from typing import Any

from json_repair import repair_json
from pydantic_core import from_json

from sessions.payloads import MAX_DEPTH

# The scanner looks at no more than this many signs after a quotation mark, or of a bare word.
LOOK_AHEAD = 200
_LONGEST_KEY = 64
# The time of json-repair grows with the square of the text's length.
_LONGEST_REPAIRED = 20_000
_CLOSING = {"{": "}", "[": "]"}
_QUOTES = {'"': '"', "'": "'", "\N{LEFT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}"}
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null", "undefined": "null"}
_WORDS |= {"nan": "null"}
_BARE = re.compile(r"[\w.+$-]+")
_BARE_KEY = re.compile(r"[A-Za-z_]\w*\s*:")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?")
_PLAIN = re.compile(r"[^\"'\u201d\\\x00-\x1f]+")
_FIRST_KEY = re.compile(r"\s*(?:[\"'\u201c]|[A-Za-z_]\w{0,63}\s*:|\})")
_FIRST_KEY_SO_FAR = re.compile(r"\s*(?:[A-Za-z_]\w{0,63}\s*)?")
# The errors that json-repair may raise for a text that is not JSON at all.
MENDING_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def may_begin(text: str) -> bool | None:
    """Return whether the text may begin with an object, or with a list of objects, that has keys.
    Return None if more of the text is needed."""
    rest = text.removeprefix("[").lstrip() if text[0] == "[" else text
    if not rest:
        return None if len(text) < LOOK_AHEAD else False
    if rest[0] != "{":
        return False
    if _FIRST_KEY.match(rest, 1):
        return True
    is_open = len(rest) < LOOK_AHEAD and _FIRST_KEY_SO_FAR.fullmatch(rest, 1)
    return None if is_open else False


class JsonScan:
    """The scanner of one value. `take` gets the text and a place in it, reads on from there, and
    returns the place where it stopped. The text from there on was not read, so the
    caller passes it again in the next call, with more text after it."""

    def __init__(self) -> None:
        # True when the outermost bracket was closed, or when text follows that cannot belong to the
        # value.
        self.is_done = False
        # True if the text is no JSON at all, so that it may be prose.
        self.is_prose = False
        self._out: list[str] = []
        # The open brackets, each with the key that its object or list belongs to.
        self._open: list[tuple[str, str]] = []
        self._quote = ""
        self._word: list[str] = []
        self._key = ""
        # The last sign outside of strings: a bracket, ":", "," or "v" for a value.
        self._before = ""
        self.is_too_deep = False
        self._has_entry = False
        self._has_bare_keys = False
        # The sign that ends the present comment, or "" outside of comments.
        self._comment = ""

    def take(self, text: str, at: int, *, is_over: bool = False) -> int:
        while at < len(text) and not self.is_done:
            step = self._in_string if self._quote else self._between
            after = (self._in_comment if self._comment else step)(text, at, is_over)
            if after == at:
                break
            at = after
        return at

    @property
    def is_closed(self) -> bool:
        return self.is_done and not self._open

    def lacks_only_brackets_outside(self, keys: frozenset[str]) -> bool:
        """Return whether the text ends behind a bracket, and no value under one of these keys is
        still open."""
        is_within = any(key.casefold() in keys for _, key in self._open)
        return not self._quote and self._before in ("}", "]") and not is_within

    def value(self) -> Any:
        """Return the value, with all open strings and brackets closed. Return None if it cannot be
        read."""
        if self.is_too_deep:
            return None
        closing = ['"'] if self._quote else []
        closing += [_CLOSING[bracket] for bracket, _ in reversed(self._open)]
        source = "".join([*self._out, *closing])
        try:
            return json.loads(source)
        except (ValueError, RecursionError):
            if len(source) > _LONGEST_REPAIRED:
                return None
        try:
            return repair_json(source, return_objects=True)
        except MENDING_ERRORS:
            return None

    def value_so_far(self) -> Any:
        """Return the readable part of an unfinished value. The last string may be cut."""
        if self.is_too_deep:
            return None
        try:
            return from_json("".join(self._out), allow_partial="trailing-strings")
        except ValueError:
            return None

    def _in_string(self, text: str, at: int, is_over: bool) -> int:
        if plain := _PLAIN.match(text, at):
            self._write(plain[0])
            return plain.end()
        sign = text[at]
        if sign == "\\":
            if at + 1 == len(text) and not is_over:
                return at
            return self._escaped(text, at)
        if sign != self._quote and not (sign == '"' and self._quote == "\u201d"):
            self._write('\\"' if sign == '"' else sign if sign >= " " else f"\\u{ord(sign):04x}")
            return at + 1
        ends = self._ends_string(text, at + 1, is_over)
        if ends is None:
            return at
        if ends:
            self._end_string()
        else:
            self._write('\\"' if sign == '"' else sign)
        return at + 1

    def _escaped(self, text: str, at: int) -> int:
        escape = text[at + 1 : at + 2]
        if escape and escape in '"\\/bfnrtu':
            self._write(f"\\{escape}")
        elif escape == "\n" or not escape:
            self._write("\\n" if escape else "")
        else:
            self._write(escape if escape == "'" else f"\\\\{escape}")
        return at + 2

    def _ends_string(self, text: str, at: int, is_over: bool) -> bool | None:
        """Return whether the quotation mark before this place ends its string, or None if that is
        not clear yet. It ends its string if the text after it belongs to the object."""
        if self._is_key:
            return True
        rest = text[at : at + LOOK_AHEAD]
        after = rest.lstrip()
        needs_more = len(rest) < LOOK_AHEAD and not is_over
        if not after:
            return None if needs_more else True
        if after[0] != ",":
            return after[0] in ":}]\"'/#`<[{\u201c"
        after = after[1:].lstrip()
        if not after:
            return None if needs_more else True
        # Behind a comma, an object continues with a key, and a list with a value.
        is_in_object = bool(self._open) and self._open[-1][0] == "{"
        if after[0] in "\"'}]/#\u201c" or not is_in_object:
            return True
        if self._has_bare_keys and needs_more and _BARE.fullmatch(after):
            return None
        return self._has_bare_keys and _BARE_KEY.match(after) is not None

    @property
    def _is_key(self) -> bool:
        return bool(self._open) and self._open[-1][0] == "{" and self._before in ("{", ",")

    def _end_string(self) -> None:
        was_key, self._quote = self._is_key, ""
        self._emit('"')
        if was_key:
            self._key = "".join(self._word)
        self._before = "k" if was_key else "v"

    def _between(self, text: str, at: int, is_over: bool) -> int:
        sign = text[at]
        if sign.isspace():
            return at + 1
        if self._before == "k" and sign != ":":
            return self._give_up(at)
        if sign in _CLOSING:
            self._begin_value()
            self._open.append((sign, self._key))
            self._key, self._before = "", sign
            self.is_too_deep = self.is_too_deep or len(self._open) > MAX_DEPTH
            self._emit(sign)
            return at + 1
        if sign in "}]":
            self._close(sign)
            return at + 1
        if sign in ",:":
            if sign == ":":
                self._has_entry = True
                self._emit(":")
            self._before = sign
            return at + 1
        if sign in _QUOTES:
            self._begin_value()
            self._quote, self._word = _QUOTES[sign], []
            self._emit('"')
            return at + 1
        if sign in "/#":
            return self._begin_comment(text, at, is_over)
        if not (bare := _BARE.match(text, at)):
            return self._give_up(at) if self._is_complete else at + 1
        return self._bare(text, bare, is_over)

    def _begin_comment(self, text: str, at: int, is_over: bool) -> int:
        signs = text[at] if text[at] == "#" else text[at : at + 2]
        if signs == "/" and not is_over:
            return at
        self._comment = "*/" if signs == "/*" else "\n" if signs in ("//", "#") else ""
        if not self._comment and self._is_complete:
            return self._give_up(at)
        return at + len(signs)

    def _in_comment(self, text: str, at: int, is_over: bool) -> int:
        end = text.find(self._comment, at)
        if end < 0:
            return len(text) if is_over else max(at, len(text) - 1)
        end, self._comment = end + len(self._comment), ""
        return end

    def _bare(self, text: str, bare: re.Match[str], is_over: bool) -> int:
        at, end = bare.start(), min(bare.end(), bare.start() + LOOK_AHEAD)
        if end == len(text) and end - at < LOOK_AHEAD and not is_over:
            return at
        word = text[at:end]
        if self._is_complete:
            return self._give_up(at)
        self._begin_value()
        if self._is_key:
            self._key, self._before, self._has_bare_keys = word, "k", True
            self._emit(json.dumps(word))
            return end
        is_number = _NUMBER.fullmatch(word)
        self._emit(word if is_number else _WORDS.get(word.casefold(), json.dumps(word)))
        self._before = "v"
        return end

    @property
    def _is_complete(self) -> bool:
        """Whether the text ends with a value, so that only a sign of JSON may follow."""
        return self._before in ("v", "}", "]")

    def _begin_value(self) -> None:
        """Write the comma that belongs before the next value. A trailing comma is never written."""
        if self._before in ("v", "}", "]", ",") and self._out[-1:] not in (["{"], ["["]):
            self._emit(",")
            self._before = ","

    def _close(self, sign: str) -> None:
        opening = "{" if sign == "}" else "["
        if not any(bracket == opening for bracket, _ in self._open[-8:]):
            return
        while self._open:
            bracket, _ = self._open.pop()
            self._emit(_CLOSING[bracket])
            if bracket == opening:
                break
        self._key, self._before = "", sign
        self.is_done = not self._open

    def _give_up(self, at: int) -> int:
        """End the value here, because the text that follows is no part of it."""
        self.is_done = True
        self.is_prose = not self._has_entry
        return at

    def _write(self, text: str) -> None:
        if self._is_key and len(self._word) < _LONGEST_KEY:
            self._word.append(text)
            if len("".join(self._word)) > _LONGEST_KEY:
                self._give_up(0)
        self._emit(text)

    def _emit(self, text: str) -> None:
        if not self.is_too_deep:
            self._out.append(text)
