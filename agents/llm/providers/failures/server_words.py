"""Finds the words of a server that refuses a call, wherever they stand in its answer.

The answer may be JSON of any shape, an event of a stream, a page of a proxy or plain text.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from agents.llm.providers.bounds import parse
from sessions.language.text import with_replacements

# How many characters of a server's words are read at most, and how many are shown at most.
_MOST_READ, _MOST_SHOWN = 4_000, 300
# At most this many values are looked at, down to this depth. JSON in a text counts as deeper.
_MOST_VALUES, _DEEPEST = 500, 8
# If the names in an answer are not in the tables below, at most this many of its texts are shown.
_MOST_UNFORESEEN = 10
# A key with fewer characters than the first number is not removed from a server's words. A key with
# fewer characters than the second number is not removed inside a word.
SHORTEST_KEY, LONG_KEY = 4, 12

# Servers put their words, or an object that has the words, under these names. `raw` has the words
# of the company behind OpenRouter. The words in the result have the order of these names.
_WORDS_IN = (
    "error", "message", "msg", "detail", "details", "errors", "error_message", "errorMessage",
    "error_description", "description", "title", "metadata", "raw", "innererror", "response",
    "fieldViolations",
)  # fmt: skip
# The names of short codes, such as "context_length_exceeded". Some of them may be an HTTP status.
_CODES_IN = ("code", "type", "status", "reason", "error_code", "error_type", "statusCode")
# Servers name a field of the request under these names.
_FIELDS_IN = ("param", "parameter", "loc", "field")
# llama.cpp gives the size of the window that a request exceeds under this name.
_WINDOW_IN = "n_ctx"

_PAGE = re.compile(r"\s*<(?:!doctype|\?xml|[a-z]+[\s/>])", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1|message)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_JSON_BEGINS = re.compile(r"\{\s*\"|\[\s*[{\"]")


@dataclass(frozen=True)
class ServerWords:
    """What a server said. `status` is the HTTP status that the words themselves name, or 0.

    `codes` are in lower case. `fields` are the fields of the request that the server names apart
    from its words, such as "temperature" or "body.stop".
    """

    text: str = ""
    codes: frozenset[str] = frozenset()
    status: int = 0
    fields: tuple[str, ...] = ()
    window: int | None = None

    def shown(self, secret: str) -> str:
        return shortened(self.text, secret)


def read_words(answer: object) -> ServerWords:
    """Return the server's words in an answer. The answer is the body of a refusal as bytes, or any
    JSON value."""
    if isinstance(answer, bytes):
        answer = _decoded(answer)
    found = _Found()
    found.look_into(answer)
    if not found.texts:
        # Words under an unknown name are better than no words.
        found.add_all_texts(answer)
    text = " ".join(_as_sentence(one) for one in found.texts)[:_MOST_READ]
    return ServerWords(
        text, frozenset(found.codes), found.status, tuple(found.fields), found.window
    )


def refusal_in(piece: object) -> object:
    """Return the part of an event or of a whole answer that is a refusal, or None.

    An answer may be a refusal although its status is 200.
    """
    if isinstance(piece, list):
        return next((one for one in piece[:1] if refusal_in(one)), None)
    if not isinstance(piece, dict):
        return None
    if piece.get("error"):
        return piece
    if choices := piece.get("choices"):
        first = choices[0] if isinstance(choices, list) else None
        if not isinstance(first, dict):
            return None
        delta = first.get("delta")
        return first.get("error") or (isinstance(delta, dict) and delta.get("error")) or None
    is_named = "error" in (piece.get("object"), piece.get("type"))
    has_words = any(isinstance(piece.get(name), str) for name in ("message", "detail"))
    has_list = any(isinstance(piece.get(name), list) for name in ("errors", "detail"))
    return piece if is_named or has_words or has_list else None


def shortened(message: str, secret: str) -> str:
    """Return the message of a server or a model on one line, without the key and not too long."""
    words = _without_key(_as_sentence(with_replacements(" ".join(message.split()))), secret)
    return f"{words[:_MOST_SHOWN]}…" if len(words) > _MOST_SHOWN else words


@dataclass
class _Found:
    texts: list[str] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    fields: list[str] = field(default_factory=list)
    status: int = 0
    window: int | None = None
    _room: int = _MOST_VALUES

    def look_into(self, value: object, depth: int = 0) -> None:
        self._room -= 1
        if self._room < 0 or depth > _DEEPEST:
            return
        match value:
            case str():
                self._read_text(value, depth)
            case list():
                for one in value:
                    if self._room < 0:
                        return
                    self.look_into(one, depth + 1)
            case dict():
                self._read_codes(value)
                self._read_fields(value)
                for name in _WORDS_IN:
                    if name in value:
                        self.look_into(value[name], depth + 1)

    def add_all_texts(self, value: object) -> None:
        for text in islice(_texts_in(value), _MOST_UNFORESEEN):
            self._add(text)

    def _read_text(self, text: str, depth: int) -> None:
        text = text.strip()
        begin = _JSON_BEGINS.search(text[:_MOST_READ])
        inner: object = None
        if begin:
            with suppress(ValueError, RecursionError):
                inner, _ = json.JSONDecoder(strict=False).raw_decode(text, begin.start())
        if begin and isinstance(inner, dict | list):
            before = len(self.texts)
            self.look_into(inner, depth + 1)
            if len(self.texts) > before:
                # A gateway may put a remark before the words of the server behind it.
                self._add(text[: begin.start()].rstrip(" -:"), at=before)
                return
        self._add(_words_of_page(text) if _PAGE.match(text) else text)

    def _add(self, text: str, *, at: int | None = None) -> None:
        text = text.strip()[:_MOST_READ]
        if text and not any(text in one for one in self.texts):
            self.texts.insert(len(self.texts) if at is None else at, text)

    def _read_codes(self, holder: Mapping[str, object]) -> None:
        for name in _CODES_IN:
            code = holder.get(name)
            if isinstance(code, str) and not code.isdecimal():
                self.codes.add(code[:100].lower())
            # A longer text than a status may be a number without end.
            elif isinstance(code, str | int) and type(code) is not bool:
                status = int(code) if isinstance(code, int) or len(code) == 3 else 0
                self.status = self.status or (status if 400 <= status <= 599 else 0)
        window = holder.get(_WINDOW_IN)
        self.window = window if type(window) is int and window > 0 else self.window

    def _read_fields(self, holder: Mapping[str, object]) -> None:
        for name in _FIELDS_IN:
            match holder.get(name):
                case str() as named if named:
                    self.fields.append(named[:200])
                case list() as path if path:
                    place = ".".join(str(part)[:100] for part in path[:10])
                    self.fields.append(place)
                    # The words beside a path say nothing without the path.
                    if isinstance(said := holder.get("msg"), str) and said:
                        self._add(f"{place}: {said}")


def _texts_in(value: object, depth: int = 0) -> Iterator[str]:
    match value:
        case str() if value.strip():
            yield value
        case list() if depth < _DEEPEST:
            for one in value[:5]:
                yield from _texts_in(one, depth + 1)
        case dict() if depth < _DEEPEST:
            for name, one in list(value.items())[:5]:
                for text in _texts_in(one, depth + 1):
                    yield f"{str(name)[:100]}: {text}"


def _decoded(body: bytes) -> object:
    """Return the body's JSON value, or its text, or None if it is neither."""
    with suppress(ValueError):
        return parse(body)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return text if "\0" not in text else None


def _words_of_page(page: str) -> str:
    titles = [_TAG.sub(" ", found[2]) for found in _TITLE.finditer(page[:_MOST_READ])]
    words = next((title for title in titles if title.strip()), _TAG.sub(" ", page[:_MOST_READ]))
    return " ".join(html.unescape(words).split())


def _as_sentence(words: str) -> str:
    return words if not words or words.endswith((".", "!", "?", "…")) else f"{words}."


def _without_key(words: str, key: str) -> str:
    """Return the words without the key.

    A short key may be a part of ordinary words. Such a key is removed only where it stands alone,
    and a very short key is left in, because no server gives out such a key and a person may use any
    letter as the key of a server that needs none.
    """
    if len(key) < SHORTEST_KEY:
        return words
    if len(key) >= LONG_KEY:
        return words.replace(key, "[key]")
    return re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", "[key]", words)
