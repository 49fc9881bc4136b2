"""What a person typed, made safe to store: counted in code points, refused when it is not text."""

import re

from sessions.exceptions import InvalidInput, TooLong

# Controls other than tab and line feed, and lone surrogates, are never typed; they are binary data.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_LINE_BREAK = re.compile("\r\n?")


def clean_text(value: str, *, limit: int, label: str) -> str:
    """The text with every line break as one LF.

    Raises TooLong over `limit` code points and InvalidInput for binary data: nothing is cut.
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
    """The text with one LF for each line break, which a browser sends as CR and LF."""
    return _LINE_BREAK.sub("\n", text)


def clean_line(value: str, *, limit: int, label: str) -> str:
    """Like `clean_text`, for names and titles: one line, without space around it."""
    return " ".join(clean_text(value, limit=limit, label=label).split())


def scrub_reply(text: str) -> str:
    """A model's text with what no database can store replaced; otherwise word for word."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", _LINE_BREAK.sub("\n", text))
