"""The one rule on text. It holds for pages, the API, files and models.

- A line break of any kind is one line feed, and a byte order mark at the beginning is left out.
- Control characters and halves of surrogate pairs are no text. What a person or a file sends is
  refused, and the message says where the first of them stands. In a model's text, a replacement
  character stands for each of them.
- A text in which nothing can be seen is empty.
- A name is one line in which something can be seen, without marks that turn the direction of
  writing.

All other characters are text, also those that are never drawn: joiners belong to words and emoji,
and blanks of no width to the scripts that need them.
"""

import re
import unicodedata
from functools import lru_cache

from sessions.exceptions import InvalidInput, TooLong

_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BYTE_ORDER_MARK = "\ufeff"
_BEGINNING = re.compile(r"\A[\s\ufeff]+")
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Letters and a sign that are blank, although Unicode does not count them as blanks.
BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
# Unicode's kinds of blanks, controls, formats, surrogates, and marks on letters. A mark alone has
# no letter on which it could be seen.
_UNSEEN_KINDS = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Mn", "Mc", "Me"})
# Code points that are never drawn, whatever character they may once have. Other code points without
# a character are drawn as boxes, or as characters that are newer than Python's tables.
_NEVER_DRAWN = re.compile("[\u2065\ufff0-\ufff8\U000e0000-\U000e0fff]")


def clean_text(value: str, *, limit: int, label: str) -> str:
    """Return the text in the form that is stored. A text in which nothing can be seen is returned
    as "", unless it consists of ordinary blanks.

    Raises TooLong if the text has more than `limit` code points, and InvalidInput for characters
    that are no text. No text is ever shortened.
    """
    return seen(clean_signs(value, limit=limit, label=label))


def clean_signs(value: str, *, limit: int, label: str) -> str:
    """Do the same for a text that must be kept sign by sign, such as a pattern: it may consist of
    signs that cannot be seen."""
    if problem := why_not_text(value):
        raise InvalidInput(f"{label}: {problem}. Nothing was saved; remove it and try again.")
    text = tidied(value)
    if len(text) > limit:
        raise TooLong(
            f"{label} has {len(text):,} characters; at most {limit:,} are possible. "
            f"Nothing was saved; shorten it by {len(text) - limit:,}."
        )
    return text


def clean_line(value: str, *, limit: int, label: str) -> str:
    """Return a title as a single line without space at its ends, cleaned by `clean_text`."""
    return as_line(clean_text(value, limit=limit, label=label))


def clean_name(value: str, *, limit: int, label: str) -> str:
    """Return a name as a single line, cleaned by `clean_signs`. An empty name stays empty, but
    InvalidInput is raised for a name that nobody could see or read."""
    name = as_line(clean_signs(value, limit=limit, label=label))
    if problem := why_no_name(name):
        raise InvalidInput(
            f"{label}: {problem}. Nothing was saved; remove it, or choose another name."
        )
    return name


def as_line(text: str) -> str:
    return " ".join(text.split())


def with_line_feeds(text: str) -> str:
    """Return the text with one line feed for each line break."""
    return _LINE_BREAK.sub("\n", text)


def tidied(text: str) -> str:
    """Return the text with one line feed for each line break, and without a byte order mark at its
    beginning."""
    return _BEGINNING.sub(_without_marks, with_line_feeds(text), count=1)


def removed_by_tidying(text: str) -> list[int]:
    """Return the places of the characters that `tidied` removes from the text, in order."""
    beginning = _BEGINNING.match(text)
    front = enumerate(beginning[0] if beginning else "")
    removed = {at for at, sign in front if sign == _BYTE_ORDER_MARK}
    return sorted(removed | {found.end() - 1 for found in re.finditer("\r\n", text)})


def _without_marks(beginning: re.Match[str]) -> str:
    return beginning[0].replace(_BYTE_ORDER_MARK, "")


def why_not_text(value: str) -> str:
    """Return a description of the first character that is no text, and of its place. Return "" if
    all characters are text. Characters are counted from 1, and a line break counts as one."""
    text = with_line_feeds(value)
    found = _NOT_TEXT.search(text)
    if found is None:
        return ""
    code = ord(found[0])
    kind = "half of a character" if 0xD800 <= code <= 0xDFFF else "a control character"
    count = sum(1 for _ in _NOT_TEXT.finditer(text)) - 1
    more = f" ({count:,} more like it follow{'s' if count == 1 else ''})" if count else ""
    return f"character {found.start() + 1:,} is U+{code:04X}, {kind}, and no text{more}"


def why_no_name(name: str) -> str:
    """Return the reason why this text cannot be a name, or "". An empty name is accepted."""
    if name and is_blank(name):
        return f"character 1 is U+{ord(name[0]):04X}, and nothing in this name can be seen"
    if found := _TURNING.search(name):
        sign = f"U+{ord(found[0]):04X}"
        return f"character {found.start() + 1:,} is {sign}, which turns the direction of writing"
    return ""


def is_blank(text: str) -> bool:
    """Return whether nothing in the text can be seen."""
    return all(map(_is_unseen, text))


def seen(text: str) -> str:
    """Return the text, or "" if nothing in it can be seen. A text of ordinary blanks stays as it
    is, because somebody typed it."""
    return "" if text and not text.isspace() and is_blank(text) else text


def scrub_reply(text: str) -> str:
    """Return a model's text in the form that is stored, with a replacement character for each
    character that is no text. A text in which nothing can be seen is returned as ""."""
    return seen(with_replacements(tidied(text)))


def with_replacements(text: str) -> str:
    """Return the text with a replacement character for each character that is no text. No other
    character changes its place."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


@lru_cache(maxsize=4_096)
def _is_unseen(character: str) -> bool:
    is_of_kind = unicodedata.category(character) in _UNSEEN_KINDS
    return is_of_kind or character in BLANK_LETTERS or bool(_NEVER_DRAWN.match(character))
