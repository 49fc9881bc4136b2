"""Sends a book as a file that a browser stores."""

from django.http import HttpResponse

from storyengine.books.book import Book
from storyengine.books.formats import FORMATS, format_named
from storyengine.web.files import file_stem, send_file


def send_book(book: Book, suffix: str, *, which: str = "") -> HttpResponse:
    """Return the book in the format of this suffix. `which` stands at the end of the file's name,
    so that books of the same title have different names. Raises InvalidInput if there is no such
    format."""
    wanted = format_named(suffix, FORMATS)
    name = f"{file_stem(book.title)}{which}.{wanted.suffix}"
    return send_file(name, wanted.write(book), wanted.media_type)
