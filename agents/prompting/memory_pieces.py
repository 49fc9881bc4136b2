"""Makes the pieces of memory in a request, and keeps them until memory changes."""

import uuid
from dataclasses import dataclass
from functools import cached_property, lru_cache

from agents.prompting.layers import Piece, Pieces
from agents.prompting.sandwich import Subject
from memory.fold.records import Fold
from memory.keeping import KeptRecent
from memory.stretches import Audience
from memory.telling.prompt_memory import told_lock
from memory.telling.session_state import Detail, StateLine, memory_lines
from sessions.roster import Character


def memory_pieces(
    subject: Subject,
    detail: Detail,
    folded: Fold,
    *,
    reader: str | None,
    tag: str,
    told_before: int | None = None,
) -> Pieces:
    """Return memory as pieces, in an element `tag`, for the character with the name `reader`, or
    for an agent who is told everything if the name is None.

    Events and deeds of the prompts from `told_before` on are left out.
    """
    chapter, key = subject.chapter, (subject.chapter.pk, subject.whose)
    lock = told_lock(chapter) if detail is Detail.FULL else ""
    known = _Memory(folded, subject.everybody, detail, lock, tag, told_before)
    kept = _kept_memory.get(key)
    if kept is None or not kept.is_like(known):
        kept = known
        _kept_memory.set(key, kept, size=1 + len(folded.moments))
    return kept.pieces(reader)


@dataclass(frozen=True)
class _Memory:
    """The memory of a chapter, which stays the same until the next summary or ruling."""

    folded: Fold
    cast: tuple[Character, ...]
    detail: Detail
    lock: str
    tag: str
    told_before: int | None

    def is_like(self, other: "_Memory") -> bool:
        """Return whether this memory and `other` have the same pieces. The folds are compared only
        by identity, which is quick, because an unchanged fold is the same object."""
        return self.folded is other.folded and (
            self.cast,
            self.detail,
            self.lock,
            self.tag,
            self.told_before,
        ) == (other.cast, other.detail, other.lock, other.tag, other.told_before)

    @cached_property
    def lines(self) -> list[StateLine]:
        return memory_lines(
            self.folded,
            [one for one in self.cast if one.slot],
            detail=self.detail,
            beside_lock=bool(self.lock),
            told_before=self.told_before,
        )

    def pieces(self, reader: str | None) -> Pieces:
        """Return the pieces for the character with this name, or for an agent who is told
        everything if the name is None."""
        if reader not in self._by_reader:
            intents = (at for at, line in enumerate(self.lines) if line.is_more_for(reader))
            own = {
                at + self._before: _line_piece(self.lines[at], with_intent=True) for at in intents
            }
            self._by_reader[reader] = self._for_others.with_others(own)
        return self._by_reader[reader]

    @cached_property
    def _by_reader(self) -> dict[str | None, Pieces]:
        return {}

    @property
    def _before(self) -> int:
        """The number of pieces before the lines."""
        return 2 if self.lock else 1

    @cached_property
    def _for_others(self) -> Pieces:
        """The pieces for a character who did no deed."""
        lock = [Piece(self.lock, must_stay=True)] if self.lock else []
        if not self.lines:
            return Pieces(lock)
        return Pieces(
            [
                *lock,
                Piece(f"<{self.tag}>", must_stay=True, has_elements=True),
                *map(_line_piece, self.lines),
                Piece(f"</{self.tag}>", must_stay=True, has_elements=True),
            ]
        )


# Pieces are cached with their weights, because a summary changes few lines of a long chapter.
@lru_cache(maxsize=16_384)
def _line_piece(line: StateLine, *, with_intent: bool = False) -> Piece:
    return Piece(
        line.with_intent if with_intent else line.text,
        rank=line.rank,
        has_elements=True,
        block=line.block,
        place=line.place,
        heads=line.heads,
    )


# The cache of memory for each chapter and reader. The limit of the cache counts the lines of
# timelines, because a long chapter has many of them.
_kept_memory: KeptRecent[tuple[uuid.UUID, Audience | None], _Memory] = KeptRecent(16_384)
