"""Says in the description of the API that an operation answers with a book."""

from typing import Any, Literal

from storyengine.books.formats import FORMATS

FormatName = Literal["docx", "epub", "md", "txt"]

_BINARY = {"schema": {"type": "string", "format": "binary"}}
BOOK_FILE: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The file.",
            "content": {one.media_type: _BINARY for one in FORMATS},
        }
    }
}
