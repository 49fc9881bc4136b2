"""Writes a book as an EPUB 3.

mkepub does not escape titles in its pages and contents, so they are given to it as HTML. It marks
every file as English and as read from the left; `_Epub` writes the real language and direction.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import mkepub
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from memory.prose.receipts.paragraphs import Kind
from sessions.language.languages import language_named
from storyengine.books.book import Block, Book, blocks_of, check_parts
from storyengine.web.templatetags.prose import with_tags

# The language of texts whose language is not known. Readers choose their own for "undetermined".
_UNKNOWN = "und"
_STYLE = """\
p { margin: 0; text-indent: 1.5em; white-space: pre-wrap; }
h1 + p, h2 + p, hr + p, .cast { text-indent: 0; }
h1, h2 { margin: 2em 0 1em; line-height: 1.2; }
h1 { font-size: 1.6em; }
h2 { font-size: 1.2em; }
.cast { margin-bottom: 2em; font-style: italic; }
hr { width: 25%; margin: 1.5em auto; border: 0; border-top: 1px solid; }
"""


def write_epub(book: Book) -> bytes:
    check_parts(book)
    made = _Epub(book)
    made.uuid = book.identifier
    try:
        made.set_stylesheet(_STYLE)
        for title, content in _pages(book):
            made.add_page(escape(title), content)
        return _saved(made)
    finally:
        made.tempdir.cleanup()


class _Epub(mkepub.Book):  # type: ignore[misc]
    """An EPUB whose files say the language and the direction of the book, and whose contents have a
    heading in this language, or none."""

    def __init__(self, book: Book) -> None:
        language = book.language or _UNKNOWN
        super().__init__(escape(book.title), lang=language)
        heading = language_named(language).contents
        in_html = f'lang="{language}"' + (' dir="rtl"' if book.reads_from_right else "")
        turns = ' page-progression-direction="rtl"' if book.reads_from_right else ""
        self._truth = {
            'xml:lang="en"': f'xml:lang="{language}"',
            ' lang="en">': f" {in_html}>",
            "<h2>Table of Contents</h2>": f"<h2>{heading}</h2>" if heading else "",
            '<spine toc="toc">': f'<spine toc="toc"{turns}>',
        }

    def _write(self, template: str, path: str, **data: object) -> None:
        super()._write(template, path, **data)
        file = self.path / path
        text = file.read_text(encoding="utf-8")
        for said, truth in self._truth.items():
            # Only the first match is replaced. It is mkepub's own, and stands before any text of
            # the book.
            text = text.replace(said, truth, 1)
        file.write_text(text, encoding="utf-8")


def _saved(made: mkepub.Book) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "book.epub")
        made.save(path)
        return path.read_bytes()


def _pages(book: Book) -> Iterator[tuple[str, SafeString]]:
    """Yield the title and the content of each page. The chapters of a story follow a page with its
    title. A single chapter is on the page with the title."""
    opening = _joined([_heading(1, escape(book.title)), _cast(book)])
    if not book.names_chapters:
        prose = [_prose(one.text) for one in book.chapters]
        yield book.title, _page([opening, *prose], book.language)
        return
    yield book.title, _page([opening], book.language)
    for chapter in book.chapters:
        parts = [_heading(1, escape(chapter.title)), _prose(chapter.text)]
        yield chapter.title, _page(parts, chapter.language)


def _page(parts: list[SafeString], language: str) -> SafeString:
    # A chapter may be in another language than its book.
    section = '<section lang="{0}" xml:lang="{0}">{1}</section>'
    return format_html(section, language or _UNKNOWN, _joined(parts))


def _cast(book: Book) -> SafeString:
    line = '<p class="cast" dir="auto">{}</p>'
    return format_html(line, book.cast_line) if book.cast else SafeString()


def _prose(text: str) -> SafeString:
    return _joined([_block(block) for block in blocks_of(text)])


def _block(block: Block) -> SafeString:
    if block.kind is Kind.BREAK:
        return SafeString("<hr/>")
    lines = format_html_join(
        SafeString("<br/>"), "{}", ((with_tags(line),) for line in block.lines)
    )
    return (
        _heading(2, lines)
        if block.kind is Kind.HEADING
        else format_html('<p dir="auto">{}</p>', lines)
    )


def _heading(level: int, words: SafeString) -> SafeString:
    return format_html('<h{0} dir="auto">{1}</h{0}>', level, words)


def _joined(parts: list[SafeString], between: str = "\n") -> SafeString:
    return format_html_join(between, "{}", ((part,) for part in parts))
