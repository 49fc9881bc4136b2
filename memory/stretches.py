"""Which prompts a memory delta covers, and which prompts stay in a character's view.

A stretch has seven prompts (specification, section 2), counted from the summary pointer on; at End
Chapter the rest is one.
"""

import math
from dataclasses import dataclass

from sessions.limits import CHUNK_SIZE_PROMPTS
from sessions.models import Session

# Play leaves one behind now and then, and a failure one more. More are written only once the GM has
# accepted as many calls.
STRETCHES_UNASKED = 2


@dataclass(frozen=True)
class Stretch:
    """Prompts `first` to `last`, both included."""

    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """The rest at the end of a chapter is shorter."""
        return self.last - self.first + 1 == CHUNK_SIZE_PROMPTS


def due_stretches(chapter: Session, *, is_ending: bool) -> list[Stretch]:
    """The stretches that memory does not cover yet, in order."""
    stretches = []
    first = chapter.last_summarized_prompt_index + 1
    while (last := first + CHUNK_SIZE_PROMPTS - 1) <= chapter.prompt_index:
        stretches.append(Stretch(first, last))
        first = last + 1
    if is_ending and first <= chapter.prompt_index:
        stretches.append(Stretch(first, chapter.prompt_index))
    return stretches


def stretches_to_accept(chapter: Session, *, is_ending: bool) -> list[Stretch]:
    """All that memory does not cover, where the GM has to accept so many calls first; else none."""
    stretches = due_stretches(chapter, is_ending=is_ending)
    return stretches if len(stretches) > chapter.accepted_calls + STRETCHES_UNASKED else []


@dataclass(frozen=True)
class CatchingUp:
    """How many of a chapter's stretches are written, while the calls for the others are accepted."""

    written: int
    count: int


def catching_up(chapter: Session) -> CatchingUp | None:
    """None where memory is not behind, or nobody has accepted any calls."""
    due = len(due_stretches(chapter, is_ending=chapter.is_ending))
    if not (due and chapter.accepted_calls):
        return None
    written = math.ceil(chapter.last_summarized_prompt_index / CHUNK_SIZE_PROMPTS)
    return CatchingUp(written, written + due)


def recent_context_start(last_prompt: int, pointer: int, *, stretches: int = 1) -> int:
    """The first prompt of a character's recent context; memory covers the prompts up to `pointer`.

    The first prompt of a stretch, at or before the last seven prompts and before whatever memory does not
    cover, so that within a stretch the context only grows at its end (prefix caches reward that).
    With more `stretches` it moves on by so many at once, and as much more seldom.
    """
    last_seven = last_prompt - CHUNK_SIZE_PROMPTS + 1
    uncovered = pointer + 1
    step = CHUNK_SIZE_PROMPTS * stretches
    return (max(1, min(last_seven, uncovered)) - 1) // step * step + 1
