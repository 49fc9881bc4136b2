"""Tests of how what was played is read: turns, older turns, addresses of turns, and the search."""

from typing import Any

import pytest
from django.test import Client

from sessions.models import Session
from sessions.record.transcript import read_transcript
from sessions.tests.factories import add_prompts, add_turn, make_active_chapter
from storyengine.tabs.play.transcript_pages import OLDER_TURNS
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page

pytestmark = pytest.mark.django_db


def texts(html: str) -> list[str]:
    return [one.text for one in all_of(html, "p", "entry")]


class TestTurns:
    @pytest.mark.parametrize("name", ["play", "transcript"])
    def test_each_is_an_article_with_a_heading(
        self, client: Client, chapter: Session, name: str
    ) -> None:
        html = get_page(client, chapter, name)
        turns = all_of(html, "article", "turn")
        assert [one.attributes["data-turn"] for one in turns] == [str(n) for n in range(1, 9)]
        headings = [one for one in all_of(html, "h2") if one.parents[-1] in turns]
        assert headings[1].words == "Prompt 2, Agent Orange"
        assert len(headings) == 8

    @pytest.mark.parametrize("name", ["play", "transcript"])
    def test_an_earlier_one_has_one_tab_stop_which_works_without_scripts(
        self, client: Client, chapter: Session, name: str
    ) -> None:
        html = get_page(client, chapter, name)
        first = all_of(html, "article", "turn")[0]
        acts = [one for one in all_of(html, "a") + all_of(html, "button") if first in one.parents]
        stops = [one for one in acts if one.attributes.get("tabindex") != "-1"]
        assert [one.words for one in stops] == ["Why this reply?"]
        assert [one.words for one in acts] == [
            *("Why this reply?", "Link", "Begin another story from here", "Copy")
        ]

    def test_one_that_not_everybody_saw_says_so_once(self, client: Client) -> None:
        chapter = make_active_chapter(prompt_index=2)
        add_turn(chapter, 1, words="Psst.", reply="Yes.", actor=1, witnesses=[1, 3])
        add_turn(chapter, 2, words="Hey.", reply="What?", actor=1)
        html = get_page(client, chapter, "play")
        [seen] = all_of(html, "span", "perceived")
        assert seen.attributes["aria-label"] == "Seen by Agent Red, Agent Yellow."
        assert seen.parents[-2].attributes["data-turn"] == "1"


