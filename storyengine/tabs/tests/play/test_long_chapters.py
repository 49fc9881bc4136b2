"""Tests of pages with long chapters or many chapters."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from sessions.models import Attempt, Session, State
from sessions.tests.factories import (
    add_attempt,
    add_prompts,
    add_turn,
    make_active_chapter,
    make_cast,
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

    def test_a_page_that_is_not_there_is_the_last(self, client: Client) -> None:
        make_chapter(title="The Dark Lamp")
        for page in ("99", "0", "x" * 5_000):
            assert "The Dark Lamp" in client.get("/", {"page": page}).content.decode()


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

    @pytest.mark.parametrize("prompt", ["0", "999999", "²", "-1", "9" * 5_000])
    def test_a_prompt_that_is_not_there_is_the_first_page(
        self, client: Client, long: Session, prompt: str
    ) -> None:
        html = client.get(address(long, "transcript"), {"prompt": prompt}).content.decode()
        assert by_id(html, "prompt-1").words.startswith("1)")

    def test_what_was_set_aside_stands_at_the_end(self, client: Client, long: Session) -> None:
        add_attempt(long, status=Attempt.Status.SET_ASIDE)
        pages = [
            client.get(address(long, "transcript"), {"page": page}).content.decode()
            for page in ("1", "2")
        ]
        assert ["The ice cracks." in html for html in pages] == [False, True]


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

    def test_a_now_view_that_shows_all_stays_so(self, htmx: Client, long: Session) -> None:
        html = htmx.get(address(long, "draft"), {"show": "now", "all": "1"}).content.decode()
        for _ in range(2):
            html = poll_after_news(htmx, long, html)
            assert ">truth 0<" in html

    def test_a_link_keeps_what_else_is_looked_at(self, client: Client, long: Session) -> None:
        for _ in range(2):
            long.narrative_drafts.create(
                target_words=100, source_snapshot={}, chapter_text="Prose."
            )
        looked_at = {"draft": "1", "until": str(2 * BLOCKS_SHOWN), "all": "1", "show": "now"}
        html = client.get(address(long, "draft"), looked_at).content.decode()
        for words, changed in (
            ("Earlier memory", {"until": str(BLOCKS_SHOWN), "show": None}),
            ("Later memory", {"until": str(2 * BLOCKS_SHOWN + 1), "show": None}),
            ("Draft 2", {"draft": "2"}),
        ):
            named = dict(parse_qsl(urlsplit(href(html, words)).query))
            expected = looked_at | changed
            assert named == {name: value for name, value in expected.items() if value}

    def test_a_build_leaves_what_is_read_of_memory(self, htmx: Client, long: Session) -> None:
        Session.objects.filter(pk=long.pk).update(state=State.ENDED)
        looked_at = {"until": str(BLOCKS_SHOWN), "all": "1"}
        html = htmx.get(address(long, "draft"), looked_at).content.decode()
        before = numbers_shown(html)
        for name in ("build", "cancel"):
            [form] = all_of(html, "form", action=address(long, name))
            fields = {
                one.attributes["name"]: one.attributes["value"]
                for one in all_of(html, "input")
                if form in one.parents
            }
            html = htmx.post(form.attributes["action"], fields).content.decode()
            assert numbers_shown(html) == before
            assert ">truth 0<" in html

    def test_the_links_to_other_pieces_do_not_scroll_with_the_blocks(
        self, client: Client, long: Session
    ) -> None:
        html = client.get(address(long, "draft"), {"until": 2 * BLOCKS_SHOWN}).content.decode()
        links = [
            one for one in all_of(html, "a") if one.words in ("Earlier memory", "Later memory")
        ]
        assert len(links) == 2
        blocks = by_id(html, "memory-blocks")
        assert not any(blocks in one.parents for one in links)

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

    def test_the_now_view_follows_memory_and_names(self, client: Client, long: Session) -> None:
        def words() -> str:
            return by_id(client.get(address(long, "draft")).content.decode(), "memory-now").words

        assert words() == words()
        last = long.prompt_index
        moved = [{"key": "Mara's location", "before": "", "after": "the ice"}]
        add_delta(long, last + 1, last + 7, turn_delta(last + 1, last + 7, state_changes=moved))
        assert "Mara's location: the ice" in words()
        make_cast(long, name={"1": "Mara"})
        assert "Mara: the ice" in words()


def test_the_estimate_is_a_page_of_its_own_too(client: Client, chapter: Session) -> None:
    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
    answer = client.get(reverse("pages:build-estimate", args=[chapter.pk]))
    assert answer.status_code == 200
    assert "tokens" in answer.content.decode()
