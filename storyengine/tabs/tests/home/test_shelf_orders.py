"""A large library is read in the order that a small one is sorted in."""

import random
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.models import NarrativeDraft
from memory.shelf import finding_stories
from memory.shelf.finding_stories import count_stories, find_stories
from memory.shelf.shelf_groups import Group
from memory.shelf.shelf_orders import Order
from sessions.models import Session, State, Story

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

TITLES = ("", "", "Ash", "ash", "ASH", "Birch", "birch lane", "Cedar", "10 firs", "éclat")
STATES = (*[State.ACTIVE] * 4, State.DRAFT_TAB1, State.ENDED, State.IMPORTING, State.NARRATING)


def make_library(chance: random.Random) -> None:
    """Store stories with titles of their own and without, some of them archived. Their chapters
    share places, lengths and times, and some are deleted, unfinished or not chosen."""
    now = timezone.now()
    for _ in range(40):
        archived_at = now if chance.random() < 0.2 else None
        story = Story.objects.create(title=chance.choice(TITLES), archived_at=archived_at)
        first = chance.choice((1, 1, 2))
        for place in range(first, first + chance.choice((1, 1, 2, 3))):
            for number in range(chance.choice((1, 1, 2))):
                chapter = Session.objects.create(
                    story=story,
                    place=place,
                    is_chosen=number == 0 and chance.random() < 0.9,
                    title=chance.choice(TITLES[2:]),
                    state=chance.choice(STATES),
                    prompt_index=chance.choice((0, 1, 2, 3, 5)),
                    created_at=now - timedelta(days=chance.randrange(3)),
                    deleted_at=now if chance.random() < 0.2 else None,
                )
                if chance.random() < 0.5:
                    NarrativeDraft.objects.create(
                        session=chapter, target_words=9, source_snapshot={}, chapter_text="Prose."
                    )


@pytest.mark.parametrize("seed", range(4))
def test_the_orders_of_a_large_library_are_those_of_a_small_one(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  (test data, no secret)
    make_library(chance)
    for group in ("", *Group):
        for order in (Order.TITLE, Order.LENGTH):
            monkeypatch.setattr(finding_stories, "COUNTED", 1_000)
            sorted_ones = find_stories(group=group, order=order)
            assert len(sorted_ones) > 1
            assert count_stories(group=group, most=None) == len(sorted_ones)
            monkeypatch.setattr(finding_stories, "COUNTED", 0)
            assert find_stories(group=group, order=order) == sorted_ones
            start = chance.randrange(len(sorted_ones))
            places = slice(start, start + 3)
            found = find_stories(group=group, order=order, places=places)
            assert found == sorted_ones[places]


@pytest.mark.parametrize(
    ("order", "indexes"),
    [
        (Order.TITLE, ["story_title", "chapter_title"]),
        (Order.LENGTH, ["chapter_length", "chapter_later", "chapter_not_chosen"]),
    ],
)
def test_a_large_library_is_read_by_indexes(
    monkeypatch: pytest.MonkeyPatch, order: str, indexes: list[str]
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL reads so few rows without an index")
    monkeypatch.setattr(finding_stories, "COUNTED", 0)
    Session.objects.create()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        find_stories(order=order, places=slice(20))
    [query] = [one["sql"] for one in queries if "UNION ALL" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query}")
        plan = "\n".join(row[3] for row in cursor.fetchall())
    assert [name for name in indexes if f"INDEX {name}" not in plan] == [], plan
    assert "CO-ROUTINE" not in plan
