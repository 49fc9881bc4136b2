"""Tests that the page shows prompts that were set aside, and lets the user send their words
again."""

from typing import Any

import pytest
from django.test import Client

from sessions.models import Attempt, Session
from sessions.tests.factories import add_attempt, add_prompts
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page

pytestmark = pytest.mark.django_db


def break_prompt(chapter: Session, **fields: Any) -> Attempt:
    return add_attempt(chapter, **{"status": Attempt.Status.STOPPED, **fields})


def break_reroll(chapter: Session) -> Attempt:
    turn = chapter.turns.get(number=8)
    again: dict[str, Any] = {"kind": Attempt.Kind.REROLL, "turn": turn, "submission_key": "again"}
    return break_prompt(chapter, partial_text="I hear", words="beat 8", **again)


def set_aside(client: Client, chapter: Session) -> str:
    return client.post(address(chapter, "set-aside")).content.decode()


def notices(html: str) -> list[Element]:
    return all_of(html, "div", "set-aside")


class TestNotice:
    def test_it_names_the_character_and_what_was_kept(self, htmx: Client, chapter: Session) -> None:
        break_prompt(chapter, partial_text="I hear")
        assert not notices(get_page(htmx, chapter, "play"))
        for html in (set_aside(htmx, chapter), get_page(htmx, chapter, "play")):
            [notice] = notices(html)
            assert notice.words.startswith("Your prompt to Agent Orange got no whole reply")
            assert "Its words, and the reply as far as it was written, are kept" in notice.words
            [kept] = [one for one in all_of(html, "a") if one.words == "below the whole transcript"]
            response = htmx.get(kept.attributes["href"])
            assert by_id(response.content.decode(), "set-aside").words

    def test_those_who_cannot_see_it_hear_of_it(self, htmx: Client, chapter: Session) -> None:
        break_prompt(chapter)
        said = by_id(set_aside(htmx, chapter), "announcement").words
        assert said == "The story goes on without it. Your words are kept."

    def test_a_reroll_that_is_set_aside_leaves_the_reply_and_no_notice(
        self, htmx: Client, chapter: Session
    ) -> None:
        break_reroll(chapter)
        html = set_aside(htmx, chapter)
        assert not notices(html)
        assert (
            by_id(html, "announcement").words
            == "The story goes on without it. The earlier reply stands."
        )

    def test_a_prompt_that_another_one_set_aside_is_named_until_that_is_answered(
        self, client: Client, chapter: Session
    ) -> None:
        break_prompt(chapter, status=Attempt.Status.SET_ASIDE)
        add_attempt(chapter, submission_key="next", words="Another.", actor=3)
        [notice] = notices(get_page(client, chapter, "play"))
        assert notice.words.startswith("Your prompt to Agent Orange got no whole reply")
        chapter.attempts.filter(submission_key="next").delete()
        add_prompts(chapter, 1)
        assert not notices(get_page(client, chapter, "play"))


class TestWords:
    def test_they_are_put_back_without_scripts_with_those_who_perceive_them(
        self, client: Client, chapter: Session
    ) -> None:
        words = "\nThe <b>ice</b>\ncracks."
        break_prompt(chapter, status=Attempt.Status.SET_ASIDE, words=words, witnesses=[2])
        html = get_page(client, chapter, "play")
        [notice] = notices(html)
        [link] = [
            one
            for one in all_of(html, "a")
            if "data-puts-back" in one.attributes and notice in one.parents
        ]
        assert link.attributes["data-puts-back"] == "2"
        query, _, place = link.attributes["href"].partition("?")[2].partition("#")
        assert place == "prompt-text"
        html = get_page(client, chapter, "play", words=query.removeprefix("words="))
        assert by_id(html, "prompt-text").text == f"\n{words}"
        ticks = all_of(html, "input", name="witnesses", type="checkbox")
        assert ["checked" in one.attributes for one in ticks] == [False, True, False]

    def test_scripts_find_them_beside_the_link(self, client: Client, chapter: Session) -> None:
        break_prompt(chapter, status=Attempt.Status.SET_ASIDE, witnesses=[2])
        html = get_page(client, chapter, "play")
        [notice] = notices(html)
        kept = [one for one in all_of(html, "textarea") if notice in one.parents]
        assert [one.text for one in kept] == ["\nThe ice cracks."]
        slots = [one for one in all_of(html, "input", name="witnesses") if notice in one.parents]
        assert [one.attributes["value"] for one in slots] == ["2"]
