"""Tells the place and time of each turn, as memory has them."""

import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from memory.blocks.blocks import counting_blocks, knows
from memory.fold.block_reading import read_block
from memory.fold.folding import block_of
from memory.fold.records import Fold
from memory.keeping import KeptRecent
from memory.models import MemoryBlock
from memory.recall.memory_terms import count_terms
from memory.recall.questions import Question, Reader
from memory.recall.ranking import Field
from memory.recall.record_terms import Record
from sessions.models import Session

# The keys of the states that tell the time of a scene.
_TIMES = frozenset({"time", "date", "day", "time of day", "hour", "season"})
_TELLING = (MemoryBlock.Type.WORLD_CHAPTER_LOCK, MemoryBlock.Type.TURN_DELTA)


@dataclass(frozen=True)
class _Told:
    """The place and the time of a block's turns, as the block tells them."""

    place: str
    time: str


# The cache of these places and times. Blocks never change, and every search needs all of them.
_kept: KeptRecent[uuid.UUID, _Told] = KeptRecent(16_384)


def places_of_turns(
    chapter: Session, *, before: int | None = None, readers: Collection[int] | None = None
) -> Iterator[tuple[int, int, str]]:
    """Yield the first and the last turn of each stretch, with the place and the time there. With
    `readers`, only blocks that each of these readers knows are used.

    A stretch that names no place has the place of the stretch before. The turns that memory does
    not cover yet are left out. `counting_blocks` explains `before`.
    """
    blocks = list(
        counting_blocks(chapter, before=before)
        .filter(type__in=_TELLING)
        .values_list("pk", "audience", "from_prompt_index", "to_prompt_index")
    )
    known = [block for block in blocks if knows(block[1], readers)]
    told = _read([block[0] for block in known])
    place = time = ""
    for block_id, _, first, last in known:
        place, time = told[block_id].place or place, told[block_id].time or time
        if last and (place or time):
            yield first, last, f"{place} {time}"


def read_places(reader: Reader, asked: Question, record: Record) -> Field:
    """Return the places and times of the turns that the reader witnessed."""
    before = None if reader.until is None else reader.until + 1
    places = Field()
    told = places_of_turns(reader.chapter, before=before, readers=reader.readers)
    for first, last, text in told:
        counts = count_terms(text, record.language)
        length, found = counts.total(), asked.words_in(record.language, counts)
        for number in range(first, last + 1):
            if number in record.turns.lengths:
                places.add(number, length, found)
    return places


def _read(block_ids: list[uuid.UUID]) -> dict[uuid.UUID, _Told]:
    found = {block_id: _kept.get(block_id) for block_id in block_ids}
    missing = [block_id for block_id, told in found.items() if told is None]
    for at in range(0, len(missing), 500):
        for block in MemoryBlock.objects.filter(pk__in=missing[at : at + 500]):
            told = _told_by(block)
            found[block.pk] = told
            _kept.set(block.pk, told)
    return {block_id: one or _Told("", "") for block_id, one in found.items()}


def _told_by(block: MemoryBlock) -> _Told:
    fold = read_block(block_of(block))
    scene = fold.scene
    visits = scene.told if scene else ()
    place = " ".join(text for visit in visits for text in (visit.place, *visit.around) if text)
    return _Told(place, " ".join(_times(fold)))


def _times(fold: Fold) -> Iterator[str]:
    for setting in fold.settings:
        if setting.label == "Time":
            yield from setting.texts
    yield from (value.value for key, value in fold.values.items() if key in _TIMES)
