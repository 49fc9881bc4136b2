"""Folds the memory blocks of a chapter without a model.

For any two sequences of blocks `fold(a + b) == merge(fold(a), fold(b))`, even if blocks of `b`
refer to blocks of `a`. Therefore a fold keeps such references, for example the withdrawal of a fact
that only an earlier block states.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memory.blocks.blocks import counting_blocks, in_order, knows
from memory.blocks.same_names import key_of, mentions
from memory.fold.block_reading import read_block
from memory.fold.records import Block, Correction, Fold, Question, Record, Scene, Sighting
from memory.keeping import KeptRecent
from memory.models import MemoryBlock
from sessions.models import Session

RecordT = TypeVar("RecordT", bound=Record)
BlockT = TypeVar("BlockT")


@dataclass(frozen=True)
class _Known:
    """A fold, and the keys of the blocks that it was made from."""

    keys: tuple[uuid.UUID, ...] = ()
    fold: Fold = field(default_factory=Fold)


# A cache of folds. A key has three parts: the chapter's id, whether the fold reaches to the
# chapter's end, and the readers. The readers are None if each of them knows every block.
_Readers = frozenset[int]
_known: KeptRecent[tuple[uuid.UUID, bool, _Readers | None], _Known] = KeptRecent(4_096)


def fold(blocks: Iterable[Block]) -> Fold:
    """Fold the blocks. They must be given in the order in which they were written."""
    growing = _GrowingFold()
    for block in blocks:
        growing.add(read_block(block))
    return growing.fold()


def merge(earlier: Fold, later: Fold) -> Fold:
    growing = _GrowingFold()
    growing.add(earlier)
    growing.add(later)
    return growing.fold()


def fold_chapter(
    chapter: Session, *, before: int | None = None, readers: Collection[int] | None = None
) -> Fold:
    """Return the fold of the blocks that count. With `readers`, a block is included only if each of
    these readers knows it.

    `counting_blocks` says which blocks count, and explains `before`. Every request needs a fold,
    and blocks never change. So folds are cached, and new blocks are added to a cached fold.
    """
    blocks = list(counting_blocks(chapter, before=before).values_list("pk", "audience", "type"))
    known = [(pk, kind) for pk, audience, kind in blocks if knows(audience, readers)]
    keys = tuple(pk for pk, _ in _with_one_story_so_far(known, lambda one: one[1]))
    # All readers who know every block get the same fold from the cache.
    whose = None if readers is None or len(known) == len(blocks) else frozenset(readers)
    key = (chapter.pk, before is None, whose)
    kept = _known.get(key) or _Known()
    if kept.keys == keys:
        return kept.fold
    if keys[: len(kept.keys)] != kept.keys:
        # The blocks that count do not begin with the blocks of the cached fold. So the fold is made
        # anew, and not extended.
        kept = _Known()
    new = MemoryBlock.objects.in_bulk(keys[len(kept.keys) :])
    added = fold(block_of(new[pk]) for pk in keys[len(kept.keys) :])
    kept = _Known(keys, merge(kept.fold, added))
    _known.set(key, kept, size=1 + len(keys))
    return kept.fold


def fold_with(
    chapter: Session,
    waiting: Sequence[MemoryBlock],
    *,
    readers: Collection[int],
    before: int | None = None,
) -> Fold:
    """Return the fold of the blocks that each of these readers knows, with the `waiting` deltas
    added.

    The waiting deltas belong to one stretch. They are not stored yet.
    """
    blocks = counting_blocks(chapter, before=before)
    known = [one for one in blocks if knows(one.audience, readers)]
    told = _with_one_story_so_far(known, lambda one: one.type)
    return fold(map(block_of, in_order((*told, *waiting))))


def _with_one_story_so_far(
    blocks: Sequence[BlockT], kind_of: Callable[[BlockT], str]
) -> list[BlockT]:
    """Return the blocks with only the last block of the kind `story_so_far`. Each block of this
    kind tells all that its readers remember, and the last one was written for these readers."""
    so_far = [one for one in blocks if kind_of(one) == MemoryBlock.Type.STORY_SO_FAR]
    return [one for one in blocks if one not in so_far[:-1]]


def block_of(block: MemoryBlock) -> Block:
    return Block(block.type, block.from_prompt_index, block.to_prompt_index, block.json_payload)


class _GrowingFold:
    """A fold that can be changed in place. The frozen class Fold would have to be copied for every
    block."""

    def __init__(self) -> None:
        self._fold = Fold()
        self._truths = dict(self._fold.truths)
        self._threads = dict(self._fold.threads)
        self._values = dict(self._fold.values)
        self._ties = dict(self._fold.ties)
        self._things = dict(self._fold.things)
        self._people: dict[str, str] = {}
        self._cast: dict[str, str] = {}
        self._sightings: dict[str, Sighting] = {}
        self._questions: dict[str, Question] = {}
        self._moments = list(self._fold.moments)
        self._corrections: list[Correction] = []
        self._scene: Scene | None = None

    def add(self, later: Fold) -> None:
        # These two calls read the records of the earlier blocks. So they come before the calls of
        # `_join`, which change these records.
        self._settle(later.corrections)
        self._place(later.sightings)
        _join(self._truths, later.truths)
        _join(self._threads, later.threads)
        _join(self._values, later.values)
        _join(self._ties, later.ties)
        _join(self._things, later.things)
        _join(self._questions, later.questions)
        for key, name in later.people.items():
            self._people.setdefault(key, name)
        self._cast.update(later.cast)
        self._moments += later.moments
        self._corrections += later.corrections
        if later.scene:
            self._scene = self._scene.then(later.scene) if self._scene else later.scene
        if later.settings:
            self._fold = replace(self._fold, settings=later.settings)

    def fold(self) -> Fold:
        return replace(
            self._fold,
            cast=self._cast,
            scene=self._scene,
            truths=self._truths,
            threads=self._threads,
            values=self._values,
            ties=self._ties,
            things=self._things,
            people=self._people,
            sightings=self._sightings,
            questions=self._questions,
            moments=tuple(self._moments),
            corrections=tuple(self._corrections),
        )

    def _settle(self, corrections: Iterable[Correction]) -> None:
        """Settle earlier questions. A ruling settles the question that it answers, and every
        question that mentions the fact that it withdraws."""
        for ruling in corrections:
            answered, withdrawn = key_of(ruling.answers), key_of(ruling.replaces)
            for key, question in self._questions.items():
                if key == answered or (withdrawn and mentions(key, withdrawn)):
                    self._questions[key] = replace(question, is_settled=True)

    def _place(self, later: Mapping[str, Sighting]) -> None:
        place = self._scene.place if self._scene else ""
        for key, sighting in later.items():
            if earlier := self._sightings.get(key):
                self._sightings[key] = earlier.then(sighting, place)
            else:
                self._sightings[key] = (
                    sighting if sighting.place else replace(sighting, place=place)
                )


def _join(earlier: dict[str, RecordT], later: Mapping[str, RecordT]) -> None:
    for key, record in later.items():
        earlier[key] = earlier[key].then(record) if key in earlier else record
