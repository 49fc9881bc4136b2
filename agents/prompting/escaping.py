"""What others wrote, as a prompt may carry it: it passes for no part of the prompt.

A line of it is no layer's heading, it opens and closes no element of memory and no tool call, has
no key of an object with calls, and holds no mark by which chat templates tell one speaker from the
next. Letters that are not seen, and look-alikes
of other scripts, hide no heading and no element. Only what would pass for one of these is changed,
by one sign, and nothing a second time. A story keeps its own headings, its tags and its "<3", and
what is stored stays as it was written.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from memory.telling.session_state import ELEMENTS
from sessions.speaker_marks import UNSEEN_LETTERS, as_read, without_chat_marks

_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
# A number sign, also as other scripts write it, and what looks like one.
_NUMBER_SIGNS = "#\N{FULLWIDTH NUMBER SIGN}\N{SMALL NUMBER SIGN}\N{MUSIC SHARP SIGN}"
# Names of layers that are one word, as a story's own headings may be: only in capitals. Those that
# agents are declared with are added to these, which flows add to a prompt.
_short_names = {"SYSTEM", "TOOLS", "CONTINUE", "REPAIR"}
# How a model writes a call where its server has no form of its own: this element, or these keys.
CALL_ELEMENT, CALLS_KEY = "call", "calls"
_CALL_KEYS = (CALLS_KEY, "tool_calls", "arguments")
_LAYER_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_elements = {*ELEMENTS, CALL_ELEMENT}
# With a colon, the headings by which models are taught to answer: "### Response:".
_TAUGHT = ("instruction", "input", "response", "system", "user", "human", "assistant")

# Whatever stands between is no letter and no digit, and on the same line. Possessive, so that no
# text takes longer than its length.
_HEADING = re.compile(
    rf"(?:\A|(?<=[{_BREAKS}]))(?:[^\w\\{_NUMBER_SIGNS}{_BREAKS}]|[_{UNSEEN_LETTERS}])*+"
    rf"(?=(?P<heading>[{_NUMBER_SIGNS}][^{_BREAKS}]*+))"
)
# What stands behind the sign, up to the next one, if there is a letter in it.
_TAG = re.compile(r"<(?=(?P<tag>[^\w<>]*+\w[^<>]*+))")
# What stands behind a quotation mark that has no sign before it, up to a colon.
_KEY = re.compile(
    rf"(?<!\\)\"(?=[^\w\"]*+(?:{'|'.join(_CALL_KEYS)})[^\w\"]*+\"\s*+:)", re.IGNORECASE
)


def without_forgeries(text: str, *, has_elements: bool = False, has_calls: bool = False) -> str:
    """The text as a piece of a prompt. With `has_elements` its elements are the engine's own, with
    `has_calls` it may tell how tools are called."""
    if any(sign in text for sign in _NUMBER_SIGNS):
        text = _HEADING.sub(_guard_heading, text)
    text = without_chat_marks(text)
    if has_calls:
        return text
    if '"' in text:
        text = _KEY.sub('\\\\"', text)
    return _TAG.sub(_guard_element, text) if "<" in text and not has_elements else text


def guard_heading(name: str) -> None:
    """From now on others' texts do not forge the heading of this layer.

    Raises ValueError for a name with which lines of stories begin.
    """
    if not _LAYER_NAME.fullmatch(name):
        raise ValueError(f"The name of a layer is in capitals, unlike {name!r}.")
    if "_" not in name:
        _short_names.add(name)
        _name_pattern.cache_clear()


def guard_elements(names: Iterable[str]) -> None:
    """From now on others' texts do not forge these elements."""
    _elements.update(names)
    _element_pattern.cache_clear()


@lru_cache(maxsize=1)
def _name_pattern() -> re.Pattern[str]:
    """Looked for in a heading as it is read."""
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
    # As it is written, too: what ends a name there may be read as a letter of it.
    tag, element = found["tag"], _element_pattern()
    return "&lt;" if element.match(as_read(tag)) or element.match(tag) else found[0]
