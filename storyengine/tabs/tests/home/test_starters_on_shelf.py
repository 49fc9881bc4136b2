"""The cards of starters on the home page, and the pages of a chapter that came from one."""

import re
import uuid

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.calling.model_access import AgentModel
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import EmbeddedServer
from sessions.chapter.starters import Starter, all_starters
from sessions.models import Session, State
from sessions.play.attempts import open_prompt
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id

pytestmark = pytest.mark.django_db

FIRST = all_starters()[0]


@pytest.fixture
def played(client: Client) -> Session:
    client.post(reverse("pages:begin-starter", args=[FIRST.name]))
    return Session.objects.get()


def read(client: Client, where: str) -> str:
    return client.get(where).content.decode()


class TestCards:
    def test_each_starter_has_one_with_its_cast(self, client: Client) -> None:
        cards = all_of(read(client, "/"), "article", "starter")
        assert len(cards) == 3
        # A world to explore takes the place of the last one.
        assert "A world to explore" in cards[-1].words
        for card, starter in zip(cards[:-1], all_starters()[:-1], strict=True):
            told = [starter.title, starter.kind, starter.premise]
            told += [text for one in starter.characters for text in (one.name, one.hint)]
            for text in told:
                assert text in card.words


class TestPlay:
    @pytest.mark.parametrize("starter", all_starters(), ids=lambda one: one.name)
    def test_one_click_leads_into_play(
        self, client: Client, htmx: Client, starter: Starter, provider: ScriptedProvider
    ) -> None:
        answer = htmx.post(reverse("pages:begin-starter", args=[starter.name]))
        chapter = Session.objects.get()
        assert answer["HX-Redirect"] == address(chapter, "play")
        transcript = by_id(read(client, address(chapter, "play")), "transcript").words
        for number, turn in enumerate(starter.turns, start=1):
            assert f"{number}) {turn.prompt}" in transcript
            assert turn.reply.splitlines()[-1] in transcript
        assert not provider.history

    def test_the_next_prompt_is_suggested_and_one_click_sends_it(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        html = read(client, address(played, "play"))
        assert by_id(html, "suggested-words").text == FIRST.next.prompt
        [form] = [
            one
            for one in all_of(html, "form", action=address(played, "prompt"))
            if one.attributes.get("id") != "prompt-form"
        ]
        sent = {
            one.attributes["name"]: one.attributes["value"]
            for one in all_of(html, "input")
            if form in one.parents and one.attributes["name"] != "csrfmiddlewaretoken"
        }
        assert sent["agent_slot"] == str(FIRST.slot_of(FIRST.next.to))
        assert sent["user_text"] == FIRST.next.prompt
        play(played, sent["user_text"], slot=1, key=sent["submission_key"])
        assert not all_of(read(client, address(played, "play")), "p", id="suggested-words")


class TestReadingAhead:
    @pytest.fixture
    def warmed(self, monkeypatch: pytest.MonkeyPatch) -> list[uuid.UUID]:
        chapters: list[uuid.UUID] = []

        async def note(session_id: uuid.UUID) -> None:
            chapters.append(session_id)

        for module in ("tabs.home.home_page", "api.chapter_routes"):
            monkeypatch.setattr(f"storyengine.{module}.warm_next_reply", note)
        return chapters

    def test_it_begins_with_the_click(self, client: Client, warmed: list[uuid.UUID]) -> None:
        client.post(reverse("pages:begin-starter", args=[FIRST.name]))
        asked = {"starter": FIRST.name}
        client.post("/api/session", asked, content_type="application/json")
        assert sorted(warmed) == sorted(Session.objects.values_list("pk", flat=True))
        assert len(warmed) == 2

    def test_the_page_asks_for_it_again_as_soon_as_the_model_is_ready(
        self, client: Client, played: Session, settings: Settings
    ) -> None:
        settings.LLM = "embedded"
        html = read(client, address(played, "play"))
        [asks] = all_of(html, "span", **{"hx-post": address(played, "warm")})
        assert asks.attributes["hx-trigger"].startswith("load, model-ready from:body, ")
        server = EmbeddedServer.objects.create(phase="loading", model="m")
        assert "HX-Trigger" not in client.get("/model-status").headers
        server.phase = "ready"
        server.save()
        assert client.get("/model-status").headers["HX-Trigger"] == "model-ready"

    def test_sent_at_once_the_page_says_what_is_being_read(
        self,
        client: Client,
        played: Session,
        settings: Settings,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        settings.LLM = "embedded"
        open_prompt(played.pk, actor=1, words="Go on.", submission_key="k")
        html = read(client, address(played, "play"))
        [waits] = all_of(html, "span", "reply-wait")
        assert re.search(
            "is reading the identity, the memory, the latest prompts with their replies and your "
            r"prompt, about \d{3} words, then answers",
            waits.words,
        )
        monkeypatch.setattr(AgentModel, "is_on_its_way", True)
        [waits] = all_of(read(client, address(played, "play")), "span", "reply-wait")
        assert waits.words.startswith("The model is not loaded yet.")


class TestChangeFirst:
    @pytest.fixture
    def opened(self, client: Client) -> Session:
        answer = client.post(reverse("pages:begin-starter", args=[FIRST.name]), {"change": "1"})
        chapter = Session.objects.get()
        assert answer["Location"] == address(chapter, "world")
        return chapter

    def test_tab_1_is_open_and_says_what_a_change_means(
        self, client: Client, opened: Session
    ) -> None:
        html = read(client, address(opened, "world"))
        assert f"This is the starter “{FIRST.title}”" in html
        assert by_id(html, "world-text").text.strip() == FIRST.world

    def test_unchanged_it_is_locked_with_its_own_memory(
        self, client: Client, opened: Session
    ) -> None:
        client.post(address(opened, "lock"))
        opened.refresh_from_db()
        assert (opened.state, opened.prompt_index) == (State.ACTIVE, 3)


class TestWhatItSaw:
    WORDS = "came with the starter. People wrote it, and no model was asked."

    def test_of_a_written_reply_and_of_the_lock_it_says_where_they_came_from(
        self, client: Client, played: Session
    ) -> None:
        for where in ("calls/prompts/1", "calls/prompts/3", "calls/memory/1"):
            assert self.WORDS in read(client, f"/chapters/{played.pk}/{where}")


def test_an_exported_starter_chapter_is_the_same_after_its_import(played: Session) -> None:
    copy = import_chapter(export_chapter(played.pk).to_json())
    assert (copy.starter, copy.prompt_index, copy.state) == (FIRST.name, 3, State.ACTIVE)
    assert copy.memory_blocks.get().came_with_starter
    assert copy.attempts.filter(came_with_starter=True).count() == 3
    again = export_chapter(copy.pk).chapter
    assert again == export_chapter(played.pk).chapter
