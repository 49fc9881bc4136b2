"""Tests of the page that forks a chapter, of the fork, and of the links between the fork and its
origin."""

from typing import Any

import pytest
from django.test import Client

from agents.tests.recorded_calls import add_call
from sessions.models import Session, State
from storyengine.exchange.forking import fork_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page

pytestmark = pytest.mark.django_db


def ask(client: Client, chapter: Session, number: int) -> Any:
    return client.get(address(chapter, "confirm-fork", number))


def send(client: Client, chapter: Session, number: int, key: str = "form") -> Any:
    fields = {"number": str(number), "submission_key": key}
    return client.post(address(chapter, "fork"), fields)


def links_to_fork(html: str) -> list[Element]:
    return [one for one in all_of(html, "a") if "/fork/" in one.attributes.get("href", "")]


class TestLink:
    @pytest.mark.parametrize("name", ["play", "transcript"])
    def test_each_turn_has_one(self, client: Client, chapter: Session, name: str) -> None:
        links = links_to_fork(get_page(client, chapter, name))
        assert [link.attributes["href"] for link in links] == [
            address(chapter, "confirm-fork", number) for number in range(1, 9)
        ]
        assert {link.text for link in links} == {"Begin another story from here"}
        said = "Begin another story from here, after prompt 7"
        assert links[6].attributes["aria-label"] == said

    def test_it_leads_to_a_page_from_a_chapter_that_has_ended(
        self, client: Client, chapter: Session
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        [link, *_] = links_to_fork(get_page(client, chapter, "play"))
        assert client.get(link.attributes["href"]).status_code == 200


class TestQuestion:
    def test_it_says_what_goes_along_and_what_does_not(
        self, client: Client, chapter: Session
    ) -> None:
        words = by_id(ask(client, chapter, 7).content.decode(), "main").words
        assert "prompts 1 to 7 with every reply" in words
        assert "Memory goes as far as prompt 7" in words
        assert "Every secret of the characters goes along" in words
        assert "1 later prompt with the memory of them, drafts" in words
        early = by_id(ask(client, chapter, 1).content.decode(), "main").words
        assert "prompt 1 with every reply" in early
        assert "Memory does not cover any of it yet." in early
        assert "7 later prompts" in early
        assert "later" not in by_id(ask(client, chapter, 8).content.decode(), "main").words


class TestFork:
    def test_the_new_chapter_opens(self, client: Client, chapter: Session) -> None:
        response = send(client, chapter, 3)
        fork = Session.objects.exclude(pk=chapter.pk).get()
        assert response["Location"] == address(fork, "play")
        page = get_page(client, fork, "play")
        assert "reply 3" in page
        assert "reply 4" not in page

    def test_the_same_form_twice_leads_to_the_same(self, client: Client, chapter: Session) -> None:
        places = {send(client, chapter, 3)["Location"] for _ in range(2)}
        assert len(places) == 1
        assert Session.objects.count() == 2

    def test_while_it_is_being_stored_the_form_is_told_to_wait(
        self, client: Client, chapter: Session
    ) -> None:
        send(client, chapter, 3)
        Session.objects.exclude(pk=chapter.pk).update(state=State.IMPORTING)
        response = send(client, chapter, 3)
        assert response.status_code == 409
        assert "The fork is being made" in response.content.decode()


class TestOrigin:
    @pytest.fixture
    def fork(self, chapter: Session) -> Session:
        Session.objects.filter(pk=chapter.pk).update(title="The <b>Lamp</b>")
        return fork_chapter(chapter.pk, 3)

    @pytest.mark.parametrize("name", ["library", "world", "play", "draft", "usage"])
    def test_the_fork_names_it_and_leads_to_it(
        self, client: Client, chapter: Session, fork: Session, name: str
    ) -> None:
        html = self.html_of(client, fork, name)
        [line] = [one for one in all_of(html, "p") if one.words.startswith("Fork of")]
        assert line.words == "Fork of The <b>Lamp</b> at prompt 3"
        [link] = [one for one in all_of(html, "a") if one.parents[-1].words == line.words]
        assert link.attributes["href"] == address(chapter, "chapter")

    def html_of(self, client: Client, chapter: Session, name: str) -> str:
        if name == "library":
            return client.get("/").content.decode()
        return get_page(client, chapter, name)


class TestSpending:
    @pytest.fixture
    def fork(self, chapter: Session) -> Session:
        add_call(chapter, "o4-mini", input=12_000, output=345)
        return fork_chapter(chapter.pk, 3)

    def test_the_question_names_what_counts(
        self, client: Client, chapter: Session, fork: Session
    ) -> None:
        words = by_id(ask(client, chapter, 3).content.decode(), "main").words
        assert "This chapter has used 12,345 tokens, the pieces of words by which" in words
        assert "set how much one chapter may use or cost, a fork does not start afresh." in words
        assert "caps" not in words

    def test_the_meter_has_what_was_inherited_and_the_page_says_which_part_it_is(
        self, client: Client, chapter: Session, fork: Session
    ) -> None:
        add_call(chapter, "o4-mini", estimated=(20, 10))
        fork = fork_chapter(chapter.pk, 4)
        html = get_page(client, fork, "usage")
        assert "12k tokens" in by_id(html, "meter").words
        said = "About 12,375 of these tokens were used in “The Dark Lamp” before"
        assert any(one.words.startswith(said) for one in all_of(html, "p"))
        heads = [one.words for one in all_of(html, "th", scope="row")]
        assert heads == ["Before the fork o4-mini", "All"]
        cells = [one.words for one in all_of(html, "td")]
        # The calls themselves are counted in the origin.
        figures = ["about 12,020", "0", "about 355", "$0.01"]
        assert cells[:8] == cells[8:] == [*figures, *["\N{EN DASH}"] * 4]
