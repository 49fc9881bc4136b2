"""Makes typed text safe to store, limits it in code points, and refuses binary data."""

import re

from sessions.exceptions import InvalidInput, TooLong

# Control characters other than tab and line feed, and lone surrogates. Nobody types these
# characters, so a text with one of them is binary data.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_LINE_BREAK = re.compile("\r\n?")


def clean_text(value: str, *, limit: int, label: str) -> str:
    """Return the text with one line feed for each line break.

    Raises TooLong if the text has more than `limit` code points, and InvalidInput for binary data.
    No text is ever shortened.
    """
    text = with_line_feeds(value)
    if _NOT_TEXT.search(text):
        raise InvalidInput(
            f"{label} contains characters that are not text. Nothing was saved; "
            "remove them and try again."
        )
    if len(text) > limit:
        raise TooLong(
            f"{label} has {len(text):,} characters; at most {limit:,} are possible. "
            f"Nothing was saved; shorten it by {len(text) - limit:,}."
        )
    return text


def with_line_feeds(text: str) -> str:
    """Return the text with one line feed for each line break. Browsers send a carriage return and a
    line feed."""
    return _LINE_BREAK.sub("\n", text)


def clean_line(value: str, *, limit: int, label: str) -> str:
    """Return a name or title as a single line without space at its ends, cleaned by
    `clean_text`."""
    return " ".join(clean_text(value, limit=limit, label=label).split())


def scrub_reply(text: str) -> str:
    """Return a model's text with replacements for the characters that no database stores."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", _LINE_BREAK.sub("\n", text))
