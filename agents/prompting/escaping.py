"""Escapes text of other authors, so that a model cannot mistake it for a part of the request.

The escaped text has no heading of a layer, no element of memory, no tool call, no key of an object
with calls, and no mark that chat templates put between speakers. Invisible letters and look-alikes
from other scripts cannot hide a heading or an element.

Where the text imitates such a part, one sign is escaped, and everything else is left the same. A
story keeps its own headings, its tags and its "<3". Escaping an escaped text changes nothing. The
stored text is not changed.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from memory.telling.session_state import ELEMENTS
from sessions.language.speaker_marks import UNSEEN_LETTERS, as_read, without_chat_marks

_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
# The number sign, its forms in other scripts, and a sign that looks like it.
_NUMBER_SIGNS = "#\N{FULLWIDTH NUMBER SIGN}\N{SMALL NUMBER SIGN}\N{MUSIC SHARP SIGN}"
# The layers with a name of one word. Flows add such layers to a request, and `guard_heading` adds
# the names of declared layers to this set. A heading counts only if it is in capitals, because a
# story may have the same word as a heading.
_short_names = {"SYSTEM", "TOOLS", "CONTINUE", "REPAIR"}
# The marks of a tool call for a server that has no form of its own for calls: the element in XML,
# and the key in JSON.
CALL_ELEMENT, CALLS_KEY = "call", "calls"
_CALL_KEYS = (CALLS_KEY, "tool_calls", "arguments")
_LAYER_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_elements = {*ELEMENTS, CALL_ELEMENT}
# The words of headings such as "### Response:". Models are trained to answer after such a heading.
# Such a heading counts only with its colon.
_TAUGHT = ("instruction", "input", "response", "system", "user", "human", "assistant")

# A pattern for a heading of a layer. Between the start of the line and the number sign it allows
# neither letters nor digits. The quantifiers are possessive, so that the time is linear in the
# length of the text.
_HEADING = re.compile(
    rf"(?:\A|(?<=[{_BREAKS}]))(?:[^\w\\{_NUMBER_SIGNS}{_BREAKS}]|[_{UNSEEN_LETTERS}])*+"
    rf"(?=(?P<heading>[{_NUMBER_SIGNS}][^{_BREAKS}]*+))"
)
# A pattern that matches the sign "<" if a letter comes before the next "<" or ">".
_TAG = re.compile(r"<(?=(?P<tag>[^\w<>]*+\w[^<>]*+))")
# A pattern that matches the quotation mark at the beginning of a tool call's key, unless a
# backslash precedes the mark.
_KEY = re.compile(
    rf"(?<!\\)\"(?=[^\w\"]*+(?:{'|'.join(_CALL_KEYS)})[^\w\"]*+\"\s*+:)", re.IGNORECASE
)


def without_forgeries(text: str, *, has_elements: bool = False, has_calls: bool = False) -> str:
    """Return the text with everything escaped that imitates a part of the request.

    If `has_elements` is True, the elements in the text are not changed, because the engine wrote
    them. If `has_calls` is True, its tool calls are not changed.
    """
    if any(sign in text for sign in _NUMBER_SIGNS):
        text = _HEADING.sub(_guard_heading, text)
    text = without_chat_marks(text)
    if has_calls:
        return text
    if '"' in text:
        text = _KEY.sub('\\\\"', text)
    return _TAG.sub(_guard_element, text) if "<" in text and not has_elements else text


def guard_heading(name: str) -> None:
    """Declare the name of a layer. From then on, a heading with this name is escaped in all other
    texts.

    Raises ValueError for a name that could begin a line of a story.
    """
    if not _LAYER_NAME.fullmatch(name):
        raise ValueError(f"The name of a layer is in capitals, unlike {name!r}.")
    if "_" not in name:
        _short_names.add(name)
        _name_pattern.cache_clear()


def guard_elements(names: Iterable[str]) -> None:
    """Declare names of elements. From then on, elements with these names are escaped in all other
    texts."""
    _elements.update(names)
    _element_pattern.cache_clear()


@lru_cache(maxsize=1)
def _name_pattern() -> re.Pattern[str]:
    """Return the pattern that finds a heading with the name of a layer, even if the name is changed
    in ways that a model would still recognise."""
    return re.compile(
        r"#++(?:[^\w\\#]|_)*+"
        rf"(?:[^\W\d_]++_++[^\W\d_]|(?:{'|'.join(sorted(_short_names))})(?![^\W_])"
        rf"|(?i:{'|'.join(_TAUGHT)})(?:[^\w:\\]|_)*+:)"
    )


@lru_cache(maxsize=1)
def _element_pattern() -> re.Pattern[str]:
    return re.compile(rf"[\s/]*+(?:{'|'.join(sorted(_elements))})\b", re.IGNORECASE)


def _guard_heading(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if _name_pattern().match(as_read(found["heading"])) else found[0]


def _guard_element(found: re.Match[str]) -> str:
    # The tag is also compared as it was written, because `as_read` may read a sign behind the tag's
    # name as a letter of the name.
    tag, element = found["tag"], _element_pattern()
    return "&lt;" if element.match(as_read(tag)) or element.match(tag) else found[0]
