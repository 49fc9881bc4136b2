"""What others wrote, as a prompt may carry it: it passes for no part of the prompt.

A line of it is no layer's heading, it opens and closes no element of memory and no tool call, has
no key of an object with calls, and holds no mark by which chat templates tell one speaker from the
next. Letters that are not seen, and look-alikes
of other scripts, hide no heading and no element. Only what would pass for one of these is changed,
by one sign, and nothing a second time. A story keeps its own headings, its tags and its "<3", and
what is stored stays as it was written.
"""

import re

from memory.telling.session_state import ELEMENTS
from sessions.speaker_marks import UNSEEN_LETTERS, as_read, without_chat_marks

_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
# A number sign, also as other scripts write it, and what looks like one.
_NUMBER_SIGNS = "#\N{FULLWIDTH NUMBER SIGN}\N{SMALL NUMBER SIGN}\N{MUSIC SHARP SIGN}"
# Names of layers that are one word, as a story's own headings may be: only in capitals.
_SHORT_NAMES = ("SYSTEM", "TOOLS", "PROTOCOLS", "FORMAT", "TASK", "CONTINUE", "REPAIR")
# How a model writes a call where its server has no form of its own: this element, or these keys.
CALL_ELEMENT, CALLS_KEY = "call", "calls"
_CALL_KEYS = (CALLS_KEY, "tool_calls", "arguments")
# With a colon, the headings by which models are taught to answer: "### Response:".
_TAUGHT = ("instruction", "input", "response", "system", "user", "human", "assistant")

# Whatever stands between is no letter and no digit, and on the same line. Possessive, so that no
# text takes longer than its length.
_HEADING = re.compile(
    rf"(?:\A|(?<=[{_BREAKS}]))(?:[^\w\\{_NUMBER_SIGNS}{_BREAKS}]|[_{UNSEEN_LETTERS}])*+"
    rf"(?=(?P<heading>[{_NUMBER_SIGNS}][^{_BREAKS}]*+))"
)
# Looked for in a heading as it is read.
_NAME = re.compile(
    r"#++(?:[^\w\\#]|_)*+"
    rf"(?:[^\W\d_]++_++[^\W\d_]|(?:{'|'.join(_SHORT_NAMES)})(?![^\W_])"
    rf"|(?i:{'|'.join(_TAUGHT)})(?:[^\w:\\]|_)*+:)"
)
# What stands behind the sign, up to the next one, if there is a letter in it.
_TAG = re.compile(r"<(?=(?P<tag>[^\w<>]*+\w[^<>]*+))")
_ELEMENT = re.compile(rf"[\s/]*+(?:{'|'.join(sorted(ELEMENTS | {CALL_ELEMENT}))})\b", re.IGNORECASE)
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


def is_guarded(name: str) -> bool:
    """Whether a line of others' text that looks like this layer's heading is changed."""
    return without_forgeries(f"## {name}") != f"## {name}"


def _guard_heading(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if _NAME.match(as_read(found["heading"])) else found[0]


def _guard_element(found: re.Match[str]) -> str:
    # As it is written, too: what ends a name there may be read as a letter of it.
    tag = found["tag"]
    return "&lt;" if _ELEMENT.match(as_read(tag)) or _ELEMENT.match(tag) else found[0]
