"""A search finds the same stories, in the same order, whether its words are rare or common."""

# ruff: noqa: RUF001

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.utils import timezone

from memory.models import NarrativeDraft
from memory.shelf import finding_stories, shelf_search
from memory.shelf.finding_stories import count_stories, find_stories
from memory.shelf.shelf_groups import Group
from memory.shelf.shelf_orders import Order
from sessions.models import Session, State, Story
from sessions.tests.factories import add_turn, make_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

WORDS = ("lamp", "boat", "Überfall", "rope", "ash", "Zoë’s", "Łódź", "йод", "灯台")
SEARCHES = (
    "lamp",
    "BOAT",
    "überfall",
    "o",
    "lamp boat",
    "rope ash",
    "lamp boat rope",
    "nowhere lamp",
    "ZOE'S",
    "Lódz ueberfall uberfall",
    "Lódz uberfall",
    "灯",
    "%",
)
STATES = (State.ACTIVE, State.ACTIVE, State.ENDED, State.DRAFT_TAB1)


def make_library(chance: random.Random) -> None:
    now = timezone.now()

    def some_words() -> str:
        return " ".join(word for word in WORDS if chance.random() < 0.2) or "Night."

    for _ in range(16):
        archived_at = now if chance.random() < 0.2 else None
        story = Story.objects.create(title=some_words(), archived_at=archived_at)
        for place in range(1, chance.choice((2, 2, 3, 4))):
            chapter = make_chapter(
                story=story, place=place, title=some_words(), state=chance.choice(STATES)
            )
            chapter.tab1.world_text = some_words()
            chapter.tab1.save()
            add_turn(chapter, 1, words=some_words(), reply=some_words())
            if chance.random() < 0.3:
                NarrativeDraft.objects.create(
                    session=chapter, target_words=9, source_snapshot={}, chapter_text=some_words()
                )
            Session.objects.filter(pk=chapter.pk).update(
                last_played_at=now - timedelta(hours=chance.randrange(9)),
                deleted_at=now if chance.random() < 0.2 else None,
                prompt_index=chance.randrange(3),
            )


@pytest.mark.parametrize("seed", range(2))
def test_rare_and_common_words_find_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (test data, no secret)
    make_library(chance)
    asked = [
        (words, group, order, slice(start, start + 2))
        for words in SEARCHES
        for group in ("", chance.choice([*Group]))
        for order, start in [chance.choice([("", 0), ("", 1), (Order.TITLE, 0)])]
    ]

    def found() -> Sequence[tuple[list[Story], int, int]]:
        return [
            (
                find_stories(words, group, order, places=places),
                count_stories(words, group, most=None),
                count_stories(words, group, most=3),
            )
            for words, group, order, places in asked
        ]

    rare = found()
    assert sum(count for _, count, _ in rare) > 20
    for probed, walked in ((1, 0), (1, 5), (4, 500)):
        monkeypatch.setattr(shelf_search, "PROBED", probed)
        for module in (finding_stories, shelf_search):
            monkeypatch.setattr(module, "WALKED", walked)
        assert found() == rare


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("Café Zoë", "cafe zoe"),
        ("Cafe Zoe", "CAFÉ Zoë"),
        ("Łódź", "lodz"),
        ("İstanbul, Iğdır", "istanbul igdir"),
        ("STRAẞE", "strasse"),
        ("Đặng Thị Hồng", "dang hong"),
        ("ΟΔΥΣΣΕΎΣ", "οδυσσευς"),
        ("ЁЛКА", "елка"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("so\u00adft", "soft"),
        ("cafe\u0301", "caf\u00e9"),
        ("O’Neill", "o'neill"),
        ("ｶﾞｽ", "ガス"),
        ("100%_\\", "%_\\"),
    ],
)
def test_a_story_is_found_whatever_marks_its_letters_have(told: str, asked: str) -> None:
    make_chapter(title="Another")
    title = make_chapter(title=told).story
    chapter = make_chapter(title="One")
    add_turn(chapter, 1, words="Go on.", reply=f"So much for {told}.")
    assert {one.pk for one in find_stories(asked)} == {title.pk, chapter.story_id}
