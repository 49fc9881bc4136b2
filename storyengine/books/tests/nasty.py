"""Texts that a careless writer of files would break on, and books made of them."""

import uuid

from storyengine.books.book import Book, make_book

BOOK_ID = uuid.UUID("6fa459ea-ee8a-3ca4-894e-db77e160355e")
TEXTS = (
    "Salt & Pepper",
    "</p></body> <b>bold</b> <br> <!-- -- > ]]> <?x?> <!DOCTYPE x>",
    "&amp; &lt; &nbsp; &#0; &bogus; &",
    "\"double\" 'single' “curled” `ticks` ``` ~~~ ~~struck~~",
    "null\x00 bell\x07 escape\x1b[31m tab\there vertical\x0btab",
    "form\x0cfeed delete\x7f next\x85line",
    "lone \ud800 surrogates \udfff, no characters \ufffe \uffff \U0001fffe",
    "\u200f\u202eright to left\u202c \u2066isolated\u2069 \u200e \u202e never closed",
    "שלום עולם, said *Dora* & left",
    "مرحبا <بك> **اليوم**",
    "👩‍👩‍👧‍👦 🏳️‍🌈 and *🕯️*",
    "漢字かな交じり文。「*はい*」",
    "e\u0301\u0302\u0303\u0304 \ufeffmark \u00a0 \u200b \u00ad",
    "separators\u2028of\u2029lines\rof\r\nolder\nmachines",
    "{{ title }} {% raw %} {0} %s $x ${y}",
    "C:\\path\\*name* [link](javascript:x) ![picture](y) [a]: /url",
    "[a]: /url 'title'",
    "snake_case 2 * 3 * 4 *em* **strong** ***both*** _em_ *“No!”*, **(x)**",
    "# A heading & <i>its</i> *words* ##",
    "A line\n## A heading below\nand one more\n* * *\nline",
    "Heading\n===\nOther\n---\na | b\n:-- | --",
    "- item\n+ item\n* item\n1. one\n2) two\n> quoted\n    four blanks\n\ttab",
    "The # ends with #",
    "#",
    "\\",
    "ends with\\",
    "* * *",
    "Untitled",
    "x" * 20_000,
    "word " * 4_000,
    "**" * 500 + "a_" * 500,
)


def nasty_story() -> Book:
    """A story in which every text is a title, a name and the prose of a chapter, and which has an
    empty chapter."""
    chapters = [(text[:120], f"{text}\n\n{text}\n\n\n***\n{text}") for text in TEXTS]
    title = "".join(text[:40] for text in TEXTS[:8])
    cast = [text[:60] for text in TEXTS]
    return make_book(BOOK_ID, title, cast=cast, chapters=[*chapters, ("Empty", "")])


def nasty_chapter(text: str) -> Book:
    """A chapter alone, in which the text is everything."""
    return make_book(BOOK_ID, text, cast=[text], chapters=[(text, text)])
