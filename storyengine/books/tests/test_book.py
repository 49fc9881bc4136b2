"""Tests of what a book has, whatever its format."""

import pytest

from memory.models import NarrativeDraft
from memory.prose.receipts.paragraphs import Kind
from sessions.models import Session
from sessions.tests.factories import make_cast
from storyengine.books.book import Book, blocks_of, book_of, readable
from storyengine.books.tests.nasty import BOOK_ID, TEXTS


def shape_of(text: str) -> list[tuple[Kind, list[str]]]:
    return [
        (block.kind, ["".join(span.text for span in line) for line in block.lines])
        for block in blocks_of(text)
    ]


def test_prose_is_headings_breaks_and_paragraphs() -> None:
    text = "# One *more*\n\nA line\nand *another*\n\n***\n\nText\n## Two\nText"
    assert shape_of(text) == [
        (Kind.HEADING, ["One more"]),
        (Kind.PROSE, ["A line", "and another"]),
        (Kind.BREAK, []),
        (Kind.PROSE, ["Text"]),
        (Kind.HEADING, ["Two"]),
        (Kind.PROSE, ["Text"]),
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_is_left_that_a_format_refuses(text: str) -> None:
    kept = readable(text)
    assert not [sign for sign in kept if ord(sign) < 32 and sign not in "\t\n"]
    assert not [sign for sign in kept if 0x7F <= ord(sign) < 0xA0]
    assert not [sign for sign in kept if 0xD800 <= ord(sign) < 0xE000 or sign in "\ufffe\uffff"]
    marks = "\u200e\u200f\u202c\u202e\u2066\u2069"
    assert [sign for sign in kept if sign in marks] == [sign for sign in text if sign in marks]


@pytest.mark.django_db
class TestDrafts:
    def make_draft(self, title: str, slots: list[int], text: str) -> NarrativeDraft:
        chapter = Session.objects.create(title=title)
        make_cast(chapter, slots)
        return NarrativeDraft.objects.create(
            session=chapter, target_words=2500, source_snapshot={}, chapter_text=text
        )

    def test_a_chapter(self) -> None:
        draft = self.make_draft("The Dark Lamp", [1, 2], "Night.")
        book = book_of(BOOK_ID, draft.session.title, [draft])
        assert not book.names_chapters
        assert book.cast == tuple(one.name for one in draft.session.characters)
        assert [one.text for one in book.chapters] == ["Night."]

    def test_a_story_names_each_of_its_people_once(self) -> None:
        drafts = [self.make_draft("One", [1, 2], "Night."), self.make_draft("Two", [2, 3], "Day.")]
        book: Book = book_of(BOOK_ID, "The Understudy", drafts)
        assert book.names_chapters
        assert [(one.title, one.text) for one in book.chapters] == [
            ("One", "Night."),
            ("Two", "Day."),
        ]
        assert len(book.cast) == len(set(book.cast)) == 3
