"""Tests of editing the latest reply, in a form on Tab 2 and on a page of its own."""

from typing import Any

import pytest
from django.test import Client, RequestFactory

from sessions.limits import REPLY_CHAR_LIMIT
from sessions.models import Attempt, Session
from sessions.play.acts import act
from sessions.play.committing import reply_of
from sessions.play.played_world import NewChange
from sessions.tests.factories import add_attempt, add_prompts, add_reply
from storyengine.access.tests.asgi_calls import Exchange
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page
from testing.refusals import ANOTHER_WAS_CHOSEN, PLAY_HAS_GONE_ON, USER_HAS_ACTED

pytestmark = pytest.mark.django_db


def chosen_of(chapter: Session) -> Attempt:
    return chapter.turns.get(number=8).chosen


def open_form(client: Client, chapter: Session, number: int = 8) -> str:
    response = client.get(address(chapter, "edit", number))
    assert response.status_code == 200
    return response.content.decode()


def fields_of(html: str) -> dict[str, str]:
    """Return the fields that the form would send if the user changed nothing."""
    [form] = [one for one in all_of(html, "form") if "/play/edit/" in one.attributes["action"]]
    hidden = [one for one in all_of(html, "input", type="hidden") if form in one.parents]
    sent = {one.attributes["name"]: one.attributes["value"] for one in hidden}
    return sent | {"text": by_id(html, "edited-text").text.removeprefix("\n")}


def save(client: Client, chapter: Session, form: str, text: str, number: int = 8) -> Any:
    return client.post(address(chapter, "save-edit", number), fields_of(form) | {"text": text})


def links(html: str) -> list[Element]:
    """Return the links of wide windows. Narrow ones have the same link in a menu."""
    return [one for one in all_of(html, "a", "only-wide") if "data-edits" in one.attributes]


class TestLink:
    def test_the_latest_reply_has_one_that_works_without_scripts(
        self, client: Client, chapter: Session
    ) -> None:
        [link] = links(get_page(client, chapter, "play"))
        assert link.attributes["href"] == link.attributes["hx-get"] == address(chapter, "edit", 8)
        assert link.attributes["aria-label"] == "Edit the reply to prompt 8"
        assert link.attributes["aria-label"].startswith(link.words)
        assert len(all_of(get_page(client, chapter, "play"), "a", "only-narrow")) == 2

    def test_beside_a_reply_that_is_being_written_there_is_none(
        self, client: Client, chapter: Session
    ) -> None:
        add_attempt(chapter)
        assert not links(get_page(client, chapter, "play"))


class TestForm:
    def test_it_has_the_chosen_text_with_a_name_and_a_cap(
        self, client: Client, chapter: Session
    ) -> None:
        add_reply(chapter, 8, "\nTwo\n\nlines & <b>more</b>.")
        html = open_form(client, chapter)
        field = by_id(html, "edited-text")
        assert field.text == "\n\nTwo\n\nlines & <b>more</b>."
        assert field.attributes["data-limit"] == "1000000"
        [label] = all_of(html, "label", **{"for": "edited-text"})
        assert label.words == "Edit the reply of Agent Orange to prompt 8"
        assert "no model is called" in by_id(html, field.attributes["aria-describedby"]).words
        assert "autofocus" in field.attributes

    def test_as_a_swap_it_is_the_form_alone_and_saves_into_the_play_area(
        self, htmx: Client, chapter: Session
    ) -> None:
        html = open_form(htmx, chapter)
        assert not all_of(html, "title")
        [form] = all_of(html, "form")
        assert form.attributes["hx-target"] == "#play-upper"
        assert by_id(get_page(htmx, chapter, "play"), "edit-area").text == ""

    def test_once_the_user_has_acted_the_page_says_why_not(
        self, client: Client, chapter: Session
    ) -> None:
        act(chapter.pk, lambda _chapter: [NewChange("took", {"what": "rope"})])
        response = client.get(address(chapter, "edit", 8))
        assert response.status_code == 409
        assert USER_HAS_ACTED in response.content.decode()


