"""Where a chapter is loaded by its id."""

import uuid
from collections.abc import Callable, Collection
from typing import TypeVar

from django.db.models import QuerySet

from sessions.exceptions import UnknownChapter
from sessions.models import Session

Found = TypeVar("Found")

# How often a chapter that moves on while it is being read is read again.
MAX_READINGS = 3


def lock_chapter(session_id: uuid.UUID) -> bool:
    """Make the others wait who change this chapter, until the transaction ends.

    Returns whether there still is one.
    Whoever changes several rows of a chapter takes its Session row first: one order, so that no
    two wait for each other. SQLite needs no lock, since its transactions take turns as a whole.
    """
    return bool(Session.objects.select_for_update().filter(pk=session_id).values_list("pk"))


def get_chapter(session_id: uuid.UUID) -> Session:
    """The chapter with its Tab 1; raises UnknownChapter."""
    return _get(Session.objects.select_related("tab1"), session_id)


def get_chapter_with_cast(session_id: uuid.UUID) -> Session:
    """The same with its cast, for code that cannot read that later; raises UnknownChapter."""
    return _get(Session.objects.select_related("tab1").prefetch_related("members"), session_id)


def get_chapter_to_change(session_id: uuid.UUID) -> Session:
    """The chapter without its Tab 1, locked as `lock_chapter` does; raises UnknownChapter."""
    return _get(Session.objects.select_for_update(), session_id)


def read_at_one_moment(session_id: uuid.UUID, read: Callable[[Session], Found]) -> Found:
    """What `read` finds in the chapter and its rows, as all were at once; raises UnknownChapter.

    A transaction would make reading wait for writers on SQLite; so what has changed meanwhile is
    seen by the chapter's row, and read again.
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
            "the list of chapters shows what there is."
        ) from None


def tell_readers_apart(chapter: Session, readers: Collection[int]) -> None:
    """Have prompts composed for each character by itself, where these are not all of the cast."""
    if not (chapter.differs_by_reader or set(readers) >= set(chapter.everybodys_numbers)):
        Session.objects.filter(pk=chapter.pk).update(differs_by_reader=True)
        chapter.differs_by_reader = True
