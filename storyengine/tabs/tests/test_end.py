"""The end of a chapter on Tab 2: asked first, waited for, retried, taken back."""

from collections.abc import Callable

import pytest
from django.test import Client

from agents.flows.ending import request_end
from agents.providers.exceptions import ProviderBusy
from agents.providers.scripted import ScriptedProvider
from sessions.models import Session
from sessions.states import State
from sessions.tests.factories import add_prompts, make_active_chapter
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

    def test_tab_3_says_so_too(self, client: Client, unended: Session) -> None:
        html = get_page(client, unended, "draft")
        [banner] = all_of(html, "div", "message-error")
        told = "The chapter could not be ended. Too busy. Play can go on; nothing is lost."
        assert banner.words == f"{told} Retry on Tab 2"

    def test_whoever_plays_on_is_not_reminded(self, htmx: Client, unended: Session) -> None:
        unended.refresh_from_db()
        add_prompts(unended, 1)
        for tab in ("play", "draft"):
            assert not all_of(get_page(htmx, unended, tab), "div", "message-error")
        assert htmx.post(address(unended, "retry-memory")).status_code == 409


class TestEnd:
    def test_without_scripts_it_asks_on_a_page(self, client: Client, chapter: Session) -> None:
        html = get_page(client, chapter, "play")
        [asks] = all_of(html, "form", method="get", action=address(chapter, "confirm-end"))
        assert not all_of(html, "noscript")
        question = client.get(asks.attributes["action"]).content.decode()
        assert all_of(question, "form", method="post", action=address(chapter, "end"))
        assert all_of(question, "a", "button", href=address(chapter, "play"))
        chapter.refresh_from_db()
        assert chapter.is_playable

    def test_a_chapter_that_is_not_in_play_is_not_asked_about(
        self, client: Client, draft: Session
    ) -> None:
        response = client.get(address(draft, "confirm-end"))
        assert response["Location"] == address(draft, "play")

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

    def test_without_prompts_it_is_refused(self, htmx: Client) -> None:
        response = htmx.post(address(make_active_chapter(), "end"))
        assert response.status_code == 409
        assert "no prompts" in response.content.decode()

    def test_an_ended_chapter_can_be_reopened(self, htmx: Client, chapter: Session) -> None:
        Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        assert "Reopen chapter" in get_page(htmx, chapter, "play")
        response = htmx.post(address(chapter, "reopen"))
        assert response["HX-Redirect"] == address(chapter, "play")
        assert all_of(get_page(htmx, chapter, "play"), "textarea")
