"""Follows a reader back into the chapters before."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

from memory.blocks.blocks import knows
from memory.blocks.stretches import Audience
from memory.models import MemoryBlock
from memory.recall.questions import Reader
from sessions.chapter.people import follow_people
from sessions.models import Session

# At most this many chapters before the present one are read.
MOST_CHAPTERS = 100


def readers_before(reader: Reader) -> Iterator[Reader]:
    """Yield the same reader in each of the earlier chapters, beginning with the latest one.

    The chapters are those that the reader's chapter came from, even if forks of them are the chosen
    chapters. A person reads as the same person, whatever the slot. A chapter in which one of the
    readers took no part is left out, and the way back ends at a chapter that was deleted.
    """
    way = list(_way_back(reader.chapter, reader.readers))
    if not way:
        return
    rulings = _rulings([(reader.chapter, reader.readers), *way])
    later: list[MemoryBlock] = list(rulings.get(reader.chapter.pk, ()))
    for chapter, readers in way:
        yield replace(
            reader,
            chapter=chapter,
            readers=readers,
            until=None,
            before=None,
            later_rulings=tuple(later),
        )
        later = [*rulings.get(chapter.pk, ()), *later]


def _way_back(
    chapter: Session, readers: Audience | None
) -> Iterator[tuple[Session, Audience | None]]:
    chapters = chapters_followed(chapter)
    if not readers:
        yield from ((before, readers) for before in chapters)
        return
    for before, numbers in follow_people(chapter, chapters):
        if set(readers) <= numbers.keys():
            yield before, tuple(sorted(numbers[number] for number in readers))


def chapters_followed(chapter: Session) -> list[Session]:
    """Return the chapter that this chapter follows, then the chapter before that, and so on, up to
    the first chapter or to one that was deleted."""
    if chapter.follows_id is None:
        return []
    earlier = Session.objects.filter(story=chapter.story_id, place__lt=chapter.place)
    follows = dict(earlier.order_by().values_list("pk", "follows"))
    way: list[uuid.UUID] = []
    key: uuid.UUID | None = chapter.follows_id
    while key in follows and key not in way and len(way) < MOST_CHAPTERS:
        way.append(key)
        key = follows[key]
    found = Session.objects.prefetch_related("members").in_bulk(way)
    return [found[key] for key in way if key in found]


def _rulings(way: list[tuple[Session, Audience | None]]) -> dict[object, list[MemoryBlock]]:
    """Return, for each of these chapters, the rulings that its readers know, in order."""
    by_chapter = {chapter.pk: readers for chapter, readers in way}
    found: dict[object, list[MemoryBlock]] = {}
    rulings = MemoryBlock.objects.filter(
        session__in=by_chapter, type=MemoryBlock.Type.CANON_CORRECTION
    )
    for one in rulings.order_by("to_prompt_index", "created_at", "pk"):
        if knows(one.audience, by_chapter[one.session_id]):
            found.setdefault(one.session_id, []).append(one)
    return found
