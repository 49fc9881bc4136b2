"""Tests that each format says what the book says, whatever its texts are."""

import re
import warnings
import zipfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docx import Document
from hypothesis import given
from hypothesis import strategies as st

from sessions.exceptions import InvalidInput
from storyengine.books.book import Book, make_book
from storyengine.books.docx import write_docx
from storyengine.books.epub import write_epub
from storyengine.books.formats import FORMATS, format_named
from storyengine.books.markdown import write_markdown
from storyengine.books.plain_text import write_text
from storyengine.books.tests.nasty import BOOK_ID, TEXTS, nasty_chapter, nasty_story
from storyengine.books.tests.reading import (
    lines_in_docx,
    lines_in_epub,
    lines_in_markdown,
    lines_of,
    titles_in_epub,
)

BOOKS = [nasty_story(), *map(nasty_chapter, TEXTS)]
NAMES = ["a story", *(repr(text[:24]) for text in TEXTS)]
books = pytest.mark.parametrize("book", BOOKS, ids=NAMES)
# All signs that Python can hold, lone surrogates included, and more often those that mean
# something.
ANY_TEXT = st.lists(
    st.one_of(
        st.sampled_from([*"*_#<>&\\`[]|~-+=.1a \t", "\n", "\n\n", "**", "\u202e", "א"]),
        st.characters(),
        st.integers(0xD800, 0xDFFF).map(chr),
    ),
    max_size=60,
).map("".join)


def squeezed(lines: list[str]) -> list[str]:
    """Return the lines without the signs and the space that Markdown cannot always keep."""
    return list(filter(None, (re.sub(r"[*_\s]", "", line) for line in lines)))


def simple_book() -> Book:
    chapters = [("One", "# Night\n\nThe *lamp* & **rain**.\n\n***\n\nDay.\nNoon."), ("Two", "")]
    return make_book(BOOK_ID, "The Understudy", cast=["Dora", "Pym"], chapters=chapters)


def part_of(book: Book, name: str) -> str:
    write = write_docx if name.startswith(("docProps/", "word/")) else write_epub
    with zipfile.ZipFile(BytesIO(write(book))) as archive:
        return archive.read(name).decode()


def book_in(language: str, text: str, title: str = "x") -> Book:
    return make_book(BOOK_ID, title, cast=[], chapters=[(title, text)], languages=[language])


@pytest.mark.parametrize(
    ("language", "contents"),
    [("ar", "المحتويات"), ("de", "Inhalt"), ("pt-BR", "Índice"), ("zh-TW", "目錄"), ("tlh", "")],
)
def test_an_epub_is_in_its_language_throughout(language: str, contents: str) -> None:
    book = book_in(language, "x")
    assert f"<dc:language>{language}</dc:language>" in part_of(book, "EPUB/package.opf")
    for name in ("EPUB/page0001.xhtml", "EPUB/toc.xhtml", "EPUB/toc.ncx"):
        assert set(re.findall(r'lang="([^"]*)"', part_of(book, name))) == {language}
    toc = ElementTree.fromstring(part_of(book, "EPUB/toc.xhtml").encode())  # noqa: S314 (ours)
    headings = [one.text for one in toc.iter("{http://www.w3.org/1999/xhtml}h2")]
    assert headings == ([contents] if contents else [])


@pytest.mark.parametrize(
    ("language", "text", "from_right"),
    [
        ("ar", "وقفت مريم.", True),
        ("he", "Night.", True),
        ("az-Arab", "Night.", True),
        ("az", "Night.", False),
        ("en", "שלום", False),
        ("", "1) שלום", True),
        ("", "Natt, שלום", False),
    ],
)
def test_an_epub_turns_its_pages_as_its_language_is_read(
    language: str, text: str, from_right: bool
) -> None:
    book = book_in(language, text, title="1")
    package = part_of(book, "EPUB/package.opf")
    assert ('page-progression-direction="rtl"' in package) is from_right
    for name in ("EPUB/page0001.xhtml", "EPUB/toc.xhtml"):
        assert ('dir="rtl">' in part_of(book, name).partition("<head>")[0]) is from_right


