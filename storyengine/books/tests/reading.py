"""Reads books again, as word processors and readers of books do."""

import re
import zipfile
from io import BytesIO
from xml.etree import ElementTree

from docx import Document
from markdown_it import MarkdownIt

from memory.receipts.paragraphs import Kind
from storyengine.books.book import Book, blocks_of

_XHTML = "{http://www.w3.org/1999/xhtml}"
_OF_BLOCKS = {f"{_XHTML}{name}" for name in ("h1", "h2", "p", "hr")}


def lines_of(book: Book) -> list[str]:
    """Return the lines that a reader of the book sees, without breaks between scenes."""
    lines = [book.title, book.cast_line] if book.cast else [book.title]
    for chapter in book.chapters:
        lines += [chapter.title] if book.names_chapters else []
        for block in blocks_of(chapter.text):
            if block.kind is not Kind.BREAK:
                lines += ["".join(span.text for span in line) for line in block.lines]
    return lines


def lines_in_docx(content: bytes) -> list[str]:
    document = Document(BytesIO(content))
    paragraphs = [one.text for one in document.paragraphs if one.text != "* * *"]
    return "\n".join(paragraphs).split("\n")


def lines_in_epub(content: bytes) -> list[str]:
    """Return the lines of all pages, in order. Each part of the file is read as strict XML."""
    lines: list[str] = []
    with zipfile.ZipFile(BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith((".xhtml", ".opf", ".ncx", ".xml")):
                continue
            tree = ElementTree.fromstring(archive.read(name))  # noqa: S314 (we wrote it)
            if re.search(r"/page\d+\.xhtml", name):
                for block in tree.iter():
                    if block.tag in _OF_BLOCKS and block.tag != f"{_XHTML}hr":
                        lines += _text(block).split("\n")
    return lines


def titles_in_epub(content: bytes) -> list[str]:
    """Return the titles of the contents, as readers of books list them."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        tree = ElementTree.fromstring(archive.read("EPUB/toc.xhtml"))  # noqa: S314 (we wrote it)
    return [_text(one) for one in tree.iter(f"{_XHTML}a")]


def _text(block: ElementTree.Element) -> str:
    parts = [block.text or ""]
    for child in block:
        parts += ["\n" if child.tag == f"{_XHTML}br" else _text(child), child.tail or ""]
    return "".join(parts)


def lines_in_markdown(content: bytes) -> list[str]:
    """Return the lines of the text, as a reader of CommonMark shows them."""
    lines: list[str] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(content.decode()):
        if token.type == "inline":
            shown = [
                {"text": one.content, "hardbreak": "\n"}.get(one.type, one.content if not one.tag else "")
                for one in token.children or ()
            ]
            lines += "".join(shown).split("\n")
        else:
            assert token.type in _KNOWN, token
    return lines


_KNOWN = {"hr", "heading_open", "heading_close", "paragraph_open", "paragraph_close"}