class TestOlder:
    @pytest.fixture
    def long(self) -> Session:
        chapter = make_active_chapter(last_summarized_prompt_index=35)
        add_prompts(chapter, 140, text="b" * 300, reply="r" * 300)
        return chapter

    def load(self, client: Client, html: str) -> str:
        [link] = all_of(html, "p", "older")
        response = client.get(link.attributes["hx-get"])
        assert response.status_code == 200
        return response.content.decode()

    def test_all_come_until_the_first_each_once_and_in_order(
        self, htmx: Client, long: Session
    ) -> None:
        page = get_page(htmx, long, "play")
        told, html = texts(page), page
        loads = 0
        while all_of(html, "p", "older"):
            html = self.load(htmx, html)
            told = texts(html) + told
            loads += 1
        whole = [one.rendered for one in read_transcript(long, limit=None).entries]
        assert told == whole
        assert loads == -(-(140 - len(texts(page)) // 2) // OLDER_TURNS)

    def test_a_window_that_begins_within_a_turn_gets_the_rest_of_that_turn(
        self, htmx: Client
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 1)
        add_turn(chapter, 2, words="w" * 4_000, reply="r" * 30_000, actor=1)
        add_turn(chapter, 3, words="w" * 4_000, reply="r" * 25_000, actor=1)
        Session.objects.filter(pk=chapter.pk).update(prompt_index=3)
        html = get_page(htmx, chapter, "play")
        first = all_of(html, "article", "turn")[0]
        assert "data-part" in first.attributes
        assert "Prompt 2, Agent Red, continued" in first.words
        older = self.load(htmx, html)
        assert texts(older) == ["1) beat 1", "Agent Red: reply 1", "2) " + "w" * 4_000]

    def test_the_dashed_line_that_lies_above_the_window_comes_with_them(
        self, htmx: Client, long: Session
    ) -> None:
        html = get_page(htmx, long, "play")
        assert "(summary boundary above)" in html
        html = self.load(htmx, html)
        assert "-------------" in [one.text for one in all_of(html, "p", "boundary")]

    @pytest.mark.parametrize("query", ["", "?before=x", "?before=-3&part=9999", "?before=99999"])
    def test_what_is_no_turn_brings_nothing(self, htmx: Client, long: Session, query: str) -> None:
        response = htmx.get(address(long, "older") + query)
        assert response.status_code == 200
        assert texts(response.content.decode()) == []


class TestAddress:
    def test_it_leads_to_the_page_and_the_place_of_the_turn(
        self, client: Client, chapter: Session
    ) -> None:
        response = client.get(address(chapter, "turn", 5))
        assert response.status_code == 302
        page, _, place = response["Location"].partition("#")
        assert by_id(client.get(page).content.decode(), place).words == "5) beat 5"

    @pytest.mark.parametrize("number", [0, 9, 10**9])
    def test_one_that_was_not_played_is_not_found(
        self, client: Client, chapter: Session, number: int
    ) -> None:
        assert client.get(address(chapter, "turn", number)).status_code == 404


class TestSearch:
    @pytest.fixture
    def story(self) -> Session:
        chapter = make_active_chapter()
        add_prompts(chapter, 30)
        add_turn(chapter, 31, words="The heron counts backwards.", reply="I listen.", actor=2)
        Session.objects.filter(pk=chapter.pk).update(prompt_index=31)
        return chapter

    def ask(self, client: Client, chapter: Session, words: str) -> Any:
        return client.get(address(chapter, "search"), {"q": words})

    def found(self, html: str) -> list[Element]:
        return [one for one in all_of(html, "a") if "data-goes-to" in one.attributes]

    def test_a_turn_is_found_by_its_words_and_leads_to_its_place(
        self, client: Client, story: Session
    ) -> None:
        html = self.ask(client, story, "which heron was it?").content.decode()
        [first, *_] = self.found(html)
        assert first.words == "Prompt 31"
        assert first.attributes["href"] == address(story, "turn", 31)
        assert "The <mark>heron</mark> counts backwards." in html
        assert by_id(html, "search-words").attributes["value"] == "which heron was it?"

    def test_a_number_leads_to_the_prompt(
        self, client: Client, htmx: Client, story: Session
    ) -> None:
        response = self.ask(client, story, "12")
        assert response["Location"].endswith("?prompt=12#prompt-12")
        html = self.ask(htmx, story, "12").content.decode()
        assert self.found(html)[0].words == "Go to prompt 12"

    def test_a_long_passage_is_shown_around_the_words(self, client: Client, story: Session) -> None:
        words = "Snow falls. " * 200 + "A heron! " + "Snow falls. " * 200
        add_turn(story, 32, words=words, reply="Yes.", actor=1)
        Session.objects.filter(pk=story.pk).update(prompt_index=32)
        html = self.ask(client, story, "heron").content.decode()
        shown = [one.words for one in all_of(html, "span", "found-words")]
        [around] = [one for one in shown if "A heron!" in one]
        assert around.startswith("… ")
        assert around.endswith(" …")
        assert len(around) < 400

    def test_the_words_are_marked_and_stay_text(self, client: Client, story: Session) -> None:
        words = "<b>Zoë</b> & the <script>alert(1)</script> café's key"
        add_turn(story, 32, words=words, reply="Yes.", actor=1)
        Session.objects.filter(pk=story.pk).update(prompt_index=32)
        html = self.ask(client, story, "zoe cafe").content.decode()
        assert [one.words for one in all_of(html, "mark")] == ["Zoë", "café"]
        assert "&lt;b&gt;<mark>Zoë</mark>&lt;/b&gt; &amp;" in html
        assert "<script>alert" not in html