def test_a_document_has_its_language_and_the_time_of_its_making() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    properties = Document(BytesIO(write_docx(book_in("ar", "وقفت مريم.")))).core_properties
    for time in (properties.created, properties.modified):
        assert time is not None
        assert before <= time.replace(tzinfo=UTC) <= datetime.now(UTC)
    assert properties.language == "ar"
    for language, said in (
        ("ar", 'w:bidi="ar"'),
        ("sv", 'w:val="sv"'),
        ("ja", 'w:eastAsia="ja"'),
        ("", ""),
    ):
        styles = part_of(book_in(language, "x"), "word/styles.xml")
        assert re.findall(r"<w:lang ?([^>]*)/>", styles) == [said]


def test_text() -> None:
    assert write_text(simple_book()).decode() == (
        "The Understudy\n\nCast: Dora, Pym\n\n\n\nOne\n\n"
        "# Night\n\nThe *lamp* & **rain**.\n\n***\n\nDay.\nNoon.\n\n\n\nTwo\n"
    )


def test_markdown() -> None:
    assert write_markdown(simple_book()).decode() == (
        "# The Understudy\n\n*Cast: Dora, Pym*\n\n## One\n\n### Night\n\n"
        "The *lamp* & **rain**.\n\n* * *\n\nDay.  \nNoon.\n\n## Two\n"
    )


class TestWord:
    def test_it_has_styles_and_emphasis(self) -> None:
        document = Document(BytesIO(write_docx(simple_book())))
        told = [(one.style and one.style.name, one.text) for one in document.paragraphs]
        assert told == [
            ("Title", "The Understudy"),
            ("Subtitle", "Cast: Dora, Pym"),
            ("Heading 1", "One"),
            ("Heading 2", "Night"),
            ("Normal", "The lamp & rain."),
            ("Normal", "* * *"),
            ("Normal", "Day.\nNoon."),
            ("Heading 1", "Two"),
        ]
        runs = document.paragraphs[4].runs
        assert [run.text for run in runs if run.italic] == ["lamp"]
        assert [run.text for run in runs if run.bold] == ["rain"]
        assert document.core_properties.title == "The Understudy"

    def test_a_script_from_the_right_begins_at_the_right(self) -> None:
        text = "“שלום” said Dora.\n\nDora said “שלום”."
        document = Document(
            BytesIO(write_docx(make_book(BOOK_ID, "x", cast=[], chapters=[("x", text)])))
        )
        turned = [one._p.find(".//{*}bidi") is not None for one in document.paragraphs]
        assert turned == [False, True, False]

    @books
    def test_nothing_is_lost(self, book: Book) -> None:
        assert lines_in_docx(write_docx(book)) == lines_of(book)


class TestEpub:
    def test_it_leaves_no_file_behind(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        recwarn: pytest.WarningsRecorder,
    ) -> None:
        warnings.simplefilter("always", ResourceWarning)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        write_epub(simple_book())
        assert not list(tmp_path.iterdir())
        # Python would remove a forgotten folder some time later, and warn.
        assert not recwarn.list

    @books
    def test_nothing_is_lost(self, book: Book) -> None:
        content = write_epub(book)
        assert lines_in_epub(content) == lines_of(book)
        chapters = [one.title for one in book.chapters] if book.names_chapters else []
        assert titles_in_epub(content) == [book.title, *chapters]


@books
def test_no_word_of_markdown_is_lost_or_read_as_a_sign(book: Book) -> None:
    assert squeezed(lines_in_markdown(write_markdown(book))) == squeezed(lines_of(book))


@given(title=ANY_TEXT, name=ANY_TEXT, text=ANY_TEXT)
def test_any_text_can_be_taken_away(title: str, name: str, text: str) -> None:
    book = make_book(BOOK_ID, title, cast=[name], chapters=[(title, text), (name, title)])
    lines = lines_of(book)
    assert lines_in_docx(write_docx(book)) == lines
    assert lines_in_epub(write_epub(book)) == lines
    assert squeezed(lines_in_markdown(write_markdown(book))) == squeezed(lines)
    assert write_text(book).decode().startswith(book.title)


@pytest.mark.parametrize("unit", ["a\n\n", "*a* ", "a b\n", "***\n\n"])
def test_a_hostile_draft_takes_no_hour_and_no_gigabyte(unit: str) -> None:
    book = make_book(BOOK_ID, "x", cast=[], chapters=[("x", unit * 60_000)])
    for suffix in ("docx", "epub"):
        with pytest.raises(InvalidInput, match="Take it as Markdown or as text"):
            format_named(suffix, FORMATS).write(book)
    for suffix in ("md", "txt"):
        assert len(format_named(suffix, FORMATS).write(book)) > 100_000
