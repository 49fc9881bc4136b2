"""Finds stories: by the state of their chapters, by words in their titles and texts, in an
order."""

import uuid
from collections import Counter
from collections.abc import Mapping

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from memory.shelf.shelf_groups import Group, chapters_in, group_of, has_draft
from memory.shelf.shelf_orders import can_walk, has_few_further_chapters, sort_stories, walk_stories
from memory.shelf.shelf_search import WALKED, Search, walked_since
from sessions.models import Session, Story

# A count of stories ends here, so that it costs the same however many there are.
COUNTED = 300
_ALL = slice(None)


def find_stories(
    words: str | Search = "", group: str = "", order: str = "", *, places: slice = _ALL
) -> list[Story]:
    """Return the stories that have all words and a chapter of the group. Of these, only the stories
    at the given places of the order are returned. Without a group, all stories but the archived
    ones are found.

    A caller that also counts the stories should pass the same Search, which looks for rare words
    only once.
    """
    search = _search(words)
    if not order:
        return _by_play(search, group, places)
    if not search and can_walk(order) and count_stories(group=group) > COUNTED:
        return walk_stories(group, order, places)
    return list(sort_stories(_found(search, group), order)[places])


def count_stories(
    words: str | Search = "", group: str = "", *, most: int | None = COUNTED + 1
) -> int:
    """Return the number of the stories that `find_stories` finds, but at most `most`."""
    search = _search(words)
    if search and most is not None and not search.is_rare:
        for some in search.some_stories():
            if _in_group(group).filter(pk__in=some)[:most].count() == most:
                return most
    if not (search or group or most) and has_few_further_chapters():
        return _count_all()
    if search or most is None or group in ("", Group.ARCHIVED):
        return _found(search, group)[:most].count()
    # A chapter counts for its story if the story has no earlier chapter in the group. The index of
    # states leads to these chapters, so that stories of other groups are not read.
    earlier = chapters_in(group).filter(story=OuterRef("story"), pk__lt=OuterRef("pk"))
    chapters = chapters_in(group).filter(~Exists(earlier), story__archived_at=None)
    return chapters.order_by()[:most].count()


def _count_all() -> int:
    """Return how many stories are not archived.

    Chapters are counted by an index. A story with several chapters must count once, so only these
    stories are read.
    """
    shown = Session.objects.order_by()
    not_only = shown.filter(is_chosen=True, place__gt=1).values("story")
    not_only = not_only.union(shown.filter(is_chosen=False).values("story"))
    put_away = Story.objects.filter(archived_at__isnull=False)
    archived = shown.filter(story__in=put_away.values("pk"))
    several = shown.filter(story__in=not_only, story__archived_at=None)
    of_several = several.aggregate(chapters=Count("pk"), stories=Count("story", distinct=True))
    further: int = of_several["chapters"] - of_several["stories"]
    return shown.count() - archived.count() - further


def count_groups() -> Mapping[str, int]:
    """Return how many stories each group has, and under "" how many stories are not archived. Each
    number is at most COUNTED + 1. A story whose chapters are in several groups counts in each of
    them."""
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


def _search(words: str | Search) -> Search:
    return Search(words) if isinstance(words, str) else words


def _found(search: Search, group: str) -> QuerySet[Story]:
    """Return the stories that `find_stories` finds, without an order."""
    stories = _in_group(group)
    return stories.filter(search.in_story("pk")) if search else stories


def _in_group(group: str) -> QuerySet[Story]:
    return Story.objects.filter(
        Exists(chapters_in(group).filter(story=OuterRef("pk"))),
        archived_at__isnull=group != Group.ARCHIVED,
    )


def _by_play(search: Search, group: str, places: slice) -> list[Story]:
    """Return the stories in the order of their latest play. The index of chapters has this order,
    so that the database reads only about as many chapters as are shown."""
    is_later = Q(last_played_at__gt=OuterRef("last_played_at")) | Q(
        last_played_at=OuterRef("last_played_at"), pk__gt=OuterRef("pk")
    )
    later = Session.objects.filter(is_later, story=OuterRef("story"))
    is_archived = group == Group.ARCHIVED
    latest = Session.objects.filter(~Exists(later), story__archived_at__isnull=not is_archived)
    if group and not is_archived:
        latest = latest.filter(Exists(chapters_in(group).filter(story=OuterRef("story"))))
    in_order = latest.select_related("story").order_by("-last_played_at", "story").only("story")
    found = _walked(in_order, search, places) if search else None
    if found is None:
        found = list(in_order.filter(search.in_story("story") if search else Q())[places])
    return [chapter.story for chapter in found]


def _walked(in_order: QuerySet[Session], search: Search, places: slice) -> list[Session] | None:
    """If the words are common, and enough of the chapters that were played last have them, return
    the chapters whose stories have all words. Otherwise return None."""
    if search.is_rare or places.stop is None or places.stop > WALKED:
        return None
    if (since := walked_since()) is None:
        return []
    walked = in_order.filter(search.looked_through("story"), last_played_at__gte=since)
    found = list(walked[places])
    return found if len(found) == places.stop - (places.start or 0) else None
