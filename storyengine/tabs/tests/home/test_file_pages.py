import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Session
from storyengine.settings.import_limits import MAX_FILE_BYTES
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of
from testing.refusals import NO_EXPORTED_CHAPTER

pytestmark = pytest.mark.django_db


def upload(client: Client, content: bytes, name: str = "chapter.json") -> Any:
    return client.post(reverse("pages:import"), {"file": SimpleUploadedFile(name, content)})


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

    def test_another_sites_form_is_refused(self, chapter: Session) -> None:
        client = Client(enforce_csrf_checks=True)
        content = client.get(address(chapter, "export")).content
        assert upload(client, content).status_code == 403
        assert Session.objects.count() == 1

    @pytest.mark.parametrize(
        ("content", "told", "check_said"),
        [
            (b"no", NO_EXPORTED_CHAPTER, "is not JSON (at line 1"),
            (b"\xff", NO_EXPORTED_CHAPTER, "not UTF-8 text"),
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

    def test_a_file_over_the_limit_is_refused(self, client: Client) -> None:
        response = upload(client, b" " * (MAX_FILE_BYTES + 1))
        assert response.status_code == 413
        assert "20,000,000 bytes" in response.content.decode()

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
