"""Stories: their chapters in order, and how stories and chapters are put away, deleted and brought
back.

A deleted chapter is hidden at once, and can be brought back for a day. Soon after that the sweep
removes it with all its rows. A story has no mark of its own for a deletion: it is shown as long as
one of its chapters is shown.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.dispatch import Signal
from django.utils import timezone

from sessions.chapter.access import (
    get_chapter,
    get_chapter_in_locked_story,
    get_chapter_with_cast,
    lock_story,
)
from sessions.chapter.chapters import store_next_chapter
from sessions.chapter.storing_imports import remove_in_pieces
from sessions.exceptions import InvalidInput, UnknownStory
from sessions.language.text import clean_line
from sessions.limits import TITLE_CHAR_LIMIT
from sessions.models import Session, Story

# The order of the chapters of a story. Of the chapters at one place, the chosen chapter comes
# first, and then the forks from the oldest to the newest.
BY_PLACE = ("place", "-is_chosen", "created_at", "pk")
# Sent with `session_id` when the deletion of a chapter is committed.
chapter_deleted = Signal()
# How long a deleted chapter can be brought back.
KEPT_AFTER_DELETION = timedelta(days=1)
# A removal takes several transactions, so it begins only when nobody can bring the chapter back any
# more, not even a process that has waited for a lock or whose clock is slow.
_REMOVED_AFTER = KEPT_AFTER_DELETION + timedelta(minutes=15)
# At most the first number of deletions is listed at once, and further deletions are counted up to
# the second number. So the list costs the same however many deletions there are.
LISTED, COUNTED_FURTHER = 50, 300
# One sweep examines this many stories to find stories without chapters. The next sweep of the
# process begins behind the last of these stories. So a sweep costs the same however many stories
# there are.
LOOKED_AT = 500
_BEFORE_ALL = uuid.UUID(int=0)
_looked_until = _BEFORE_ALL


@dataclass(frozen=True)
class Deletion:
    """Chapters of one story that were deleted together, and can be brought back together."""

    chapters: Sequence[Session]

    @property
    def story(self) -> Story:
        return self.chapters[0].story

    @property
    def title(self) -> str:
        """The title of the chapter, or of the story if several chapters were deleted."""
        if len(self.chapters) == 1:
            return self.chapters[0].title
        return title_of(self.story, self.chapters)


@dataclass(frozen=True)
class Deletions:
    """Deletions that can be undone, from the newest to the oldest. `further` is the number of
    earlier deletions that are not listed. It is counted up to COUNTED_FURTHER + 1."""

    listed: Sequence[Deletion]
    further: int

    @property
    def last_at(self) -> datetime | None:
        """The time of the oldest listed deletion."""
        return self.listed[-1].chapters[0].deleted_at if self.listed else None


def get_story(story_id: uuid.UUID) -> Story:
    """Return the story if one of its chapters is shown. Raises UnknownStory."""
    story = Story.objects.filter(pk=story_id).first()
    if story is None or not story.chapters.exists():
        raise UnknownStory
    return story


def chapters_of(story: Story) -> Sequence[Session]:
    """Return all chapters of the story in their order."""
    return list(story.chapters.order_by(*BY_PLACE))


def title_of(story: Story, chapters: Sequence[Session] | None = None) -> str:
    """Return the story's title. A story without a title of its own is called as its first chapter.

    `chapters` are the chapters of the story in their order, if the caller has them already.
    """
    return story.title or (chapters or chapters_of(story))[0].title


def rename_story(story_id: uuid.UUID, title: str) -> Story:
    story = get_story(story_id)
    cleaned = clean_line(title, limit=TITLE_CHAR_LIMIT, label="The title")
    if not cleaned:
        raise InvalidInput("A story needs a title. The old one was kept.")
    Story.objects.filter(pk=story.pk).update(title=cleaned)
    return get_story(story_id)


def archive_story(story_id: uuid.UUID, is_archived: bool) -> Story:
    """Put the story away, or take it back. Its chapters stay as they are."""
    story = get_story(story_id)
    archived_at = (story.archived_at or timezone.now()) if is_archived else None
    Story.objects.filter(pk=story.pk).update(archived_at=archived_at)
    return get_story(story_id)


@transaction.atomic
def begin_next_chapter(story_id: uuid.UUID) -> Session:
    """Begin the chapter that follows the last chapter of the story. No model is called.

    The memory of the chapters before is written at the lock of the new chapter (see
    memory.before.story_so_far).
    """
    lock_story(story_id)
    story = get_story(story_id)
    last = [one for one in chapters_of(story) if one.is_chosen][-1]
    return store_next_chapter(get_chapter_with_cast(last.pk), _next_place(story))


def chapter_before(chapter: Session) -> Session | None:
    """Return the chosen chapter at the nearest place before this one, or None for the first."""
    before = Session.objects.filter(
        story=chapter.story_id, is_chosen=True, place__lt=chapter.place
    ).order_by("-place")
    return before.first()


def chapter_after(chapter: Session) -> Session | None:
    """Return the chosen chapter at the nearest place after this one, or None after the last."""
    after = Session.objects.filter(
        story=chapter.story_id, is_chosen=True, place__gt=chapter.place
    ).order_by("place")
    return after.first()


def _next_place(story: Story) -> int:
    """Return the place behind all chapters of the story. Deleted chapters count too, because they
    may come back."""
    last = Session.everything.filter(story=story).aggregate(last=Max("place"))["last"]
    return (last or 0) + 1


@transaction.atomic
def choose_chapter(session_id: uuid.UUID) -> Session:
    """Choose this chapter among the chapters at its place. The choice is kept when deleted chapters
    of the place come back."""
    chapter = get_chapter_in_locked_story(session_id)
    _all_at_the_place_of(chapter).update(is_chosen=False)
    Session.objects.filter(pk=chapter.pk).update(is_chosen=True)
    return get_chapter(session_id)


@transaction.atomic
def hide_chapter(session_id: uuid.UUID) -> None:
    """Delete the chapter so that it can be brought back. Another chapter of its place, if there is
    one, becomes the chosen one. Raises UnknownChapter."""
    _hide([get_chapter_in_locked_story(session_id)])


@transaction.atomic
def hide_story(story_id: uuid.UUID) -> None:
    """Delete all chapters of the story so that they can be brought back together. Raises
    UnknownStory."""
    lock_story(story_id)
    story = get_story(story_id)
    _hide(chapters_of(story))


@transaction.atomic
def restore_chapter(session_id: uuid.UUID) -> Session:
    """Bring back a deleted chapter. If the story went by this chapter, it does so again, unless the
    user has chosen another chapter meanwhile. Raises UnknownChapter if the chapter is gone."""
    hidden = _hidden().filter(pk=session_id)
    if story := hidden.values_list("story", flat=True).first():
        lock_story(story)
        # The chapter is read again, because somebody else may have brought it back meanwhile.
        _restore(hidden)
    return get_chapter(session_id)


@transaction.atomic
def restore_story(story_id: uuid.UUID, deleted_with: uuid.UUID | None = None) -> Story:
    """Bring back the chapters that were deleted together with the chapter `deleted_with`, or those
    that were deleted last, all at once. Raises UnknownStory."""
    lock_story(story_id)
    hidden = _hidden().filter(story=story_id)
    of_deletion = hidden.filter(pk=deleted_with) if deleted_with else hidden
    deleted_at = of_deletion.aggregate(last=Max("deleted_at"))["last"]
    if deleted_at is not None:
        _restore(hidden.filter(deleted_at=deleted_at))
    return get_story(story_id)


def deletions(before: datetime | None = None) -> Deletions:
    """Return the newest LISTED deletions that can be brought back, from the newest to the oldest.
    With `before`, return the newest deletions before this time."""
    hidden = _hidden() if before is None else _hidden().filter(deleted_at__lt=before)
    made = hidden.order_by("-deleted_at", "story").values_list("deleted_at", "story").distinct()
    keys = list(made[: LISTED + COUNTED_FURTHER + 1])
    # Deletions that were made at the same time are listed together, so that `before` misses none of
    # them.
    listed = LISTED
    while 0 < listed < len(keys) and keys[listed][0] == keys[listed - 1][0]:
        listed += 1
    if not keys:
        return Deletions([], 0)
    since = keys[:listed][-1][0]
    chapters = hidden.filter(deleted_at__gte=since).select_related("story")
    in_order = chapters.order_by("-deleted_at", "story", *BY_PLACE)
    together = groupby(in_order, key=lambda one: (one.deleted_at, one.story_id))
    return Deletions([Deletion(list(of_one)) for _, of_one in together], len(keys[listed:]))


def remove_deleted() -> int:
    """Remove the chapters whose day is over, with all their rows, and the stories that have no
    chapter left. Return the number of these chapters."""
    due = Session.everything.filter(deleted_at__lt=timezone.now() - _REMOVED_AFTER)
    keys = list(due.values_list("pk", flat=True))
    for key in keys:
        remove_in_pieces(due.filter(pk=key))
    _remove_empty()
    return len(keys)


def _remove_empty() -> None:
    """Look at the next LOOKED_AT stories, and remove the stories that have no chapter left.

    A story is stored together with its first chapter, so no new story is empty. The stories are
    looked for first, because even a deletion that finds nothing makes other writers wait.
    """
    global _looked_until
    after = Story.objects.filter(pk__gt=_looked_until).order_by("pk")
    keys = list(after.values_list("pk", flat=True)[:LOOKED_AT])
    _looked_until = keys[-1] if len(keys) == LOOKED_AT else _BEFORE_ALL
    empty = Story.objects.filter(pk__in=keys, chapters=None)
    if found := list(empty.values_list("pk", flat=True)):
        Story.objects.filter(pk__in=found, chapters=None).delete()


def _hidden() -> QuerySet[Session]:
    """Return the chapters that can be brought back."""
    return Session.everything.filter(deleted_at__gte=timezone.now() - KEPT_AFTER_DELETION)


def _at_the_place_of(chapter: Session) -> QuerySet[Session]:
    return Session.objects.filter(story=chapter.story_id, place=chapter.place)


def _all_at_the_place_of(chapter: Session) -> QuerySet[Session]:
    """Return the chapters at this place of the story, also unfinished and deleted ones."""
    return Session.everything.filter(story=chapter.story_id, place=chapter.place)


def _hide(chapters: Sequence[Session]) -> None:
    """Hide the chapters. If the chosen chapter of a place is hidden, the oldest other chapter there
    becomes the chosen one."""
    keys = [chapter.pk for chapter in chapters]
    Session.objects.filter(pk__in=keys).update(deleted_at=timezone.now())
    for key in keys:
        transaction.on_commit(partial(chapter_deleted.send, Session, session_id=key))
    for chapter in filter(lambda one: one.is_chosen, chapters):
        if other := _at_the_place_of(chapter).order_by("created_at", "pk").first():
            Session.objects.filter(pk=other.pk).update(is_chosen=True)


def _restore(hidden: QuerySet[Session]) -> None:
    """Bring back these chapters of a story. The caller has locked the story.

    A deleted chapter keeps its mark `is_chosen` until the user chooses another one. The chapters
    that became the chosen ones since its deletion lose their mark.
    """
    for chapter in list(hidden.order_by("-is_chosen", "created_at", "pk")):
        if chapter.is_chosen:
            since = Q(deleted_at=None) | Q(deleted_at__gt=chapter.deleted_at)
            _all_at_the_place_of(chapter).filter(since).update(is_chosen=False)
        is_taken = _at_the_place_of(chapter).filter(is_chosen=True).exists()
        Session.everything.filter(pk=chapter.pk).update(deleted_at=None, is_chosen=not is_taken)