class TestSaving:
    def test_the_text_is_an_attempt_that_is_chosen_and_the_form_goes(
        self, htmx: Client, chapter: Session
    ) -> None:
        before = chosen_of(chapter)
        html = save(htmx, chapter, open_form(htmx, chapter), "By\r\nhand.").content.decode()
        edit = chosen_of(chapter)
        assert (edit.kind, edit.source, reply_of(edit).text) == ("edit", before, "By\nhand.")
        assert all_of(html, "p", "entry")[-1].text == "Agent Orange: By\nhand."
        area = by_id(html, "edit-area")
        assert (area.text, area.attributes["hx-swap-oob"]) == ("", "true")
        assert by_id(html, "announcement").words == "Reply 2 of 2. Agent Orange: By hand."
        assert links(html)

    def test_words_changed_after_an_answer_was_lost_are_saved_too(
        self, htmx: Client, chapter: Session
    ) -> None:
        form = open_form(htmx, chapter)
        for text in ("By hand.", "By hand, later."):
            assert save(htmx, chapter, form, text).status_code == 200
        assert reply_of(chosen_of(chapter)).text == "By hand, later."

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (" \n", "The reply is empty."),
        ],
    )
    def test_what_cannot_be_a_reply_is_refused_beside_it(
        self, htmx: Client, chapter: Session, text: str, said: str
    ) -> None:
        before = chosen_of(chapter)
        response = save(htmx, chapter, open_form(htmx, chapter), text)
        assert response.status_code == 422
        assert response["HX-Retarget"].startswith("find .refusal")
        assert said in response.content.decode()
        assert chosen_of(chapter) == before

    def test_a_refused_plain_form_gives_the_words_back(
        self, client: Client, chapter: Session
    ) -> None:
        form = open_form(client, chapter)
        add_prompts(chapter, 1)
        response = save(client, chapter, form, "By <hand>.")
        assert response.status_code == 409
        html = response.content.decode()
        assert PLAY_HAS_GONE_ON in html
        assert [one.text for one in all_of(html, "textarea")] == ["\nBy <hand>."]

    def test_when_another_reply_is_chosen_meanwhile_it_is_not_taken_for_that_one(
        self, htmx: Client, chapter: Session
    ) -> None:
        form = open_form(htmx, chapter)
        other = add_reply(chapter, 8, "again")
        response = save(htmx, chapter, form, "By hand.")
        assert response.status_code == 409
        assert ANOTHER_WAS_CHOSEN in response.content.decode()
        assert chosen_of(chapter) == other

    @pytest.mark.weekly
    @pytest.mark.parametrize("character", ["\r\n", "\N{HIRAGANA LETTER A}", "\N{WATER WAVE}"])
    @pytest.mark.parametrize("more", [0, 1])
    def test_the_longest_reply_fits_and_words_that_are_too_long_come_back(
        self,
        client: Client,
        chapter: Session,
        caplog: pytest.LogCaptureFixture,
        character: str,
        more: int,
    ) -> None:
        html = open_form(client, chapter)
        [form] = all_of(html, "form", action=address(chapter, "save-edit", 8))
        # In a URL-encoded form, one character of the text could take twelve bytes.
        assert form.attributes["enctype"] == "multipart/form-data"
        text = "a" * more + character * (REPLY_CHAR_LIMIT - 1) + "z"
        sent = RequestFactory().post("/", fields_of(html) | {"text": text})
        length = int(sent.META["CONTENT_LENGTH"])
        assert Exchange(length, path=address(chapter, "save-edit", 8)).status == 200
        response = save(client, chapter, html, text)
        text = text.replace("\r\n", "\n")
        if more:
            assert response.status_code == 422
            assert text in response.content.decode().replace("\r\n", "\n")
        else:
            assert response.status_code == 302
            assert reply_of(chosen_of(chapter)).text == text
        assert not [one for one in caplog.records if one.levelname == "ERROR"]
