"""The payloads of canon corrections, as a page or the API stores them in blocks of their own."""

from enum import StrEnum
from typing import Any

MEMORY_TYPE = "canon_correction"


class Answer(StrEnum):
    """What the game master says to a contradiction that agent 8 reports."""

    KEEP = "keep"
    TAKE_NEW = "take_new"
    IGNORE = "ignore"


def correction_payload(*, replaces: str = "", canon: str = "", reason: str = "") -> dict[str, Any]:
    """`replaces` is a fact as memory words it; empty for a new one. `canon` is what is true
    instead; empty to withdraw the old fact."""
    return {"memory_type": MEMORY_TYPE, "replaces": replaces, "canon": canon, "reason": reason}


def answer_payload(
    question: str, answer: Answer, *, old: str = "", new: str = "", reason: str = ""
) -> dict[str, Any]:
    """The same block with what it answers.

    `old` and `new` are the two facts where the game master names them: the one that stands
    becomes canon, the other is withdrawn. Without them, and for `Answer.IGNORE`, the question
    is settled and no fact changes.
    """
    stands, goes = {
        Answer.KEEP: (old, new),
        Answer.TAKE_NEW: (new, old),
        Answer.IGNORE: ("", ""),
    }[answer]
    payload = correction_payload(replaces=goes, canon=stands, reason=reason)
    return {**payload, "answers": question, "answer": answer.value}
