"""Reads books again, as word processors and readers of books do."""

import re
import zipfile
from io import BytesIO
from xml.etree import ElementTree

from docx import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH
from markdown_it import MarkdownIt
from markdown_it.token import Token

from memory.prose.receipts.paragraphs import Kind
from storyengine.books.book import Book, blocks_of

_XHTML = "{http://www.w3.org/1999/xhtml}"
_OF_BLOCKS = {f"{_XHTML}{name}" for name in ("h1", "h2", "p")}
# What Markdown may be read as, beside words. All else would be a sign that no text means.
_KNOWN = {"hr", "heading_open", "heading_close", "paragraph_open", "paragraph_close"}


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
    """Return the lines of all paragraphs. Breaks, which alone stand in the middle, are left out."""
    paragraphs = Document(BytesIO(content)).paragraphs
    told = [one.text for one in paragraphs if one.alignment != WD_ALIGN_PARAGRAPH.CENTER]
    return "\n".join(told).split("\n")


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
                    if block.tag in _OF_BLOCKS:
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
    """Return the lines of the text, as a reader of Markdown shows them."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    lines: list[str] = []
    for token in reader.parse(content.decode()):
        if token.type == "inline":
            lines += "".join(map(_shown, token.children or ())).split("\n")
        else:
            assert token.type in _KNOWN, token
    return lines


def _shown(token: Token) -> str:
    return "\n" if token.type == "hardbreak" else token.content
