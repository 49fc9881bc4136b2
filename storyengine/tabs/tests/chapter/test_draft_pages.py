"""Tests of the pages on which drafts are edited, compared, chosen and read."""

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import NarrativeDraft, WorkingCopy
from memory.prose.drafts import chosen_draft
from memory.prose.editing.working_copies import get_working_copy, save_working_copy
from memory.prose.tests.told_chapters import TOLD, add_draft, make_told_chapter
from sessions.models import Session, State
from storyengine.tabs.seen_values import mark_of
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, get_page, prose_of, read

pytestmark = pytest.mark.django_db
WHOLE = "\n\n".join(TOLD)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def told() -> Session:
    return make_told_chapter(state=State.ENDED)


def page_of(
    client: Client, chapter: Session, name: str, draft: NarrativeDraft, query: str = ""
) -> str:
    response = client.get(address(chapter, name, draft.pk) + query)
    assert response.status_code == 200
    return response.content.decode()


class TestEditing:
    def test_it_begins_with_the_draft_and_goes_on_with_the_working_copy(
        self, client: Client, told: Session
    ) -> None:
        draft = add_draft(told, WHOLE)
        assert (
            by_id(page_of(client, told, "edit-draft", draft), "working-copy").text.strip() == WHOLE
        )
        assert not WorkingCopy.objects.exists()
        client.post(address(told, "save-working-copy", draft.pk), {"text": HOSTILE})
        html = page_of(client, told, "edit-draft", draft)
        assert HOSTILE not in html
        assert by_id(html, "working-copy").text.strip() == HOSTILE
        assert "Go on editing" in get_page(client, told, "draft")

    def test_a_window_overwrites_nothing_that_it_has_not_seen(
        self, htmx: Client, told: Session
    ) -> None:
        draft = add_draft(told, WHOLE)
        save_working_copy(told.pk, draft.pk, "Theirs.")
        for name in ("save-working-copy", "keep-working-copy"):
            refused = htmx.post(
                address(told, name, draft.pk), {"text": "Mine."}, headers={"X-Seen": mark_of(WHOLE)}
            )
            assert refused.status_code == 412
            assert "Theirs." in refused.content.decode()
        assert get_working_copy(told.pk, draft.pk).text == "Theirs."
        saved = htmx.post(
            address(told, "save-working-copy", draft.pk),
            {"text": "Mine.\r\n"},
            headers={"X-Seen": mark_of("Theirs.")},
        )
        assert (saved.status_code, saved["X-Seen"]) == (204, mark_of("Mine.\n"))

    def test_keep_adds_a_draft_and_shows_it(self, client: Client, told: Session) -> None:
        draft = add_draft(told, WHOLE, ends=(4,))
        kept = client.post(
            address(told, "keep-working-copy", draft.pk), {"text": f"{WHOLE}\r\n\r\nThe end."}
        )
        html = client.get(kept["Location"]).content.decode()
        assert prose_of(html) == f"{WHOLE}\n\nThe end."
        [kicker] = all_of(html, "p", "draft-kicker")
        assert kicker.words.startswith("Draft 2, edited from draft 1, in the story · ")
        receipts = [one.words for one in all_of(html, "summary") if "Paragraph" in one.text]
        assert [one.partition(" · ")[0] for one in receipts][:2] == [
            "Paragraph 1: Prompt 1",
            "Paragraph 2: Prompt 2",
        ]


class TestChoice:
    def test_an_earlier_draft_is_put_into_the_story(self, client: Client, told: Session) -> None:
        first = add_draft(told, "First.")
        add_draft(told, "Second.")
        html = get_page(client, told, "draft", draft="1")
        [form] = all_of(html, "form", action=address(told, "choose-draft", first.pk))
        client.post(form.attributes["action"])
        assert chosen_draft(told) == first
        html = get_page(client, told, "draft")
        assert prose_of(html) == "First."
        assert not all_of(html, "form", action=address(told, "choose-draft", first.pk))
        story = client.get(reverse("pages:download-story", args=[told.story_id]), {"format": "txt"})
        assert story.content.decode().endswith("First.\n")


class TestDifferences:
    def test_words_are_marked_for_all_readers(self, client: Client, told: Session) -> None:
        add_draft(told, f"{WHOLE}\n\nThe lamp burns.")
        html = page_of(
            client, told, "differences", add_draft(told, f"{WHOLE}\n\nThe lamp is {HOSTILE}.")
        )
        assert HOSTILE not in html
        [removed] = [one for one in all_of(html, "del") if one.text != "struck through"]
        [added] = [one for one in all_of(html, "ins") if one.text != "underlined"]
        assert removed.words == "removed: burns (end)"
        assert added.words == f"added: is {HOSTILE} (end)"
        [fold] = all_of(html, "details", "same-rows")
        assert "4 paragraphs that both have" in fold.words


class TestReading:
    def test_a_draft_is_a_book_with_headings(self, client: Client, told: Session) -> None:
        add_draft(told, f"## One\n\n{HOSTILE} *now*.\n\n***\n\nTwo\nlines, and more.")
        html = get_page(client, told, "read")
        assert HOSTILE not in html
        assert [one.words for one in all_of(html, "h1")] == [told.title]
        assert [one.words for one in all_of(html, "h2")] == ["One"]
        assert len(all_of(html, "hr")) == 1
        assert "<em>now</em>" in html
        assert "Two<br>lines" in html

    def test_it_is_the_chosen_draft_unless_the_address_names_one(
        self, client: Client, told: Session
    ) -> None:
        first = add_draft(told, "First of all.")
        add_draft(told, "Second to none.")
        client.post(address(told, "choose-draft", first.pk))
        assert "First of all." in get_page(client, told, "read")
        assert "Second to none." in get_page(client, told, "read", draft="2")

    def test_the_story_is_read_chapter_after_chapter(self, client: Client, told: Session) -> None:
        add_draft(told, "First of all.")
        second = make_told_chapter(story=told.story, place=2, title="The Second")
        add_draft(second, "Second to none.")
        story = client.get(reverse("pages:read-story", args=[told.story_id]))
        assert story["Location"] == address(told, "read")
        [following] = all_of(get_page(client, told, "read"), "a", rel="next")
        assert following.attributes["href"] == address(second, "read")
        [before] = all_of(get_page(client, second, "read"), "a", rel="prev")
        assert before.attributes["href"] == address(told, "read")

    def test_a_choice_is_kept_without_a_script(self, client: Client, told: Session) -> None:
        add_draft(told, "First of all.")
        here = address(told, "read") + "?draft=1"
        fields = {"size": "large", "page": "black", "measure": "<b>", "at": here}
        assert client.post(reverse("pages:reading-style"), fields)["Location"] == here
        html = get_page(client, told, "read")
        checked = [one.attributes["value"] for one in read(html) if "checked" in one.attributes]
        assert checked == ["large", "narrow", "black"]

    @pytest.mark.parametrize("at", ["https://elsewhere.example/", "//elsewhere.example", "x"])
    def test_it_leads_to_no_other_site(self, client: Client, at: str) -> None:
        response = client.post(reverse("pages:reading-style"), {"at": at})
        assert response["Location"] == reverse("pages:library")
