"""Tests that each paragraph of a draft leads to its prompts on Tab 3."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from agents.flows.telling.tests.narrations import make_ended_chapter, words
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from memory.models import NarrativeDraft
from memory.prose.tests.told_chapters import BEATS, TOLD, add_draft, make_told_chapter
from memory.tests.factories import add_delta
from sessions.models import Session
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Session:
    chapter = make_told_chapter()
    add_draft(chapter, "\n\n".join(TOLD[:2]), "\n\n".join(TOLD[2:]), ends=(2, 4))
    return chapter


def draft_of(chapter: Session) -> NarrativeDraft:
    return chapter.narrative_drafts.get()


def page_of(client: Client, chapter: Session, query: str = "") -> str:
    response = client.get(address(chapter, "receipts", draft_of(chapter).pk) + query, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def receipts_of(html: str) -> list[str]:
    return [one.words for one in all_of(html, "summary") if "Paragraph" in one.text]


def links_in(html: str, element: Element) -> list[str]:
    links = [one for one in all_of(html, "a") if element in one.parents]
    return [one.attributes["href"] for one in links]


def test_each_paragraph_says_its_prompt_or_that_it_is_invented(
    client: Client, told: Session
) -> None:
    html = page_of(client, told)
    receipts = receipts_of(html)
    assert [one.partition(" · ")[0] for one in receipts] == [
        "Paragraph 1: Prompt 1",
        "Paragraph 2: Prompt 2",
        "Paragraph 3: Invented",
        "Paragraph 4: Prompt 3",
    ]
    assert "3 of 4 paragraphs come from play, 1 is invented." in html


def test_what_was_not_told_stands_below_its_scene(client: Client, told: Session) -> None:
    event = {"event": "The bailiff put a warrant on the gate.", "cause": "", "effect": ""}
    add_delta(told, 3, 4, {"major_events": [event]})
    html = page_of(client, told)
    [untold] = all_of(html, "details", "untold")
    assert untold.parents[-1].attributes["id"] == "scene-2"
    prompts = [address(told, "transcript") + f"?prompt={n}#prompt-{n}" for n in (4, 3)]
    assert links_in(html, untold) == prompts
    assert event["event"] in untold.words


def test_a_click_shows_the_turn_and_what_was_left_out_of_it(htmx: Client, told: Session) -> None:
    part = page_of(htmx, told, "?paragraph=2")
    assert "<html" not in part
    assert BEATS[1][0] in part
    [left_out] = all_of(part, "p", "left-out")
    assert "I kneel and count the hymns." in left_out.words
    assert address(told, "transcript") + "?prompt=2#prompt-2" in part
    assert "the narrator has invented it" in page_of(htmx, told, "?paragraph=3")


def test_without_script_a_link_opens_the_paragraph(client: Client, told: Session) -> None:
    html = page_of(client, told)
    paragraph = by_id(html, "paragraph-2")
    [link] = links_in(html, paragraph)
    opened = client.get(link, follow=True).content.decode()
    [details] = [one for one in all_of(opened, "details", "receipt") if "open" in one.attributes]
    assert BEATS[1][0] in details.text


def links_to_the_draft(html: str) -> list[str]:
    found = [one.attributes["href"] for one in all_of(html, "a", "act")]
    return [one for one in found if "/told/" in one]


def test_the_transcript_leads_to_the_paragraphs_of_each_prompt(
    client: Client, told: Session
) -> None:
    html = get_page(client, told, "transcript")
    links = links_to_the_draft(html)
    assert links == [address(told, "told", number) + "#told" for number in (1, 2, 3, 4)]
    third = client.get(links[2], follow=True).content.decode()
    assert links_in(third, by_id(third, "told")) == ["#paragraph-4"]
    [marked] = all_of(third, "div", "is-asked")
    assert marked.attributes["id"] == "paragraph-4"
    fourth = client.get(links[3], follow=True).content.decode()
    assert "does not tell prompt 4" in by_id(fourth, "told").words


class TestRebuild:
    @pytest.fixture
    def built(
        self, client: Client, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> Session:
        chapter = make_ended_chapter()
        provider.enqueue(words(200))
        client.post(address(chapter, "build"))
        run_jobs()
        return chapter

    def form_of(self, client: Client, chapter: Session, number: int = 1) -> str:
        draft = chapter.narrative_drafts.order_by("created_at")[0]
        response = client.get(address(chapter, "rebuild-scene", draft.pk, number))
        assert response.status_code == 200
        return response.content.decode()

    def send(self, client: Client, html: str) -> str:
        [form] = [one for one in all_of(html, "form") if one.attributes["action"].endswith("build")]
        [key] = all_of(html, "input", name="submission_key")
        fields = {"submission_key": key.attributes["value"]}
        return client.post(form.attributes["action"], fields).headers["Location"]

    def test_the_page_says_what_it_takes_and_sends_one_rebuild(
        self,
        client: Client,
        built: Session,
        provider: ScriptedProvider,
        run_jobs: Callable[[], int],
    ) -> None:
        html = self.form_of(client, built)
        assert "the narrator tells the whole chapter again" in html
        assert re.search(r"About [\d,]+ tokens to read and [\d,]+ to write", html)
        provider.enqueue(words(200, "again"))
        assert self.send(client, html) == address(built, "draft") + "#draft-label"
        run_jobs()
        self.send(client, html)
        run_jobs()
        assert [one.chapter_text for one in NarrativeDraft.objects.order_by("created_at")] == [
            words(200),
            words(200, "again"),
        ]

    def test_a_failure_is_told_on_tab_3_and_leads_back_to_the_scene(
        self,
        client: Client,
        built: Session,
        provider: ScriptedProvider,
        run_jobs: Callable[[], int],
    ) -> None:
        provider.enqueue(ProviderRefused("The model said no."))
        self.send(client, self.form_of(client, built))
        run_jobs()
        assert Job.objects.filter(status=Job.Status.FAILED).count() == 1
        html = get_page(client, built, "draft")
        assert "Scene 1 was not rebuilt." in html
        assert words(200) in by_id(html, "draft-text").words
        [draft] = built.narrative_drafts.all()
        assert address(built, "rebuild-scene", draft.pk, 1) in html
