import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Session
from sessions.tests.factories import make_chapter
from storyengine.settings.import_limits import MAX_FILE_BYTES
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of
from testing.refusals import IS_ARCHIVE, NO_EXPORTED_CHAPTER

pytestmark = pytest.mark.django_db


def upload(client: Client, content: bytes, name: str = "chapter.json") -> Any:
    return client.post(reverse("pages:import"), {"file": SimpleUploadedFile(name, content)})


def _file(**parts: Any) -> bytes:
    return json.dumps({"format": "storyengine-chapter", "version": 2, **parts}).encode()


class TestExport:
    def test_it_is_a_file_named_after_the_chapter(self, client: Client, chapter: Session) -> None:
        response = client.get(address(chapter, "export"))
        assert response["Content-Type"] == "application/json"
        assert response["Content-Disposition"] == (
            'attachment; filename="the-dark-lamp.chapter.json"'
        )
        assert json.loads(response.content)["chapter"]["title"] == "The Dark Lamp"

    @pytest.mark.parametrize("name", ["library", "world"])
    def test_it_is_offered_where_a_chapter_can_go(
        self, client: Client, chapter: Session, name: str
    ) -> None:
        page = "/" if name == "library" else address(chapter, name)
        links = all_of(client.get(page).content.decode(), "a", href=address(chapter, "export"))
        assert links

    @pytest.mark.parametrize("name", ["library", "world"])
    def test_whoever_exports_is_told_what_is_in_the_file(
        self, client: Client, chapter: Session, name: str
    ) -> None:
        page = "/" if name == "library" else address(chapter, name)
        notes = all_of(client.get(page).content.decode(), "p")
        told = [one.words for one in notes if "exported file" in one.words]
        assert told
        assert "every attempt at a reply, also those that were not chosen" in told[0]
        assert "every secret of the characters" in told[0]


