from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from memory.models import NarrativeDraft
from sessions.models import Session
from sessions.starters import all_starters
from sessions.states import State
from sessions.tests.factories import make_active_chapter, make_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, read

pytestmark = pytest.mark.django_db


class TestLibrary:
    def test_an_empty_one_invites(self, client: Client) -> None:
        html = client.get("/").content.decode()
        assert "Start your first chapter" in html
        starters = [reverse("pages:begin-starter", args=[one.name]) for one in all_starters()]
        assert [one.attributes["action"] for one in all_of(html, "form")] == [
            *(*starters, reverse("pages:new"), reverse("pages:import"))
        ]

    def test_it_lists_title_state_and_last_play(self, client: Client) -> None:
        chapter = make_active_chapter(title="The Dark Lamp", prompt_index=8)
        html = client.get("/").content.decode()
        [row] = all_of(html, "li", "chapter-row")
        for words in ("The Dark Lamp", "In play", "8 prompts", "played just now", "Agent Yellow"):
            assert words in row.words
        links = {one.attributes["href"] for one in all_of(html, "a")}
        assert address(chapter, "chapter") in links

    def test_a_new_title_can_be_cancelled_without_scripts(self, client: Client) -> None:
        make_chapter()
        html = client.get("/").content.decode()
        [popup] = all_of(html, "details", "rename")
        [cancel] = [one for one in all_of(html, "a") if one.words == "Cancel"]
        assert popup in cancel.parents
        assert client.get("/" + cancel.attributes["href"]).status_code == 200

    def test_deleting_asks_first_and_offers_a_download(self, client: Client) -> None:
        chapter = make_chapter()
        html = client.get("/").content.decode()
        [dialog] = all_of(html, "dialog")
        inside = [one for one in read(html) if dialog in one.parents]
        assert address(chapter, "delete") in {one.attributes.get("action") for one in inside}
        assert address(chapter, "download-everything") in {
            one.attributes.get("href") for one in inside
        }

    @pytest.mark.parametrize(
        ("fields", "drafts", "words"),
        [
            ({}, 0, "Its setup is deleted for good."),
            ({"tab1_locked": True}, 0, "Its setup and its memory are deleted for good."),
            ({"prompt_index": 1}, 0, "1 prompt with every reply, and its memory are deleted"),
            ({"prompt_index": 9}, 2, "9 prompts with every reply, its memory and 2 drafts are"),
        ],
    )
    def test_the_question_names_what_there_is(
        self, client: Client, fields: dict[str, Any], drafts: int, words: str
    ) -> None:
        chapter = make_chapter(**fields)
        for _ in range(drafts):
            NarrativeDraft.objects.create(
                session=chapter, target_words=100, source_snapshot={}, chapter_text="Prose."
            )
        [dialog] = all_of(client.get("/").content.decode(), "dialog")
        assert words in dialog.words

    def test_only_the_embedded_model_makes_a_newcomer_wait(
        self, client: Client, settings: Settings
    ) -> None:
        assert "minute" not in client.get("/").content.decode()
        settings.LLM = "embedded"
        assert "a minute or more" in client.get("/").content.decode()

    def test_without_scripts_deleting_asks_on_a_page(self, client: Client) -> None:
        chapter = make_chapter(prompt_index=2)
        NarrativeDraft.objects.create(
            session=chapter, target_words=100, source_snapshot={}, chapter_text="Prose."
        )
        html = client.get("/").content.decode()
        assert not all_of(html, "noscript")
        [asks] = all_of(html, "form", method="get")
        question = client.get(asks.attributes["action"]).content.decode()
        assert "2 prompts with every reply, its memory and 1 draft are deleted" in question
        assert all_of(question, "form", method="post", action=address(chapter, "delete"))
        assert all_of(question, "a", href="/")
        assert Session.objects.exists()

    def test_a_title_is_capped_in_code_points(self, client: Client) -> None:
        make_chapter()
        [field] = all_of(client.get("/").content.decode(), "input", name="title")
        assert field.attributes["data-limit"] == "120"
        assert "maxlength" not in field.attributes

    def test_titles_and_names_are_escaped(self, client: Client) -> None:
        make_chapter(title="<script>alert(1)</script>", agent_names={"1": "<img src=x>"})
        html = client.get("/").content.decode()
        assert "<script>alert" not in html
        assert "<img src=x>" not in html
        assert "&lt;script&gt;alert(1)" in html

    def test_the_number_of_queries_does_not_grow(
        self, client: Client, django_assert_max_num_queries: Any
    ) -> None:
        for number in range(12):
            make_chapter(title=f"Chapter {number}")
        with django_assert_max_num_queries(3):
            client.get("/")


class TestNewChapter:
    def test_it_opens_an_empty_tab_1(self, client: Client) -> None:
        response = client.post(reverse("pages:new"))
        chapter = Session.objects.get()
        assert response["Location"] == address(chapter, "world")


class TestOpenChapter:
    @pytest.mark.parametrize(
        ("state", "tab"),
        [
            (State.DRAFT_TAB1, "world"),
            (State.LOCKING, "play"),
            (State.ACTIVE, "play"),
            (State.SUMMARIZING, "play"),
            (State.ENDED, "draft"),
            (State.NARRATING, "draft"),
        ],
    )
    def test_the_state_decides_the_tab(self, client: Client, state: State, tab: str) -> None:
        chapter = make_chapter(state=state)
        assert client.get(address(chapter, "chapter"))["Location"] == address(chapter, tab)


class TestRename:
    def test_a_plain_form_returns_to_the_list(self, client: Client, draft: Session) -> None:
        response = client.post(address(draft, "rename"), {"title": "  New \n title "})
        draft.refresh_from_db()
        assert (response["Location"], draft.title) == ("/", "New title")

    def test_the_header_only_wants_to_know_that_it_is_saved(
        self, htmx: Client, draft: Session
    ) -> None:
        assert htmx.post(address(draft, "rename"), {"title": "New"}).status_code == 204

    @pytest.mark.parametrize("title", ["", "  ", "x" * 121, "a\x00b"])
    def test_an_impossible_title_is_refused(self, htmx: Client, draft: Session, title: str) -> None:
        response = htmx.post(address(draft, "rename"), {"title": title})
        draft.refresh_from_db()
        assert (response.status_code, draft.title) == (422, "The Dark Lamp")
        assert "HX-Retarget" in response


class TestCopy:
    def test_the_setup_opens_in_a_fresh_chapter(self, client: Client, chapter: Session) -> None:
        response = client.post(address(chapter, "copy"))
        fresh = Session.objects.exclude(pk=chapter.pk).get()
        assert response["Location"] == address(fresh, "world")
        assert fresh.tab1.world_text == chapter.tab1.world_text


class TestDelete:
    def test_the_chapter_is_gone_with_everything(self, client: Client, chapter: Session) -> None:
        assert client.post(address(chapter, "delete"))["Location"] == "/"
        assert not Session.objects.exists()


class TestReset:
    def test_a_new_chapter_opens_under_a_new_address(self, htmx: Client, chapter: Session) -> None:
        response = htmx.post(address(chapter, "reset"))
        fresh = Session.objects.get()
        assert fresh.pk != chapter.pk
        assert response["HX-Redirect"] == address(fresh, "world")
