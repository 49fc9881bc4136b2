"""Writes a book as a document for Word and other word processors."""

import unicodedata
from io import BytesIO

from docx import Document
from docx.document import Document as WordDocument
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import OxmlElement
from docx.shared import Pt
from docx.text.paragraph import Paragraph

from memory.receipts.paragraphs import Kind
from storyengine.books.book import Block, Book, blocks_of, check_parts
from storyengine.web.prose import Span

# The most characters that a property of a document may have.
_LONGEST_PROPERTY = 255
_BREAK = "* * *"
# The elements that follow `bidi` in the properties of a paragraph.
_AFTER_BIDI = (
    *("w:adjustRightInd", "w:snapToGrid", "w:spacing", "w:ind", "w:contextualSpacing"),
    *("w:mirrorIndents", "w:suppressOverlap", "w:jc", "w:textDirection", "w:textAlignment"),
    *("w:textboxTightWrap", "w:outlineLvl", "w:divId", "w:cnfStyle", "w:rPr", "w:sectPr"),
    "w:pPrChange",
)


def write_docx(book: Book) -> bytes:
    check_parts(book)
    document = Document()
    _describe(document, book)
    _add_line(document.add_paragraph(style="Title"), (Span(book.title),))
    if book.cast:
        _add_line(document.add_paragraph(style="Subtitle"), (Span(book.cast_line),))
    for chapter in book.chapters:
        if book.names_chapters:
            paragraph = document.add_paragraph(style="Heading 1")
            paragraph.paragraph_format.page_break_before = True
            _add_line(paragraph, (Span(chapter.title),))
        for block in blocks_of(chapter.text):
            # Without a style a paragraph is Normal. To name a style takes a millisecond, which a
            # story with thousands of paragraphs would feel.
            style = "Heading 2" if block.kind is Kind.HEADING else None
            _fill(document.add_paragraph(style=style), block)
    file = BytesIO()
    document.save(file)
    return file.getvalue()


def _describe(document: WordDocument, book: Book) -> None:
    properties = document.core_properties
    properties.title = book.title[:_LONGEST_PROPERTY]
    properties.author = properties.comments = ""
    normal = document.styles["Normal"]
    normal.font.size = Pt(12)
    normal.paragraph_format.line_spacing = 1.3


def _fill(paragraph: Paragraph, block: Block) -> None:
    if block.kind is Kind.BREAK:
        paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
        paragraph.add_run(_BREAK)
        return
    for number, line in enumerate(block.lines):
        if number:
            paragraph.add_run().add_break()
        _add_line(paragraph, line)


def _add_line(paragraph: Paragraph, line: tuple[Span, ...]) -> None:
    from_right = _reads_from_right("".join(span.text for span in line))
    if from_right:
        _turn(paragraph)
    for span in line:
        run = paragraph.add_run(span.text)
        if span.is_emphasised:
            run.italic = True
        if span.is_strong:
            run.bold = True
        if from_right:
            run.font.rtl = True


def _turn(paragraph: Paragraph) -> None:
    """Have the paragraph begin at the right."""
    properties = paragraph._p.get_or_add_pPr()
    if properties.find("{*}bidi") is None:
        properties.insert_element_before(OxmlElement("w:bidi"), *_AFTER_BIDI)


def _reads_from_right(text: str) -> bool:
    """Return whether the first letter with a direction is of a script that is read from the right,
    as browsers decide it."""
    directions = (unicodedata.bidirectional(sign) for sign in text)
    return next((one for one in directions if one in ("L", "R", "AL")), "L") != "L"
