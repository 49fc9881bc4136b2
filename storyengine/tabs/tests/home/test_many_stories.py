from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memory.shelf import finding_stories as finding
from memory.shelf.finding_stories import find_stories
from sessions.models import Session, Story
from sessions.tests.factories import make_active_chapter
from storyengine.tabs.home import shelf_page
from storyengine.tabs.tests.reading import all_of

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (finding, shelf_page):
        monkeypatch.setattr(module, "COUNTED", 3)
    monkeypatch.setattr(shelf_page, "STORIES_A_PAGE", 2)


def played(title: str, hours_ago: int, *, of: Session | None = None, place: int = 1) -> Session:
    """Make a chapter that was played so many hours ago, alone or in the story of another one."""
    story = {"story": of.story, "place": place} if of else {}
    chapter = make_active_chapter(title=title, **story)
    at = timezone.now() - timedelta(hours=hours_ago)
    Session.objects.filter(pk=chapter.pk).update(last_played_at=at)
    return chapter


def walk(client: Client, query: str = "") -> tuple[list[str], list[str]]:
    """Follow the links to more stories from the first page on. Return the names of the stories, and
    what each page says about its number."""
    titles, numbers = [], []
    address = f"/{query}"
    while address:
        html = client.get(address).content.decode()
        titles += [one.words for one in all_of(html, "h2") if one.words.startswith("Tale")]
        numbers += [one.words for one in all_of(html, "nav", "pages")]
        more = [one for one in all_of(html, "a") if one.words == "More stories"]
        address = f"/{more[0].attributes['href']}" if more else ""
        assert len(numbers) < 20
    return titles, numbers


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
def test_every_story_can_be_reached(client: Client, count: int) -> None:
    for number in range(count):
        played(f"Tale {number}", number)
    titles, numbers = walk(client)
    assert titles == [f"Tale {number}" for number in range(count)]
    assert len(numbers) == (0 if count <= 2 else (count + 1) // 2)


def test_stories_played_at_the_same_moment_are_each_found_once() -> None:
    at = timezone.now()
    first = make_active_chapter(title="First")
    for place in (2, 3):
        make_active_chapter(title="More", story=first.story, place=place)
    make_active_chapter(title="Other")
    Session.objects.update(last_played_at=at)
    assert sorted(one.pk for one in find_stories()) == sorted(
        Story.objects.values_list("pk", flat=True)
    )
