"""The formats of the book that a person can download. The first is the one that pages suggest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from sessions.exceptions import InvalidInput
from storyengine.books.book import Book
from storyengine.books.docx import write_docx
from storyengine.books.epub import write_epub
from storyengine.books.markdown import write_markdown
from storyengine.books.plain_text import write_text

T = TypeVar("T")


@dataclass(frozen=True)
class Format(Generic[T]):
    """A format, with the name that pages use. `suffix` ends the name of the file, and names the
    format in addresses."""

    name: str
    suffix: str
    media_type: str
    write: Callable[[T], bytes]


WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
TEXT: Final = "text/plain; charset=utf-8"
MARKDOWN: Final = "text/markdown; charset=utf-8"

FORMATS: Final[tuple[Format[Book], ...]] = (
    Format("Word", "docx", WORD, write_docx),
    Format("EPUB", "epub", "application/epub+zip", write_epub),
    Format("Markdown", "md", MARKDOWN, write_markdown),
    Format("Text", "txt", TEXT, write_text),
)


def format_named(suffix: str, formats: Sequence[Format[T]]) -> Format[T]:
    """Return the format. Raises InvalidInput."""
    for one in formats:
        if one.suffix == suffix:
            return one
    known = " and ".join(one.suffix for one in formats)
    raise InvalidInput(f"There is no such format here. There are {known}.")
