"""Loads chapters, and locks their rows."""

import uuid
from collections.abc import Callable, Collection
from typing import TypeVar

from django.db.models import QuerySet

from sessions.exceptions import UnknownChapter
from sessions.models import Session, Story

Found = TypeVar("Found")

# `read_at_one_moment` calls `read` at most this many times.
MAX_READINGS = 3


def lock_chapter(session_id: uuid.UUID, *, also_deleted: bool = False) -> bool:
    """Lock the chapter's row until the transaction ends, and return whether the chapter exists.

    Code that changes several rows of a chapter locks this row first, so that no two transactions
    wait for each other. SQLite has no locks on rows. It does not need them, because its write
    transactions run one at a time. With `also_deleted`, a deleted chapter that can be brought back
    counts as existing, because the end of a call or a reply must be stored even in such a chapter.
    """
    chapters = Session.everything if also_deleted else Session.objects
    return bool(chapters.select_for_update().filter(pk=session_id).values_list("pk"))


def lock_story(story_id: uuid.UUID) -> None:
    """Lock the story's row until the transaction ends.

    Code that changes which chapters a story has, or which of them are chosen, locks this row before
    any chapter. A new chapter of the story can be stored beside this lock, because its foreign key
    needs only the story's own key.
    """
    Story.objects.select_for_update(no_key=True).filter(pk=story_id).values_list("pk").first()


def get_chapter(session_id: uuid.UUID) -> Session:
    """Return the chapter with its Tab 1. Raises UnknownChapter."""
    return _get(Session.objects.select_related("tab1"), session_id)


def get_chapter_with_cast(session_id: uuid.UUID) -> Session:
    """Return the chapter with Tab 1 and the cast loaded, for code that cannot query the database
    afterwards.

    Raises UnknownChapter.
    """
    return _get(Session.objects.select_related("tab1").prefetch_related("members"), session_id)


def get_chapter_to_change(session_id: uuid.UUID) -> Session:
    """Return the chapter without Tab 1, and lock its row until the transaction ends. Raises
    UnknownChapter."""
    return _get(Session.objects.select_for_update(), session_id)


def get_chapter_in_locked_story(session_id: uuid.UUID) -> Session:
    """Return the chapter without Tab 1, and lock its story's row and then its own until the
    transaction ends. Raises UnknownChapter."""
    lock_story(get_chapter(session_id).story_id)
    return get_chapter_to_change(session_id)


def read_at_one_moment(session_id: uuid.UUID, read: Callable[[Session], Found]) -> Found:
    """Call `read` with the chapter, so that all rows that `read` reads are from one moment. Return
    the result of the last call of `read`.

    If the chapter's row has changed during a call, `read` is called again, MAX_READINGS times in
    all. A transaction is not used, because on SQLite it would make readers wait for writers. Raises
    UnknownChapter.
    """
    chapter = get_chapter(session_id)
    for _ in range(MAX_READINGS):
        found = read(chapter)
        afterwards = get_chapter(session_id)
        if _moment(afterwards) == _moment(chapter):
            break
        chapter = afterwards
    return found


def _moment(chapter: Session) -> tuple[object, ...]:
    return (
        chapter.state,
        chapter.is_ending,
        chapter.turn_in_flight,
        chapter.prompt_index,
        chapter.last_summarized_prompt_index,
        chapter.updated_at,
    )


def _get(chapters: QuerySet[Session], session_id: uuid.UUID) -> Session:
    try:
        return chapters.get(pk=session_id)
    except Session.DoesNotExist:
        raise UnknownChapter(
            "There is no such chapter. It may have been reset or deleted; "
            "the home page shows what there is."
        ) from None


def tell_readers_apart(chapter: Session, readers: Collection[int]) -> None:
    """Mark the chapter as one whose members do not all know the same, unless `readers` are the
    whole cast.

    For a marked chapter, each character's request is composed separately.
    """
    if not (chapter.differs_by_reader or set(readers) >= set(chapter.everybodys_numbers)):
        Session.objects.filter(pk=chapter.pk).update(differs_by_reader=True)
        chapter.differs_by_reader = True
