"""What others wrote, as a prompt may carry it: it passes for no part of the prompt.

A line of it is no layer's heading, it opens and closes no element of memory, and it holds no mark
by which chat templates tell one speaker from the next: local servers heed those wherever they
stand. Only what would pass for one of these is changed, by one sign, and nothing a second time. A
story keeps its own headings, its tags and its "<3", and what is stored stays as it was written.
"""

import re

from memory.session_state import ELEMENTS

_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
# A number sign, also as other scripts write it.
_NUMBER_SIGNS = "#\N{FULLWIDTH NUMBER SIGN}\N{SMALL NUMBER SIGN}"
_UNSEEN = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
# Names of layers that are one word, as a story's own headings may be: only in capitals.
_SHORT_NAMES = ("SYSTEM", "PROTOCOLS", "FORMAT", "TASK", "CONTINUE", "REPAIR")

# Whatever stands between is no letter and no digit, and on the same line. Possessive, so that no
# text takes longer than its length.
_HEADING = re.compile(
    rf"(?:\A|(?<=[{_BREAKS}]))(?:[^\w\\{_NUMBER_SIGNS}{_BREAKS}]|_)*+"
    rf"(?=[{_NUMBER_SIGNS}]++(?:[^\w\\{_NUMBER_SIGNS}{_BREAKS}]|_)*+"
    rf"(?:[A-Za-z]++_[A-Za-z]|(?:{'|'.join(_SHORT_NAMES)})\b))"
)
_ELEMENT = re.compile(rf"<(?=[\s/{_UNSEEN}]*+(?:{'|'.join(sorted(ELEMENTS))})\b)", re.IGNORECASE)
# <|im_start|>, </s>, <start_of_turn>, <<SYS>>.
_MARK = re.compile(
    r"<(?=[|\N{FULLWIDTH VERTICAL LINE}]|/?s>|(?:start|end)_of_turn>|</?SYS>)", re.IGNORECASE
)
_INSTRUCTION = re.compile(r"\[/?INST(?=\])")


def without_forgeries(text: str, *, has_elements: bool = False) -> str:
    """The text as a piece of a prompt. With `has_elements` its elements are the engine's own."""
    if any(sign in text for sign in _NUMBER_SIGNS):
        text = _HEADING.sub(_with_backslash, text)
    if "INST]" in text:
        text = _INSTRUCTION.sub(_with_backslash, text)
    if "<" in text:
        text = _MARK.sub("&lt;", text)
        text = text if has_elements else _ELEMENT.sub("&lt;", text)
    return text


def is_guarded(name: str) -> bool:
    """Whether a line of others' text that looks like this layer's heading is changed."""
    return without_forgeries(f"## {name}") != f"## {name}"


def _with_backslash(found: re.Match[str]) -> str:
    return f"{found[0]}\\"
