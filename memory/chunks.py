"""Which prompts a memory delta covers, and which prompts stay in a character's view.

A stretch has as many prompts as the chapter says (`chunk_size_prompts`), counted from the summary
pointer on; at End Chapter the rest is one.
"""

import math
from dataclasses import dataclass

from sessions.models import Session

# Play leaves one behind now and then, and a failure one more. More are written only once the GM has
# accepted as many calls.
CHUNKS_UNASKED = 2


@dataclass(frozen=True)
class Chunk:
    """Prompts `first` to `last`, both included."""

    first: int
    last: int

    def is_whole(self, chapter: Session) -> bool:
        """The rest at the end of a chapter is shorter."""
        return self.last - self.first + 1 == chapter.chunk_size_prompts


def due_chunks(chapter: Session, *, is_ending: bool) -> list[Chunk]:
    """The chunks that memory does not cover yet, in order."""
    chunks, size = [], chapter.chunk_size_prompts
    first = chapter.last_summarized_prompt_index + 1
    while (last := first + size - 1) <= chapter.prompt_index:
        chunks.append(Chunk(first, last))
        first = last + 1
    if is_ending and first <= chapter.prompt_index:
        chunks.append(Chunk(first, chapter.prompt_index))
    return chunks


def chunks_to_accept(chapter: Session, *, is_ending: bool) -> list[Chunk]:
    """All that memory does not cover, where the GM has to accept so many calls first; else none."""
    chunks = due_chunks(chapter, is_ending=is_ending)
    return chunks if len(chunks) > chapter.accepted_calls + CHUNKS_UNASKED else []


@dataclass(frozen=True)
class CatchingUp:
    """How many of a chapter's chunks are written, while the calls for the others are accepted."""

    written: int
    count: int


def catching_up(chapter: Session) -> CatchingUp | None:
    """None where memory is not behind, or nobody has accepted any calls."""
    due = len(due_chunks(chapter, is_ending=chapter.is_ending))
    if not (due and chapter.accepted_calls):
        return None
    written = math.ceil(chapter.last_summarized_prompt_index / chapter.chunk_size_prompts)
    return CatchingUp(written, written + due)


def recent_context_start(last_prompt: int, pointer: int, size: int, *, chunks: int = 1) -> int:
    """The first prompt of a character's recent context; memory covers the prompts up to `pointer`.

    A chunk boundary, counted from the pointer, at or before the last `size` prompts (a chunk) and
    before whatever memory does not cover, so that within a chunk the context only grows at its end
    (prefix caches reward that). With more `chunks` it moves on by so many at once, and as much more
    seldom.
    """
    before = max(0, min(last_prompt - size, pointer))
    step, offset = size * chunks, pointer % size
    return max(0, (before - offset) // step * step + offset) + 1
