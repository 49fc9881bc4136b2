"""Builds the payloads of rulings."""

from enum import StrEnum
from typing import Any

MEMORY_TYPE = "canon_correction"


class Answer(StrEnum):
    """The Game Master's answer to a contradiction that agent 8 reports."""

    KEEP = "keep"
    TAKE_NEW = "take_new"
    IGNORE = "ignore"


def correction_payload(*, replaces: str = "", canon: str = "", reason: str = "") -> dict[str, Any]:
    """Return the payload of a ruling about a fact.

    `replaces` is the old fact in memory's words, or "" for a new fact. `canon` is the fact that is
    true instead, or "" to withdraw the old fact.
    """
    return {"memory_type": MEMORY_TYPE, "replaces": replaces, "canon": canon, "reason": reason}


def answer_payload(
    question: str, answer: Answer, *, old: str = "", new: str = "", reason: str = ""
) -> dict[str, Any]:
    """Return the payload of a ruling that answers a question.

    `old` and `new` are the two facts, or "" if the Game Master does not name them. The answer makes
    one of them canon and withdraws the other. If no facts are named, or for `Answer.IGNORE`, the
    question is settled and no fact changes.
    """
    stands, goes = {
        Answer.KEEP: (old, new),
        Answer.TAKE_NEW: (new, old),
        Answer.IGNORE: ("", ""),
    }[answer]
    payload = correction_payload(replaces=goes, canon=stands, reason=reason)
    return {**payload, "answers": question, "answer": answer.value}
