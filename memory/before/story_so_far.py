"""Writes the memory that a chapter has of the chapter before, without a model.

At the lock of a chapter, or at its beginning if it has no lock, the program writes blocks of the
prompts 0 to 0 from the memory of the chapter before. Nobody takes along what they did not witness.
One block is for everybody and has the facts that everybody knew. Each person who remembers more
gets a block of their own, and people who know the same share one. A person who is new in this
chapter has no origin, and gets only the block for everybody. The last block has no readers among
the characters: it has all that the narrator and agent 8 know. Each block is complete, and of the
blocks that a reader knows only the last one counts (see memory.fold.folding). So no reader finds
outdated values in an earlier block.
"""

import uuid
from collections.abc import Iterator
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from memory.before.changes_before import can_renew, state_before
from memory.before.handed_on import Payload, what_holds
from memory.blocks.blocks import counting_blocks, knows
from memory.blocks.same_names import key_of
from memory.fold.folding import block_of, fold, fold_chapter, merge
from memory.fold.records import Block, Fold
from memory.models import MemoryBlock
from memory.recall.chapters_before import chapters_followed
from sessions.chapter.access import get_chapter, get_chapter_in_locked_story, tell_readers_apart
from sessions.chapter.people import follow_people, members_by_number, numbers_before
from sessions.chapter.stories import chapter_before
from sessions.exceptions import WrongState
from sessions.models import Session

HAS_BEGUN = (
    "The first prompt of this chapter was sent already, so what its people remember stays as it "
    "is. Nothing was changed."
)
NONE_BEFORE = (
    "There is no chapter before this one any more, so what its people remember stays as it is. "
    "Bring that chapter back first, or play on without it."
)


def write_story_so_far(chapter: Session) -> list[MemoryBlock]:
    """Store the blocks, if this chapter has a chapter before it in the story and that chapter has
    any memory."""
    before = chapter_before(chapter)
    if before is None:
        return []
    _follow(chapter, before)
    if not before.memory_blocks.exists():
        return []
    now = timezone.now()
    blocks = [
        MemoryBlock(
            session=chapter,
            type=MemoryBlock.Type.STORY_SO_FAR,
            from_prompt_index=0,
            to_prompt_index=0,
            audience=audience,
            json_payload={"memory_type": "story_so_far", "chapter": before.title, **payload},
            # Blocks of the same prompt are read in the order of their times.
            created_at=now + timedelta(microseconds=number),
        )
        for number, (audience, payload) in enumerate(_handed_on(before, chapter), 1)
    ]
    for block in blocks:
        tell_readers_apart(chapter, block.audience or [])
    return MemoryBlock.objects.bulk_create(blocks)


@transaction.atomic
def renew_story_so_far(session_id: uuid.UUID) -> Session:
    """Write the blocks anew from the chapter before as it is now. Raises UnknownChapter, and
    WrongState if play has begun or if there is no chapter before any more."""
    chapter = get_chapter_in_locked_story(session_id)
    if chapter_before(chapter) is None:
        raise WrongState(NONE_BEFORE)
    if not can_renew(chapter):
        raise WrongState(HAS_BEGUN)
    rewrite_story_so_far(get_chapter(session_id))
    return get_chapter(session_id)


def rewrite_story_so_far(chapter: Session) -> None:
    """Write the blocks anew. Play must not have begun, and the caller has to lock the chapter."""
    chapter.memory_blocks.filter(type=MemoryBlock.Type.STORY_SO_FAR).delete()
    # Processes cache composed requests. A new `updated_at` makes them compose the requests anew.
    Session.objects.filter(pk=chapter.pk).update(differs_by_reader=False, updated_at=timezone.now())
    chapter.differs_by_reader = False
    write_story_so_far(chapter)


@transaction.atomic
def keep_story_so_far(session_id: uuid.UUID) -> Session:
    """Take note of the changes of the chapter before, so that they are not announced any more. What
    the people remember is not changed."""
    chapter = get_chapter_in_locked_story(session_id)
    if chapter.followed_state is not None:
        Session.objects.filter(pk=session_id).update(followed_state=state_before(chapter))
    return get_chapter(session_id)


def _handed_on(before: Session, chapter: Session) -> Iterator[tuple[list[int], Payload]]:
    """Yield the readers and the entries of each block."""
    roster = before.characters
    shared = what_holds(fold_chapter(before, readers=before.everybodys_numbers), roster)
    yield chapter.everybodys_numbers, shared
    own: list[tuple[list[int], Payload]] = []
    for number, remembered in _what_each_remembers(chapter, before, shared):
        same = next((readers for readers, payload in own if payload == remembered), None)
        if same is not None:
            same.append(number)
        elif remembered != shared:
            own.append(([number], remembered))
    yield from own
    whole = what_holds(fold_chapter(before), roster)
    if own or whole != shared:
        yield [], whole


def _what_each_remembers(
    chapter: Session, before: Session, shared: Payload
) -> Iterator[tuple[int, Payload]]:
    """Yield each person who took part in an earlier chapter, with the memory of the latest one in
    which the person took part. A person who took no part since then also gets the facts that
    everybody knew at the end."""
    found: set[int] = set()
    for one, numbers in follow_people(chapter, [before, *chapters_followed(before)]):
        for number, old in numbers.items():
            if number not in found:
                found.add(number)
                folded = fold_chapter(one, readers=[old])
                if one == before:
                    yield number, what_holds(folded, one.characters)
                else:
                    yield number, _with_news(folded, one, before, shared)


def _with_news(folded: Fold, earlier: Session, before: Session, shared: Payload) -> Payload:
    """Return the memory of a person who last took part in a chapter before the last one, together
    with the facts that everybody knew at the end of the last chapter."""
    # Of two values, the value with the later prompts holds.
    later = earlier.prompt_index + 1
    rulings = counting_blocks(before).filter(type=MemoryBlock.Type.CANON_CORRECTION)
    everybody = before.everybodys_numbers
    # A fact that a ruling withdrew for everybody is withdrawn for this person too.
    told = [block_of(one) for one in rulings if knows(one.audience, everybody)]
    news = fold([*told, Block(MemoryBlock.Type.STORY_SO_FAR, later, later, shared)])
    remembered = what_holds(merge(folded, news), earlier.characters)
    are_open = {key_of(one["thread"]) for one in shared["unresolved_threads"]}
    known = fold_chapter(before, readers=everybody).threads.keys()
    remembered["unresolved_threads"] = [
        one
        for one in remembered["unresolved_threads"]
        if (key := key_of(one["thread"])) in are_open or key not in known
    ]
    return remembered


def _follow(chapter: Session, before: Session) -> None:
    """Store that the chapter follows this one, and that its people come from it. Until now, both
    may have named a fork."""
    chapter.follows = before
    chapter.followed_state = state_before(chapter)
    chapter.save(update_fields=["follows", "followed_state"])
    here, there = members_by_number(chapter), members_by_number(before)
    for number, old in numbers_before(chapter, before).items():
        if here[number].origin_id != there[old].pk:
            here[number].origin = there[old]
            here[number].save(update_fields=["origin"])