class TestImport:
    def test_the_library_asks_for_a_file_whether_it_is_empty_or_not(self, client: Client) -> None:
        for _ in range(2):
            html = client.get("/").content.decode()
            [form] = all_of(html, "form", action=reverse("pages:import"))
            assert form.attributes["enctype"] == "multipart/form-data"
            assert all_of(html, "input", type="file", name="file")
            make_chapter()

    def test_it_opens_the_chapter_of_the_file(self, client: Client, chapter: Session) -> None:
        content = client.get(address(chapter, "export")).content
        response = upload(client, content)
        copy = Session.objects.exclude(pk=chapter.pk).get()
        assert response["Location"] == address(copy, "chapter")
        page = client.get(address(copy, "play")).content.decode()
        assert "reply 8" in page

    def test_its_pages_say_that_the_calls_stayed_behind(
        self, client: Client, chapter: Session
    ) -> None:
        NarrativeDraft.objects.create(
            session=chapter, target_words=100, source_snapshot={}, chapter_text="Prose."
        )
        upload(client, client.get(address(chapter, "export")).content)
        copy = Session.objects.exclude(pk=chapter.pk).get()
        draft = copy.narrative_drafts.get()
        pages: dict[str, tuple[Any, ...]] = {
            "reply": ("prompt-calls", 8),
            "memory": ("memory-calls", 2),
            "draft": ("draft-calls", draft.pk),
        }
        for text, page in pages.items():
            [hint] = all_of(client.get(address(copy, *page)).content.decode(), "p", "hint")
            assert hint.words == (
                f"This {text} came with the file; the calls stay with the chapter it came from."
            )

        def usage() -> str:
            html = client.get(address(copy, "usage")).content.decode()
            return next(one.words for one in all_of(html, "p") if "with a file" in one.words)

        assert "here no model has been called yet" in usage()
        copy.llm_artifacts.create(agent_id=1, provider="openai", model="o4-mini")
        assert usage().endswith("and are not counted here.")

    def test_a_file_on_disk_is_read_as_well(self, client: Client, chapter: Session) -> None:
        """Django stores an upload of more than 2.5 MB in a temporary file, not in memory."""
        content = client.get(address(chapter, "export")).content
        response = upload(client, content + b" " * 3_000_000)
        assert response.status_code == 302

    def test_another_sites_form_is_refused(self, chapter: Session) -> None:
        client = Client(enforce_csrf_checks=True)
        content = client.get(address(chapter, "export")).content
        assert upload(client, content).status_code == 403
        assert Session.objects.count() == 1

    def test_a_bad_file_is_refused_on_a_page_that_says_why(self, client: Client) -> None:
        response = upload(client, _file())
        assert response.status_code == 422
        page = response.content.decode()
        assert "This file cannot be imported" in page
        assert "exported_at is missing" in page
        assert all_of(page, "a", href="/")
        assert not Session.objects.exists()

    @pytest.mark.parametrize(
        ("content", "told", "check_said"),
        [
            (b"no", NO_EXPORTED_CHAPTER, "is not JSON (at line 1"),
            (b"\xff", NO_EXPORTED_CHAPTER, "not UTF-8 text"),
            (b"{}", NO_EXPORTED_CHAPTER, "it lacks"),
            (b"PK", "Unpack it", IS_ARCHIVE),
            (_file(version=9), "by a newer Story Engine", "of a later one"),
            (_file(version=1), "by an early Story Engine", "of an earlier one"),
            (_file(chapter={"mode": "elsewhere"}), "not installed here", "chapter.mode is"),
            (_file(chapter={"title": 7}), "changed or damaged", "is missing"),
            (b"," * 2_000_001, "larger than what can be imported here", "more values than any"),
        ],
    )
    def test_whoever_imports_is_told_in_words_and_on_request_what_the_check_said(
        self, client: Client, content: bytes, told: str, check_said: str
    ) -> None:
        page = upload(client, content).content.decode()
        [lead] = all_of(page, "p", "lead")
        assert told in lead.words
        assert "Nothing was imported, and your other chapters are as they were." in lead.words
        assert not re.search(r"\[|chapter\.\w|line \d|byte \d", lead.words.replace(".json", ""))
        [details] = all_of(page, "details")
        assert check_said in details.words

    def test_the_list_says_of_a_copy_when_it_was_imported(
        self, client: Client, chapter: Session
    ) -> None:
        upload(client, client.get(address(chapter, "export")).content)
        rows = all_of(client.get("/").content.decode(), "li", "chapter-line")
        assert ["imported just now" in row.words for row in rows].count(True) == 1

    def test_a_file_over_the_limit_is_refused(self, client: Client) -> None:
        response = upload(client, b" " * (MAX_FILE_BYTES + 1))
        assert response.status_code == 413
        assert "20,000,000 bytes" in response.content.decode()

    @pytest.mark.parametrize("fields", [{}, {"file": "words"}])
    def test_no_file_is_refused(self, client: Client, fields: dict[str, str]) -> None:
        response = client.post(reverse("pages:import"), fields)
        assert response.status_code == 422
        assert "Choose the file" in response.content.decode()

    def test_whatever_a_file_holds_is_only_shown(self, client: Client, chapter: Session) -> None:
        file = json.loads(client.get(address(chapter, "export")).content)
        evil = "<img src=x onerror=alert(1)>\u202e"
        file["chapter"]["title"] = evil
        file["chapter"]["cast"][0]["name"] = evil.removesuffix("\u202e")
        [attempt] = file["chapter"]["turns"][-1]["attempts"]
        attempt["events"][-1]["text"] = evil + "\u0301" * 10_000
        file["chapter"]["tab1"]["world_text"] = f"</textarea>{evil}"
        file["chapter"]["memory_blocks"][0]["json_payload"] = {"canon_locks": [evil], evil: evil}
        file["chapter"]["memory_blocks"][1]["json_payload"] = {"major_events": {evil: [evil]}}
        upload(client, json.dumps(file).encode())
        copy = Session.objects.exclude(pk=chapter.pk).get()
        assert MemoryBlock.objects.filter(session=copy).count() == 2
        for name in ("library", "world", "play", "transcript", "draft"):
            page = client.get("/" if name == "library" else address(copy, name))
            assert page.status_code == 200
            assert "<img src=x" not in page.content.decode(), name
            assert "&lt;img src=x" in page.content.decode(), name
