"""A book: the file that a person downloads to have a chapter, or several chapters of a story.

Every format is written from the same book, whose texts have no character that a format refuses.
"""

import re
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat

from memory.models import NarrativeDraft
from memory.prose.receipts.paragraphs import Kind, split_paragraphs
from sessions.exceptions import InvalidInput
from sessions.language.languages import reads_from_right
from sessions.models import UNTITLED
from storyengine.web.prose import Span, heading_in, spans_of

# The characters that XML 1.0 does not have, such as control characters and lone surrogates, and the
# control characters from 0x7f to 0x9f, which it advises against. Marks that set the reading
# direction of a text are kept.
_UNREADABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# The limit of the lines and emphasised words of a book whose format needs a part for each of them.
# A story of forty chapters has some ten thousand. Without a limit, a hostile file of a chapter
# could make a download take all memory.
MOST_PARTS = 50_000


@dataclass(frozen=True)
class BookChapter:
    """A chapter of a book, with the tag of its language, or "" if it is not known."""

    title: str
    text: str
    language: str = ""


@dataclass(frozen=True)
class Book:
    """A title, the names of the cast, and chapters of prose. The identifier is the same each time
    the same chapter or story is taken away."""

    identifier: uuid.UUID
    title: str
    cast: tuple[str, ...]
    chapters: tuple[BookChapter, ...]

    @property
    def names_chapters(self) -> bool:
        """Whether each chapter has a heading. A single chapter has the title of its book."""
        return len(self.chapters) > 1

    @property
    def language(self) -> str:
        """The tag of the language of the first chapter whose language is known, or ""."""
        return next((one.language for one in self.chapters if one.language), "")

    @property
    def reads_from_right(self) -> bool:
        """Whether the pages are turned from right to left."""
        if self.language:
            return reads_from_right(self.language)
        return begins_at_right("\n".join([self.title, *(one.text for one in self.chapters)]))

    @property
    def cast_line(self) -> str:
        """The names of the cast as one line, or "" if there is nobody. Only a book that may be in
        English has the English word before them."""
        names = ", ".join(self.cast)
        return f"Cast: {names}" if names and self.language in ("", "en") else names


@dataclass(frozen=True)
class Block:
    """A heading, a break between scenes, or a paragraph with its lines. A heading has one line, and
    a break has none."""

    kind: Kind
    lines: tuple[tuple[Span, ...], ...] = ()


def book_of(identifier: uuid.UUID, title: str, drafts: Sequence[NarrativeDraft]) -> Book:
    """Return a book of these drafts. There is one draft for each chapter, in the order of the
    story."""
    return make_book(
        identifier,
        title,
        cast=[one.name for draft in drafts for one in draft.session.everybody],
        chapters=[(draft.session.title, draft.chapter_text) for draft in drafts],
        languages=[draft.language for draft in drafts],
    )


def make_book(
    identifier: uuid.UUID,
    title: str,
    *,
    cast: Iterable[str],
    chapters: Iterable[tuple[str, str]],
    languages: Iterable[str] = (),
) -> Book:
    """Return a book of these texts, in which every text is readable. The chapters are pairs of
    title and prose, and `languages` has the languages of the chapters, as far as they are known. A
    name that two members of the cast have is listed once."""
    return Book(
        identifier=identifier,
        title=_readable_title(title),
        cast=tuple(dict.fromkeys(filter(None, map(readable_line, cast)))),
        chapters=tuple(
            BookChapter(_readable_title(one), readable(text), language)
            for (one, text), language in zip(chapters, chain(languages, repeat("")), strict=False)
        ),
    )


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the parts of a chapter's prose, in order."""
    for paragraph in split_paragraphs(text):
        if paragraph.kind is Kind.BREAK:
            yield Block(Kind.BREAK)
            continue
        lines = paragraph.text.split("\n")
        for is_heading, together in groupby(lines, key=lambda line: heading_in(line) is not None):
            if not is_heading:
                yield Block(Kind.PROSE, tuple(tuple(spans_of(line)) for line in together))
                continue
            for line in together:
                yield Block(Kind.HEADING, (tuple(spans_of(heading_in(line) or "")),))


def check_parts(book: Book) -> None:
    """Raise InvalidInput if the book has too many parts for a format that needs each of them."""
    count = 0
    for chapter in book.chapters:
        for block in blocks_of(chapter.text):
            count += sum(1 + len(line) for line in block.lines) or 1
            if count > MOST_PARTS:
                raise InvalidInput(
                    f"The prose has more than {MOST_PARTS:,} lines and emphasised words, which is "
                    "too much for this format. Take it as Markdown or as text."
                )


def begins_at_right(text: str) -> bool:
    """Return whether the first letter with a direction is of a script that is read from the right.
    Browsers decide in the same way."""
    directions = (unicodedata.bidirectional(sign) for sign in text)
    return next((one for one in directions if one in ("L", "R", "AL")), "L") != "L"


def readable(text: str) -> str:
    """Return the text with one line feed for each line break, and without the characters that a
    format would refuse."""
    return _UNREADABLE.sub("", "\n".join(text.splitlines()))


def readable_line(text: str) -> str:
    """Return a title or a name as one line."""
    return " ".join(readable(text).split())


def _readable_title(title: str) -> str:
    # Without the characters that no format has, nothing may be left, but a book needs a title.
    return readable_line(title) or UNTITLED
