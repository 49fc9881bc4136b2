"""Tests of the operator's commands that export and import files. The limits of these commands are
higher than those of pages."""

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from memory.models import MemoryBlock, NarrativeDraft
from sessions.chapter.stories import begin_next_chapter, chapters_of
from sessions.models import Event, Session, Story, Tab1Inputs, Turn
from storyengine.access.body_limit import LARGEST_FILE
from storyengine.exchange import importing
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.story_exporting import export_story
from storyengine.exchange.tests.chapters import make_whole_chapter
from storyengine.settings.import_limits import (
    OF_THE_OPERATOR,
    OVER_THE_NETWORK,
    Limits,
    import_command,
)

pytestmark = pytest.mark.django_db

KINDS = (Session, Tab1Inputs, Event, MemoryBlock, NarrativeDraft, Turn)


def run(name: str, *arguments: object) -> str:
    said = StringIO()
    call_command(name, *map(str, arguments), stdout=said)
    return said.getvalue()


def content_of(chapter: Session) -> dict[str, Any]:
    """Return the content of the chapter's file without the time of the export."""
    file: dict[str, Any] = json.loads(export_chapter(chapter.pk).to_json())
    del file["exported_at"]
    return file


def counts() -> list[int]:
    return [kind._base_manager.count() for kind in KINDS]


@pytest.fixture
def large(tmp_path: Path) -> tuple[Session, Path]:
    """Return a chapter and the path of its file. The file is too large for an import by a page or
    the API."""
    chapter = make_whole_chapter()
    Event.objects.filter(role=Event.Role.AGENT).update(text="Ночь 🌊 " * 121_000)
    file = tmp_path / "large.json"
    run("export_chapter", chapter.pk, file)
    # Pages and the API refuse a file of more than LARGEST_FILE bytes without reading it. This file
    # is smaller, so they read it and then refuse it.
    assert OVER_THE_NETWORK.file_bytes < file.stat().st_size < LARGEST_FILE
    return chapter, file


class TestImport:
    def test_a_chapter_that_is_too_large_for_the_page_comes_in_whole(
        self, large: tuple[Session, Path]
    ) -> None:
        chapter, file = large
        said = run("import_chapter", file)
        copy = Session.objects.exclude(pk=chapter.pk).get()
        assert str(copy.pk) in said
        assert content_of(copy) == content_of(chapter)

    def test_the_command_imports_a_whole_story(self, tmp_path: Path) -> None:
        first = make_whole_chapter()
        begin_next_chapter(first.story_id)
        file = tmp_path / "one.story.json"
        file.write_bytes(export_story(first.story_id).to_json())
        said = run("import_chapter", file)
        [copy] = Story.objects.exclude(pk=first.story_id)
        assert f"The story is imported under the id {copy.pk}" in said
        second = chapters_of(copy)[1]
        assert second.follows == chapters_of(copy)[0]

    def test_page_and_api_refuse_it_and_name_the_command(self, large: tuple[Session, Path]) -> None:
        content = large[1].read_bytes()
        before = counts()
        upload = {"file": SimpleUploadedFile("chapter.json", content)}
        page = Client().post(reverse("pages:import"), upload)
        api = Client().post(reverse("api:import_session"), content, content_type="application/json")
        assert (page.status_code, api.status_code) == (413, 413)
        assert import_command() in page.content.decode()
        assert import_command() in api.json()["detail"]
        assert counts() == before

    @pytest.mark.parametrize(
        "tight",
        [
            replace(OVER_THE_NETWORK, separators=10),
            replace(OVER_THE_NETWORK, turns=9),
            replace(OVER_THE_NETWORK, attempts=10),
            replace(OVER_THE_NETWORK, events=10),
            replace(OVER_THE_NETWORK, memory_blocks=1),
        ],
        ids=["values", "turns", "attempts", "events", "blocks"],
    )
    def test_whatever_there_is_too_much_of_leads_to_the_command(self, tight: Limits) -> None:
        content = export_chapter(make_whole_chapter().pk).to_json()
        with pytest.raises(BadChapterFile) as refused:
            import_chapter(content, tight)
        assert import_command() in str(refused.value)
        assert "larger than what can be imported here" in refused.value.in_short
        assert refused.value.in_short.endswith(f"`{import_command()}`.")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda file: b"[" * 100_000, "nested too deeply"),
            (lambda file: file[:-1], "is not JSON"),
            (lambda file: file.replace(b"I answer", b"I \\u0000answer"), "not text"),
        ],
        ids=[
            "deep",
            "cut off",
            "NUL",
        ],
    )
    def test_a_file_that_is_hostile_or_broken_changes_nothing(
        self, tmp_path: Path, change: Callable[[bytes], bytes], message: str
    ) -> None:
        good = export_chapter(make_whole_chapter().pk).to_json()
        bad = change(good)
        assert bad != good
        file = tmp_path / "chapter.json"
        file.write_bytes(bad)
        before = counts()
        with pytest.raises(CommandError, match=message) as refused:
            run("import_chapter", file)
        assert str(refused.value).endswith("Nothing was imported.")
        assert counts() == before

    def test_it_has_an_end_too_before_which_nothing_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Path, "read_bytes", None)
        file = tmp_path / "chapter.json"
        with file.open("wb") as out:
            # The file is sparse, so it takes no room on the disk.
            out.truncate(OF_THE_OPERATOR.file_bytes + 1)
        with pytest.raises(CommandError, match="larger than 500,000,000 bytes") as refused:
            run("import_chapter", file)
        assert import_command() not in str(refused.value)

    def test_a_database_that_fails_half_way_keeps_nothing_and_its_words_are_not_said(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "chapter.json"
        file.write_bytes(export_chapter(make_whole_chapter().pk).to_json())

        def break_down(*_: object) -> None:
            raise OperationalError("the heron counts backwards")

        monkeypatch.setattr(importing, "_turns", break_down)
        before = counts()
        with pytest.raises(CommandError, match="Nothing was imported") as refused:
            run("import_chapter", file)
        assert "heron" not in str(refused.value)
        assert counts() == before


class TestExport:
    def test_it_writes_what_the_page_does_for_its_owner_alone(self, tmp_path: Path) -> None:
        chapter = make_whole_chapter()
        file = tmp_path / "chapter.json"
        assert str(file) in run("export_chapter", chapter.pk, file)
        written = json.loads(file.read_bytes())
        del written["exported_at"]
        assert written == content_of(chapter)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_a_file_that_is_there_is_kept(self, tmp_path: Path) -> None:
        file = tmp_path / "chapter.json"
        file.write_text("another one")
        with pytest.raises(CommandError, match="is there already, and was kept"):
            run("export_chapter", make_whole_chapter().pk, file)
        assert file.read_text() == "another one"

    def test_a_disk_that_is_full_leaves_no_half_of_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(
            CommandError, match=r"No space left on device\. The chapter is as it was"
        ):
            run("export_chapter", make_whole_chapter().pk, tmp_path / "chapter.json")
        assert list(tmp_path.iterdir()) == []
