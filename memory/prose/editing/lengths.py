"""Limits the drafts that can be edited, or compared with each other."""

from memory.models import NarrativeDraft
from memory.prose.receipts.paragraphs import split_paragraphs
from sessions.exceptions import TooLong
from sessions.limits import DRAFT_CHAR_LIMIT, DRAFT_PARAGRAPH_LIMIT

_INSTEAD = "Nothing was changed; download it, and use a program for texts."


def check_length(draft: NarrativeDraft) -> None:
    """Raise TooLong if the draft is too long to be edited or compared. No draft that the narrator
    writes is nearly so long, but a draft from a file may be."""
    if len(draft.chapter_text) > DRAFT_CHAR_LIMIT:
        raise TooLong(
            f"This draft has {len(draft.chapter_text):,} characters. A draft of at most "
            f"{DRAFT_CHAR_LIMIT:,} can be edited or compared here. {_INSTEAD}"
        )
    check_paragraphs(draft.chapter_text, "This draft", _INSTEAD)


def check_paragraphs(text: str, label: str, advice: str) -> None:
    """Raise TooLong if the text has too many paragraphs."""
    count = len(split_paragraphs(text))
    if count > DRAFT_PARAGRAPH_LIMIT:
        raise TooLong(
            f"{label} has {count:,} paragraphs; at most {DRAFT_PARAGRAPH_LIMIT:,} are possible "
            f"here. {advice}"
        )
