"""Writes a book as Markdown (CommonMark).

Signs in a text are escaped, so that a reader sees the same words as on the pages. Only headings,
breaks and emphasised words of prose become Markdown.
"""

import re
from collections.abc import Iterable

from memory.prose.receipts.paragraphs import Kind
from storyengine.books.book import Block, Book, blocks_of
from storyengine.web.prose import Span

# The signs that mean something wherever they stand, the last two only in front of the text that
# they begin.
_SIGNS = re.compile(r"[\\`*_\[~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
# Signs at the beginning of a line that begin a heading, a list, a quotation or a table, or that
# make a heading of the line above.
_BEGINNING = re.compile(r"([0-9]{1,9})([.)])(?=\s|\Z)|[#+=:>|-]")
_CLOSING = re.compile(r"#+\Z")
_BREAK = "* * *"
# Two blanks at the end of a line stand for a line break.
_LINE_BREAK = "  \n"
BETWEEN = "\n\n"


def write_markdown(book: Book) -> bytes:
    parts = [f"# {as_title(book.title)}"]
    if book.cast:
        parts.append(f"*{as_words(book.cast_line)}*")
    level = "###" if book.names_chapters else "##"
    for chapter in book.chapters:
        if book.names_chapters:
            parts.append(f"## {as_title(chapter.title)}")
        parts.extend(_block(block, level) for block in blocks_of(chapter.text))
    return joined(parts)


def as_title(line: str) -> str:
    return _in_heading(as_words(line))


def as_words(text: str) -> str:
    return _SIGNS.sub(_with_backslash, text)


def as_lines(lines: Iterable[Iterable[Span]]) -> str:
    return _LINE_BREAK.join(_line(spans) for spans in lines)


def joined(parts: Iterable[str]) -> bytes:
    return (BETWEEN.join(parts) + "\n").encode()


def _block(block: Block, level: str) -> str:
    if block.kind is Kind.BREAK:
        return _BREAK
    if block.kind is Kind.HEADING:
        return f"{level} {_in_heading(''.join(map(_span, block.lines[0])))}"
    return as_lines(block.lines)


def _line(spans: Iterable[Span]) -> str:
    return _safe_beginning("".join(map(_span, spans)).strip())


def _span(span: Span) -> str:
    marks = "*" * span.marks
    return f"{marks}{as_words(span.text)}{marks}"


def _in_heading(words: str) -> str:
    """Return the words with a backslash before the signs that would only close the heading."""
    return _CLOSING.sub(r"\\\g<0>", words)


def _safe_beginning(line: str) -> str:
    """Return the line with a backslash before signs that would make it a heading or an item of a
    list."""
    return _BEGINNING.sub(_beginning, line, count=1) if _BEGINNING.match(line) else line


def _beginning(found: re.Match[str]) -> str:
    return f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[0]}"


def _with_backslash(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
