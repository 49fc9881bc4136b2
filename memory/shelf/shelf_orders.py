"""The orders of stories.

A few stories are sorted by a value that the database works out for each of them. In a large library
the order comes from indexes. The value stands in different rows for different kinds of stories: a
title belongs to the story or to its first chapter, and a length is the length of the only chapter
or a sum over several chapters. The stories of each kind are read in their order by an index, and
the database merges the kinds. So a page reads only about as many rows as it shows and as come
before it.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from django.db import connection
from django.db.models import (
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextChoices,
    Value,
)
from django.db.models.functions import Coalesce, Lower, NullIf

from memory.shelf.shelf_groups import Group, chapters_in
from sessions.chapter.stories import BY_PLACE
from sessions.models import Session, State, Story


class Order(TextChoices):
    """The orders of stories, beside the usual order, in which the story that was played last comes
    first."""

    TITLE = "title"
    BEGUN = "begun"
    LENGTH = "length"


# Rows with two columns: "by" is the value that stories are sorted by, and "found" is the story.
_Rows: TypeAlias = QuerySet[Any, tuple[Any, uuid.UUID]]
# If there are more further chapters than this, all lengths are worked out by the database as in a
# small library.
SEVERAL = 1_000


def can_walk(order: str) -> bool:
    """Return whether a large library is read in this order by indexes."""
    return order == Order.TITLE or (order == Order.LENGTH and has_few_further_chapters())


def has_few_further_chapters() -> bool:
    """Return whether only few chapters share their story with other chapters."""
    shown = Session.objects.order_by()
    further = (shown.filter(is_chosen=True, place__gt=1), shown.filter(is_chosen=False))
    return all(chapters[: SEVERAL + 1].count() <= SEVERAL for chapters in further)


def sort_stories(stories: QuerySet[Story], order: str) -> QuerySet[Story]:
    """Return the stories in this order. For the orders by title and length, the database works out
    the sort value of each story. A large library therefore uses `walk_stories` (see `can_walk`)."""
    return _SORTED[order](stories)


def walk_stories(group: str, order: str, places: slice) -> list[Story]:
    """Return the stories of the group that are at these places of the order by title or length,
    which are read from the beginning of the order by indexes."""
    kinds, in_order = _KINDS[order], _ORDER_BY[order]
    first, *rest = [_rows(of_kind, story, in_order, group, places) for of_kind, story in kinds()]
    # The query has one level, so that SQLite, too, merges the kinds and does not sort them.
    merged = first.union(*rest, all=True).order_by(*in_order)
    keys = [key for _, key in merged[places]]
    stories = Story.objects.in_bulk(keys)
    return [stories[key] for key in keys if key in stories]


def _rows(
    of_kind: QuerySet[Any], story: str, in_order: Sequence[str], group: str, places: slice
) -> _Rows:
    """Return rows with the value that the stories of a kind are sorted by. `story` is the name of
    the story's key."""
    archived_at = "archived_at" if of_kind.model is Story else "story__archived_at"
    found = of_kind.filter(**{f"{archived_at}__isnull": group != Group.ARCHIVED})
    if of_kind.model is Story or group not in ("", Group.ARCHIVED):
        found = found.filter(Exists(chapters_in(group).filter(story=OuterRef(story))))
    rows: _Rows = found.annotate(found=F(story)).order_by().values_list("by", "found")
    # PostgreSQL reads each kind in its order only if the query says so. SQLite does so by itself.
    if connection.features.supports_slicing_ordering_in_compound:
        rows = rows.order_by(*in_order)[: places.stop]
    return rows


def _titled() -> list[tuple[QuerySet[Any], str]]:
    """Return the stories with titles of their own, and the first chapters of the other stories."""
    own = Story.objects.exclude(title="").annotate(by=Lower("title"))
    before = (
        Q(place__lt=OuterRef("place"))
        | Q(place=OuterRef("place"), is_chosen__gt=OuterRef("is_chosen"))
        | Q(
            place=OuterRef("place"),
            is_chosen=OuterRef("is_chosen"),
            created_at__lt=OuterRef("created_at"),
        )
        | Q(
            place=OuterRef("place"),
            is_chosen=OuterRef("is_chosen"),
            created_at=OuterRef("created_at"),
            pk__lt=OuterRef("pk"),
        )
    )
    earlier = Session.objects.filter(before, story=OuterRef("story")).order_by()
    # This condition is true of all chapters. It is here because the index of titles has the same
    # condition.
    first = Session.objects.filter(~Exists(earlier), story__title="", place__gte=0)
    first = first.annotate(by=Lower("title"))
    return [(own, "pk"), (first, "story")]


def _measured() -> list[tuple[QuerySet[Any], str]]:
    """Return three kinds of rows: the chapters that are the only chosen chapter of their story, the
    stories with several chosen chapters, and the stories with none, whose length is 0."""
    counted = Session.objects.filter(is_chosen=True).order_by()
    later = counted.filter(place__gt=1)
    only = counted.filter(~Exists(later.filter(story=OuterRef("story"))), place__lte=1)
    several = counted.filter(story__in=later.values("story")).values("story")
    others = Session.objects.filter(is_chosen=False).order_by()
    earlier = others.filter(story=OuterRef("story"), pk__lt=OuterRef("pk"))
    none = others.filter(~Exists(counted.filter(story=OuterRef("story"))), ~Exists(earlier))
    return [
        (only.annotate(by=F("prompt_index")), "story"),
        (several.annotate(by=Sum("prompt_index")), "story"),
        (none.annotate(by=Value(0)), "story"),
    ]


def _by_title(stories: QuerySet[Story]) -> QuerySet[Story]:
    chapters = Session.objects.filter(story=OuterRef("pk")).order_by(*BY_PLACE)
    first_title = Subquery(chapters.values("title")[:1])
    title = Lower(Coalesce(NullIf("title", Value("")), first_title))
    return stories.order_by(title, "pk")


def _by_beginning(stories: QuerySet[Story]) -> QuerySet[Story]:
    return stories.order_by("-created_at", "pk")


def _by_length(stories: QuerySet[Story]) -> QuerySet[Story]:
    shown = Q(chapters__deleted_at=None) & ~Q(chapters__state=State.IMPORTING)
    prompts = Sum("chapters__prompt_index", filter=shown & Q(chapters__is_chosen=True))
    return stories.alias(prompts=Coalesce(prompts, 0)).order_by("-prompts", "pk")


_SORTED: Mapping[str, Callable[[QuerySet[Story]], QuerySet[Story]]] = {
    Order.TITLE: _by_title,
    Order.BEGUN: _by_beginning,
    Order.LENGTH: _by_length,
}
_KINDS: Mapping[str, Callable[[], list[tuple[QuerySet[Any], str]]]] = {
    Order.TITLE: _titled,
    Order.LENGTH: _measured,
}
_ORDER_BY: Mapping[str, Sequence[str]] = {
    Order.TITLE: ("by", "found"),
    Order.LENGTH: ("-by", "found"),
}
