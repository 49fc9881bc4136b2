"""Books as the answer of an operation."""

from typing import Any, Literal

from django.http import HttpResponse

from storyengine.books.book import Book
from storyengine.books.formats import FORMATS, format_named
from storyengine.web.files import file_stem, send_file

FormatName = Literal["docx", "epub", "md", "txt"]

_BINARY = {"schema": {"type": "string", "format": "binary"}}
# What the API's description says of an operation that answers with a book.
BOOK_FILE: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The file.",
            "content": {one.media_type: _BINARY for one in FORMATS},
        }
    }
}


def send_book(book: Book, suffix: FormatName) -> HttpResponse:
    wanted = format_named(suffix, FORMATS)
    name = f"{file_stem(book.title)}.{wanted.suffix}"
    return send_file(name, wanted.write(book), wanted.media_type)
