"""Writes the transcript of a chapter, as text and as Markdown."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sessions.record.transcript import DASHED_LINE, Entry, Transcript
from storyengine.books.book import readable, readable_line
from storyengine.books.formats import MARKDOWN, TEXT, Format
from storyengine.books.markdown import BETWEEN, as_lines, as_title, as_words, joined
from storyengine.web.prose import spans_of

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")


@dataclass(frozen=True)
class Play:
    """The play of a chapter, with the chapter's title."""

    title: str
    transcript: Transcript


def write_text(play: Play) -> bytes:
    """Write the transcript as the specification has it, which is without the title."""
    return f"{play.transcript.plain_text}\n".encode()


def write_markdown(play: Play) -> bytes:
    """Write the title and the transcript. Numbers and names are strong."""
    transcript = play.transcript
    parts = [f"# {as_title(readable_line(play.title))}", *_entries(transcript.before_boundary)]
    if transcript.boundary_is_visible:
        parts.append(DASHED_LINE)
    return joined([*parts, *_entries(transcript.after_boundary)])


TRANSCRIPT_FORMATS: Final[tuple[Format[Play], ...]] = (
    Format("Text", "txt", TEXT, write_text),
    Format("Markdown", "md", MARKDOWN, write_markdown),
)


def _entries(entries: Iterable[Entry]) -> list[str]:
    return [_entry(one) for one in entries if one.is_told]


def _entry(entry: Entry) -> str:
    paragraphs = _BLANK_LINES.split(readable(entry.text).strip())
    text = BETWEEN.join(as_lines(map(spans_of, one.split("\n"))) for one in paragraphs)
    prefix = as_words(readable_line(entry.prefix))
    return f"**{prefix}** {text}".rstrip() if prefix else text
