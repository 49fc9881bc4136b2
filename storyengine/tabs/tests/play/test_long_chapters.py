"""Tests of pages with long chapters or many chapters."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from sessions.models import Session
from sessions.tests.factories import (
    add_prompts,
    add_turn,
    make_active_chapter,
    make_chapter,
)
from storyengine.tabs.chapter.chapter_page import BLOCKS_SHOWN
from storyengine.tabs.home.shelf_page import STORIES_A_PAGE
from storyengine.tabs.play.transcript_pages import PROMPTS_A_PAGE
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id

pytestmark = pytest.mark.django_db

AtMost = Callable[[int], Any]


def href(html: str, words: str) -> str:
    """Return the address of the first link with these words."""
    return next(one.attributes["href"] for one in all_of(html, "a") if one.words == words)


def numbers_shown(html: str) -> list[str]:
    links = all_of(html, "a", "saw-link")
    return [one.attributes["href"].rpartition("/")[2] for one in links]


def poll_after_news(htmx: Client, chapter: Session, html: str) -> str:
    """Add a delta, and return the answer to the next poll of the page."""
    last = 7 * chapter.memory_blocks.count()
    add_delta(chapter, last + 1, last + 7, turn_delta(last + 1, last + 7))
    answer = htmx.get(by_id(html, "draft-poll").attributes["hx-get"])
    assert answer.status_code == 200
    return answer.content.decode()


class TestLibrary:
    def test_it_comes_in_pages_the_last_played_first(
        self, client: Client, django_assert_max_num_queries: AtMost
    ) -> None:
        now = timezone.now()
        for number in range(STORIES_A_PAGE + 1):
            played = now - timedelta(days=number)
            make_chapter(title=f"Chapter {number}.", last_played_at=played)
        with django_assert_max_num_queries(11):
            html = client.get("/").content.decode()
        titles = [one.words for one in all_of(html, "h2", "story-title")]
        assert titles == [f"Chapter {number}." for number in range(STORIES_A_PAGE)]
        [onwards] = [one for one in all_of(html, "a") if one.words == "More stories"]
        html = client.get("/" + str(onwards.attributes["href"])).content.decode()
        assert [one.words for one in all_of(html, "h2", "story-title")] == [
            f"Chapter {STORIES_A_PAGE}."
        ]


class TestTranscript:
    @pytest.fixture
    def long(self) -> Session:
        chapter = make_active_chapter()
        add_prompts(chapter, PROMPTS_A_PAGE + 3)
        return chapter

    def test_it_comes_in_pages(self, client: Client, long: Session) -> None:
        first = client.get(address(long, "transcript")).content.decode()
        assert len(all_of(first, "p", "entry")) == 2 * PROMPTS_A_PAGE
        last = client.get(address(long, "transcript"), {"page": "2"}).content.decode()
        shown = [one.attributes.get("id") for one in all_of(last, "p", "entry")]
        assert [one for one in shown if one] == [
            f"prompt-{PROMPTS_A_PAGE + number}" for number in (1, 2, 3)
        ]

    def test_both_ways_through_them_can_be_told_apart_and_read(
        self, client: Client, long: Session
    ) -> None:
        html = client.get(address(long, "transcript")).content.decode()
        ways = all_of(html, "nav", "pages")
        assert len({one.attributes["aria-label"] for one in ways}) == 2
        # The style sheet gives the links of a page their readable colour only directly inside the
        # column.
        assert all(one.parents[-1].has_class("column") for one in ways)

    @pytest.mark.parametrize("prompt", [1, PROMPTS_A_PAGE, PROMPTS_A_PAGE + 1])
    def test_the_page_of_a_prompt_is_found(
        self, client: Client, long: Session, prompt: int
    ) -> None:
        html = client.get(address(long, "transcript"), {"prompt": str(prompt)}).content.decode()
        assert by_id(html, f"prompt-{prompt}").words.startswith(f"{prompt})")


class TestMemory:
    @pytest.fixture
    def long(self) -> Session:
        """Return a chapter with memory blocks for two full pages and one more block.

        Each block has a different fact.
        """
        count = 2 * BLOCKS_SHOWN + 1
        chapter = make_active_chapter(
            prompt_index=7 * count, last_summarized_prompt_index=7 * count
        )
        for number in range(count):
            first = 7 * number + 1
            locks = {"canon_locks": [f"truth {number}"]}
            add_delta(chapter, first, first + 6, {**turn_delta(first, first + 6), **locks})
        add_turn(chapter, 7 * count, words="beat", reply="reply")
        return chapter

    def test_it_comes_in_pieces_the_last_first(self, client: Client, long: Session) -> None:
        html = client.get(address(long, "draft")).content.decode()
        seen: list[list[str]] = []
        while len(seen) < 3:
            links = all_of(html, "a", "saw-link")
            seen.append([str(one.attributes["href"]).rpartition("/")[2] for one in links])
            earlier = [one for one in all_of(html, "a") if one.words == "Earlier memory"]
            if earlier:
                query = str(earlier[0].attributes["href"]).partition("#")[0]
                html = client.get(address(long, "draft") + query).content.decode()
        count = 2 * BLOCKS_SHOWN + 1
        numbers = [str(number) for number in range(1, count + 1)]
        assert seen == [numbers[BLOCKS_SHOWN + 1 :], numbers[1 : BLOCKS_SHOWN + 1], numbers[:1]]

    def test_an_earlier_piece_stays_when_memory_grows(self, htmx: Client, long: Session) -> None:
        html = htmx.get(address(long, "draft"), {"until": BLOCKS_SHOWN}).content.decode()
        before = numbers_shown(html)
        for _ in range(2):
            update = poll_after_news(htmx, long, html)
            assert numbers_shown(update) == before
            html = update

    def test_the_newest_piece_grows(self, htmx: Client, long: Session) -> None:
        count = 2 * BLOCKS_SHOWN + 1
        html = htmx.get(address(long, "draft"), {"until": count}).content.decode()
        assert numbers_shown(html)[-1] == str(count)
        assert numbers_shown(poll_after_news(htmx, long, html))[-1] == str(count + 1)

    def test_the_now_view_says_what_it_leaves_out(
        self, client: Client, long: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limit = 5
        monkeypatch.setattr("storyengine.tabs.chapter.now_pages.ITEMS_SHOWN", limit)
        html = client.get(address(long, "draft")).content.decode()
        count = 2 * BLOCKS_SHOWN + 1
        words = by_id(html, "memory-now").words
        shown = [number for number in range(count) if f"truth {number} Prompts" in words]
        assert len(shown) == limit
        assert shown[-1] == count - 1
        # The line "… earlier: show all" is above the facts that are shown.
        said, first = f"{count - limit} earlier: show all", f"truth {shown[0]}"
        assert words.index(said) < words.index(first)
        assert href(html, "show all").endswith("#memory")
        html = client.get(address(long, "draft") + href(html, "show all")).content.decode()
        assert "checked" in by_id(html, "memory-shows-now").attributes
        assert all(f">truth {number}<" in html for number in range(count))
