from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents.flows.telling.ending import request_end
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session, State
from sessions.tests.factories import add_attempt
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, get_page, read

pytestmark = pytest.mark.django_db


class TestFailedEnd:
    @pytest.fixture
    def unended(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> Session:
        request_end(chapter.pk)
        provider.enqueue(ProviderBusy("Too busy."))
        run_jobs()
        return chapter

    def test_the_banner_says_so_and_retry_ends_the_chapter(
        self, htmx: Client, unended: Session, run_jobs: Callable[[], int]
    ) -> None:
        html = get_page(htmx, unended, "play")
        [banner] = all_of(html, "div", "message-error")
        assert banner.words.startswith("The chapter could not be ended. Prompt 8 could not be")
        assert "Too busy." in banner.words
        [retry] = [one.parents[-1] for one in all_of(html, "button") if banner in one.parents]
        response = htmx.post(retry.attributes["action"], {"shape": "playing"})
        assert response["HX-Redirect"] == address(unended, "play")
        assert "The chapter is ending" in get_page(htmx, unended, "play")
        run_jobs()
        assert "This chapter is ended." in get_page(htmx, unended, "play")


class TestUnfinished:
    """Tests of ending a chapter whose latest prompt has no complete reply."""

    @pytest.fixture
    def broken(self, chapter: Session) -> Attempt:
        return add_attempt(chapter, status=Attempt.Status.STOPPED, partial_text="I hear")

    @pytest.fixture
    def broken_reroll(self, chapter: Session) -> Attempt:
        turn = chapter.turns.get(number=8)
        again: dict[str, Any] = {"kind": Attempt.Kind.REROLL, "turn": turn}
        return add_attempt(chapter, status=Attempt.Status.STOPPED, words="beat 8", **again)

    def asked(self, client: Client, chapter: Session) -> list[str]:
        """Return the text about the incomplete reply twice: from the dialog on Tab 2, and from the
        page that asks whether to end the chapter."""
        names = ("play", "confirm-end")
        said = [by_id(get_page(client, chapter, one), "end-unfinished") for one in names]
        return ["" if "hidden" in one.attributes else one.words for one in said]

    def test_the_question_says_what_becomes_of_a_prompt(
        self, client: Client, chapter: Session, broken: Attempt
    ) -> None:
        assert (
            self.asked(client, chapter)
            == [
                "Your prompt to Agent Orange, which got no whole reply, is no part of the chapter. "
                "Its words are kept; if you reopen the chapter, you can retry it."
            ]
            * 2
        )

    def test_the_dialog_hears_of_it_with_each_change_of_the_page(
        self, htmx: Client, chapter: Session, broken: Attempt
    ) -> None:
        html = htmx.post(address(chapter, "show-replies"), {"all": "1"}).content.decode()
        assert by_id(html, "end-unfinished").words.startswith("Your prompt to Agent Orange")
        html = htmx.post(address(chapter, "set-aside")).content.decode()
        assert "hidden" in by_id(html, "end-unfinished").attributes


class TestEnd:
    def test_without_scripts_it_asks_on_a_page(self, client: Client, chapter: Session) -> None:
        html = get_page(client, chapter, "play")
        [asks] = all_of(html, "form", method="get", action=address(chapter, "confirm-end"))
        # Nothing of the end is for browsers without scripts alone.
        alone = all_of(html, "noscript")
        assert not [one for one in alone if by_id(html, "end-area") in one.parents]
        question = client.get(asks.attributes["action"]).content.decode()
        assert all_of(question, "form", method="post", action=address(chapter, "end"))
        assert all_of(question, "a", "button", href=address(chapter, "play"))
        chapter.refresh_from_db()
        assert chapter.is_playable

    def test_it_asks_first(self, client: Client, chapter: Session) -> None:
        html = get_page(client, chapter, "play")
        dialog = by_id(html, "end-dialog")
        assert address(chapter, "end") in {
            one.attributes.get("action") for one in read(html) if dialog in one.parents
        }

    def test_while_it_waits_for_memory_nothing_can_be_prompted(
        self, htmx: Client, chapter: Session
    ) -> None:
        response = htmx.post(address(chapter, "end"))
        assert response["HX-Redirect"] == address(chapter, "play")
        html = get_page(htmx, chapter, "play")
        assert "The chapter is ending" in html
        assert not all_of(html, "textarea")
        assert "hx-get" in by_id(html, "play-poll").attributes

    def test_an_ended_chapter_can_be_reopened(self, htmx: Client, chapter: Session) -> None:
        Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        assert "Reopen chapter" in get_page(htmx, chapter, "play")
        response = htmx.post(address(chapter, "reopen"))
        assert response["HX-Redirect"] == address(chapter, "play")
        assert all_of(get_page(htmx, chapter, "play"), "textarea")
