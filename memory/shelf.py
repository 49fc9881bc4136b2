"""Finds stories: by the state of their chapters, by words in their titles and texts, in an
order."""

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from memory.models import NarrativeDraft
from memory.shelf_groups import Group, chapters_in, group_of, has_draft
from memory.shelf_orders import Order, sort_stories, walk_stories
from sessions.models import Event, Session, Story, Tab1Inputs

# The most words of a search that count.
MOST_WORDS = 8
# A count of stories ends here, so that it costs the same however many there are.
COUNTED = 300
_ALL = slice(None)


def find_stories(
    words: str = "", group: str = "", order: str = "", *, places: slice = _ALL
) -> list[Story]:
    """Return the stories that have all of the words and a chapter of the group: those at these
    places of the order. Without a group, all stories but the archived ones are found."""
    if not order:
        return _by_play(words, group, places)
    if order in (Order.TITLE, Order.LENGTH) and not words and count_stories(group=group) > COUNTED:
        return walk_stories(group, order, places)
    return list(sort_stories(_found(words, group), order)[places])


def count_stories(words: str = "", group: str = "", *, most: int | None = COUNTED + 1) -> int:
    """Return the number of the stories that `find_stories` finds, but at most `most`."""
    if words or most is None or group in ("", Group.ARCHIVED):
        return _found(words, group)[:most].count()
    # A chapter is counted for its story if the story has no earlier one in the group. The index
    # of states leads to these chapters, so that stories of other groups are not read.
    earlier = chapters_in(group).filter(story=OuterRef("story"), pk__lt=OuterRef("pk"))
    chapters = chapters_in(group).filter(~Exists(earlier), story__archived_at=None)
    return chapters.order_by()[:most].count()


def count_groups() -> Mapping[str, int]:
    """Return how many stories each group has, and under "" how many are not archived, each at most
    one more than COUNTED. A story whose chapters are in several groups counts in each of them."""
    chapters = Session.objects.annotate(is_told=has_draft()).order_by()
    rows = list(
        chapters.values_list("story", "state", "is_told", "story__archived_at")[: COUNTED + 1]
    )
    if len(rows) > COUNTED:
        # There is one count for each group, so that no group with few stories is missed.
        most = COUNTED + 1
        return {group: count_stories(group=group, most=most) for group in ("", *Group)}
    found: set[tuple[str, uuid.UUID]] = set()
    for story, state, is_told, archived_at in rows:
        if archived_at is not None:
            found.add((Group.ARCHIVED, story))
            continue
        found |= {("", story), (group_of(state, is_told=is_told), story)}
    return Counter(group for group, _ in found)


def _found(words: str, group: str) -> QuerySet[Story]:
    """Return the stories that `find_stories` finds, in no order."""
    stories = Story.objects.filter(
        Exists(chapters_in(group).filter(story=OuterRef("pk"))),
        archived_at__isnull=group != Group.ARCHIVED,
    )
    return stories.filter(pk__in=_stories_with(words)) if words else stories


def _by_play(words: str, group: str, places: slice) -> list[Story]:
    """Return the stories by the chapter of each that was played last. The index of chapters has
    this order, so that the database reads only about as many chapters as are shown."""
    is_later = Q(last_played_at__gt=OuterRef("last_played_at")) | Q(
        last_played_at=OuterRef("last_played_at"), pk__gt=OuterRef("pk")
    )
    later = Session.objects.filter(is_later, story=OuterRef("story"))
    is_archived = group == Group.ARCHIVED
    latest = Session.objects.filter(~Exists(later), story__archived_at__isnull=not is_archived)
    if group and not is_archived:
        latest = latest.filter(Exists(chapters_in(group).filter(story=OuterRef("story"))))
    if words:
        latest = latest.filter(story__in=_stories_with(words))
    in_order = latest.select_related("story").order_by("-last_played_at", "story")
    return [chapter.story for chapter in in_order.only("story")[places]]


def _stories_with(words: str) -> "QuerySet[Session, uuid.UUID]":
    """Return the keys of the stories one of whose chapters has all of the words, wherever they
    stand: in the titles of story and chapter, in Tab 1, in what was said, or in its prose.

    A word is found within longer words too, and capital letters count as small ones.
    """
    chapters = Session.objects.order_by()
    for word in words.split()[:MOST_WORDS]:
        chapters = chapters.filter(pk__in=_chapters_with(word))
    return chapters.values_list("story", flat=True)


def _chapters_with(word: str) -> "QuerySet[Event, Any]":
    """Return the keys of the chapters that have the word, some of them several times.

    Each place where a word can stand is searched by itself, because PostgreSQL has an index of the
    texts for each of them. A condition that joins the places by OR would use none.
    """
    said = Event.objects.filter(_contains("text", word), attempt__chosen_for__isnull=False)
    told = NarrativeDraft.objects.filter(_contains("chapter_text", word))
    set_up = Tab1Inputs.objects.filter(
        _contains("world_text", word) | _contains("chapter_text", word)
    )
    titled = Session.objects.filter(_contains("title", word))
    in_story = Session.objects.filter(_contains("story__title", word))
    return (
        said.order_by()
        .values("session")
        .union(
            told.order_by().values("session"),
            set_up.values("session"),
            titled.order_by().values("pk"),
            in_story.order_by().values("pk"),
            all=True,
        )
    )


def _contains(field: str, word: str) -> Q:
    """Return the condition that the field contains the word.

    SQLite knows only the capital letters of English, so that the word is also looked for as it is
    written within and at the beginning of a sentence, and in capital letters.
    """
    found = Q()
    spellings = {word} if word.isascii() else {word, word.lower(), word.capitalize(), word.upper()}
    for spelt in sorted(spellings):
        found |= Q(**{f"{field}__icontains": spelt})
    return found
