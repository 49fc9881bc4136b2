"""Tests of the pages of a chapter whose memory is far behind.

Tab 2 and the page that ends the chapter ask the user before the model is called. Tab 3 says how far
memory is behind.
"""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from agents.calling.tests.bookkeeping import chunks_of
from agents.flows.telling.ending import retry_summary
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.tests.replies import world_lock
from memory.tests.factories import add_lock
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page, read

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture
def behind(db: None) -> Session:
    """Return a chapter in play. Memory does not cover its last three stretches and one more
    prompt."""
    chapter = make_active_chapter()
    add_prompts(chapter, 22)
    add_lock(chapter, world_lock())
    return chapter


def form_of(html: str, action: str) -> tuple[Element, dict[str, str]]:
    """Return the form that is sent to this address, and the values of its fields."""
    elements = read(html)
    [form] = [one for one in elements if one.attributes.get("action") == action]
    inputs = [one.attributes for one in elements if one.tag == "input" and form in one.parents]
    return form, {each["name"]: each["value"] for each in inputs}


class TestOnTab2:
    def test_it_asks_with_the_number_and_about_the_cost(
        self, client: Client, behind: Session, settings: Settings
    ) -> None:
        settings.LLM = "openai"
        html = get_page(client, behind, "play")
        [notice] = all_of(html, "div", "notices")
        assert "Prompts 1-21 are not in memory yet." in notice.words
        assert "That takes 3 calls of the model." in notice.words
        # The notice names the number of calls once, so the button need not name it again.
        assert len(re.findall(r"[0-9]+ calls?", notice.words)) == 1
        assert "tokens to read and" in notice.words
        assert "$" in notice.words
        [form] = all_of(html, "form", action=address(behind, "retry-memory"))
        assert form.words == "Accept and write memory"

    def test_once_accepted_it_says_how_far_memory_is_until_it_is_there(
        self, htmx: Client, behind: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        retry_summary(behind.pk, accept_calls=True)
        html = get_page(htmx, behind, "play")
        assert "Of 3 stretches of the chapter, 0 are written." in html
        for written in ("1 is", "2 are"):
            poll = by_id(html, "play-poll").attributes["hx-get"]
            run_jobs()
            html = htmx.get(poll).content.decode()
            assert f"Of 3 stretches of the chapter, {written} written." in html
            assert f"stretches of the chapter, {written} written." in get_page(
                htmx, behind, "draft"
            )
            play(behind)
            html = get_page(htmx, behind, "play")
        poll = by_id(html, "play-poll").attributes["hx-get"]
        run_jobs()
        assert "catching up" not in htmx.get(poll).content.decode()
        assert "catching up" not in get_page(htmx, behind, "draft")

    def test_play_goes_on_until_the_answer(
        self, client: Client, behind: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        play(behind)
        run_jobs()
        html = get_page(client, behind, "play")
        assert all_of(html, "textarea")
        assert by_id(html, "play-poll").attributes["hx-trigger"] == "every 5s"
        assert len(provider.history) == 1

    @pytest.mark.parametrize(
        "browser",
        [
            "client",
        ],
    )
    def test_the_answer_starts_one_call(
        self,
        browser: str,
        behind: Session,
        run_jobs: RunJobs,
        request: pytest.FixtureRequest,
    ) -> None:
        visitor: Client = request.getfixturevalue(browser)
        form, fields = form_of(get_page(visitor, behind, "play"), address(behind, "retry-memory"))
        response = visitor.post(form.attributes["action"], fields, follow=True)
        assert "Memory of prompts 1-7 is being written" in response.content.decode()
        assert "far behind" not in response.content.decode()
        run_jobs()
        assert chunks_of(behind) == [(1, 7)]

    def test_a_retry_that_names_no_number_is_refused_with_it(
        self, htmx: Client, behind: Session
    ) -> None:
        response = htmx.post(address(behind, "retry-memory"), {"shape": "playing"})
        assert response.status_code == 409
        assert "takes 3 calls" in response.content.decode()
        assert not Job.objects.exists()

    def test_a_poll_hears_of_the_question(
        self, htmx: Client, behind: Session, provider: ScriptedProvider
    ) -> None:
        Session.objects.update(accepted_calls=3)
        html = get_page(htmx, behind, "play")
        play(behind)
        before = by_id(get_page(htmx, behind, "play"), "play-poll").attributes["hx-get"]
        Session.objects.update(accepted_calls=0)
        response = htmx.get(before)
        assert response.status_code == 200
        assert "far behind" in response.content.decode()
        assert "far behind" not in html


class TestAtTheEnd:
    def test_the_question_names_the_number_and_the_answer_carries_it(
        self, client: Client, behind: Session, run_jobs: RunJobs
    ) -> None:
        # A separate page asks the question. A dialog on Tab 2 could show a number of calls that is
        # no longer right.
        play_page = get_page(client, behind, "play")
        assert not all_of(play_page, "dialog", id="end-dialog")
        [asks] = all_of(play_page, "form", action=address(behind, "confirm-end"))
        html = client.get(asks.attributes["action"]).content.decode()
        form, fields = form_of(html, address(behind, "end"))
        assert form.words == "Accept and end"
        assert "Prompts 1-21 are not in memory yet, and to end the chapter they are written" in html
        assert "with the latest, 22. That takes 4 calls" in html
        client.post(form.attributes["action"], fields)
        run_jobs()
        assert len(chunks_of(behind)) == 4
        assert "This chapter is ended." in get_page(client, behind, "play")


class TestOnTab3:
    def test_it_says_who_is_asked(self, client: Client, behind: Session) -> None:
        html = get_page(client, behind, "draft")
        assert (
            "It takes 3 model calls, which you have not accepted yet."
            in by_id(html, "memory").words
        )
        assert "The next piece" not in html
