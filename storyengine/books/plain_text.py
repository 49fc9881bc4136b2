"""Writes a book as plain text."""

from storyengine.books.book import Book

# The blank lines before the title of each chapter.
_BEFORE_CHAPTER = "\n\n"


def write_text(book: Book) -> bytes:
    parts = [book.title, book.cast_line]
    for chapter in book.chapters:
        if book.names_chapters:
            parts.append(_BEFORE_CHAPTER + chapter.title)
        parts.append(chapter.text.strip("\n"))
    return ("\n\n".join(filter(None, parts)) + "\n").encode()
