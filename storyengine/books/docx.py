"""Writes a book as a document for Word and other word processors."""

from datetime import UTC, datetime
from io import BytesIO

from docx import Document
from docx.document import Document as WordDocument
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Pt
from docx.text.paragraph import Paragraph

from memory.prose.receipts.paragraphs import Kind
from sessions.language.languages import reads_from_right
from storyengine.books.book import Block, Book, begins_at_right, blocks_of, check_parts
from storyengine.web.prose import Span

# A property of a document has at most this many characters.
_LONGEST_PROPERTY = 255
_BREAK = "* * *"
# A document has a separate setting of the language for the letters of these languages.
_EAST_ASIAN = ("ja", "ko", "zh")
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
            # Without a style a paragraph is Normal. Setting a style takes a millisecond, which is
            # too long for a story with thousands of paragraphs.
            style = "Heading 2" if block.kind is Kind.HEADING else None
            _fill(document.add_paragraph(style=style), block)
    file = BytesIO()
    document.save(file)
    return file.getvalue()


def _describe(document: WordDocument, book: Book) -> None:
    properties = document.core_properties
    properties.title = book.title[:_LONGEST_PROPERTY]
    properties.author = properties.comments = ""
    # The template that python-docx begins with was made in 2013.
    properties.created = properties.modified = datetime.now(UTC)
    properties.language = book.language
    _set_language(document, book.language)
    normal = document.styles["Normal"]
    normal.font.size = Pt(12)
    normal.paragraph_format.line_spacing = 1.3


def _set_language(document: WordDocument, tag: str) -> None:
    """Let the word processor check the texts in this language, or not at all if it is ""."""
    [told] = document.styles.element.xpath("w:docDefaults//w:lang")
    told.attrib.clear()
    if tag:
        primary = tag.partition("-")[0]
        kind = "w:eastAsia" if primary in _EAST_ASIAN else "w:val"
        told.set(qn("w:bidi" if reads_from_right(tag) else kind), tag)


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
    from_right = begins_at_right("".join(span.text for span in line))
    if from_right:
        _turn(paragraph)
    for span in line:
        run = paragraph.add_run(span.text)
        if span.is_emphasised:
            run.italic = True
        if span.is_strong:
            run.bold = True
        if from_right:
            font = run.font
            font.rtl = True
            # For such letters, Word reads separate marks.
            font.cs_italic, font.cs_bold = run.italic, run.bold


def _turn(paragraph: Paragraph) -> None:
    """Let the paragraph be read from right to left."""
    properties = paragraph._p.get_or_add_pPr()
    if properties.find("{*}bidi") is None:
        properties.insert_element_before(OxmlElement("w:bidi"), *_AFTER_BIDI)
