"""Tests of importing a long chapter.

Other work does not wait for the import. The chapter appears only when it is whole, and importing it
calls no model.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.flows.remembering.memory_calls import find_memory_behind
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, ProviderConsent
from agents.running.recovery import recover
from memory.models import MemoryBlock, NarrativeDraft
from sessions.chapter import storing_imports
from sessions.chapter.access import get_chapter
from sessions.exceptions import UnknownChapter
from sessions.models import Attempt, CastMember, Event, Session, State, Tab1Inputs, Turn
from sessions.play.attempts import open_prompt
from storyengine.exchange import importing as file_importing
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.tests.chapters import long_chapter_file, make_whole_chapter
from testing.program import wait_until
from testing.refusals import NOTHING_KEPT

KINDS = (Session, Tab1Inputs, CastMember, Attempt, Turn, Event, MemoryBlock, NarrativeDraft)


def counts() -> list[int]:
    return [kind._base_manager.count() for kind in KINDS]


@pytest.mark.django_db
class TestSpending:
    @pytest.fixture
    def imported(self) -> Session:
        """Return an imported chapter of 300 stretches, none of which memory covers."""
        return import_chapter(long_chapter_file(2_100))

    def test_no_summary_is_written_for_a_prompt(
        self, imported: Session, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> None:
        play(imported)
        recover()
        run_jobs()
        assert len(provider.history) == 1
        assert not Job.objects.exists()
        behind = find_memory_behind(imported, is_ending=False)
        assert behind is not None
        assert behind.calls == 300

    def test_many_sets_of_witnesses_in_two_stretches_ask_too(
        self,
        provider: ScriptedProvider,
        run_jobs: Callable[[], int],
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        """Each audience needs a call of its own. A file may give every event other witnesses, so
        two stretches can need many calls."""
        file = json.loads(long_chapter_file(6))
        file["chapter"]["chunk_size_prompts"] = 3
        slots = [one["slot"] for one in file["chapter"]["cast"] if one["is_selected"]]
        groups = [one for size in range(len(slots)) for one in combinations(slots, size + 1)]
        for turn in file["chapter"]["turns"]:
            [attempt] = turn["attempts"]
            said = attempt["events"][0] | {"role": "system"}
            attempt["events"] += [said | {"witnesses": group} for group in groups]
        imported = import_chapter(json.dumps(file).encode())
        play(imported)
        run_jobs()
        assert len(provider.history) == 1
        chapter = get_chapter(imported.pk)
        # Seven characters can form 127 audiences, so finding the number of calls must not take a
        # query for each audience.
        with django_assert_max_num_queries(2 * len(groups)):
            behind = find_memory_behind(chapter, is_ending=False)
        assert behind is not None
        assert behind.calls == 2 * len(groups)

    @pytest.mark.weekly
    def test_a_copy_by_file_has_accepted_nothing(self, imported: Session) -> None:
        Session.objects.update(accepted_calls=300)
        content = export_chapter(imported.pk).to_json()
        assert b"accepted" not in content
        assert import_chapter(content).accepted_calls == 0


class Writer(threading.Thread):
    """A thread that writes to the database again and again on its own connection."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        # The number of events in the database after each of this thread's writes.
        self.seen = [0]
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            while not self.is_over.wait(0.01):
                ProviderConsent.objects.update_or_create(host="models.example")
                self.seen.append(Event.objects.count())
        finally:
            connection.close()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.is_over.set()
            self.join()


@pytest.mark.django_db(transaction=True)
class TestOthers:
    @pytest.mark.weekly
    def test_between_two_writes_of_somebody_else_only_a_few_pieces_are_stored(self) -> None:
        """Another writer never waits long, however long the imported chapter is.
        `test_largest_import.py` measures how long."""
        content = long_chapter_file(5_000)
        writer = Writer()
        with writer.at_work():
            import_chapter(content)
        stored = [*writer.seen, 10_000]
        most = max(after - before for before, after in pairwise(stored))
        assert most <= storing_imports.PIECE_ROWS * 20

    def test_no_transaction_stores_more_than_a_piece(self, monkeypatch: pytest.MonkeyPatch) -> None:
        content = long_chapter_file(storing_imports.PIECE_ROWS * 2)
        stored = [0]

        def look(_seconds: float) -> None:
            assert not connection.in_atomic_block
            stored.append(sum(counts()))
            with pytest.raises(UnknownChapter):
                get_chapter(Session.everything.get().pk)

        monkeypatch.setattr(storing_imports, "let_others_write", look)
        import_chapter(content)
        most = max(after - before for before, after in pairwise(stored))
        # The first transaction has more rows, because it also stores the chapter's own row, its Tab
        # 1 and its cast.
        assert most <= storing_imports.PIECE_ROWS + 5
        assert len(stored) > 4


@pytest.fixture
def before(db: None) -> list[int]:
    """Return the number of rows in each table before an import."""
    make_whole_chapter()
    return counts()


@pytest.fixture
def half_way(before: list[int], monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return an import that is stored only in part, because its process died."""
    content = export_chapter(Session.objects.get().pk).to_json()

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(storing_imports, "remove_in_pieces", lambda _chapter: None)
        patched.setattr(file_importing, "_unanswered", die)
        with pytest.raises(SystemExit):
            import_chapter(content)
    left = Session.everything.get(state=State.IMPORTING)
    assert left.events.exists()
    return left


def look(clock: Callable[[], datetime]) -> None:
    """Search for lost jobs and imports, as a process with this clock would."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(timezone, "now", clock)
        recover()


def let_lease_run_out() -> None:
    late = timezone.now() - storing_imports.IMPORT_LEASE - timedelta(seconds=1)
    Session.everything.filter(state=State.IMPORTING).update(updated_at=late)


class TestHalfAnImport:
    def test_it_is_there_for_nobody(self, client: Client, half_way: Session) -> None:
        assert str(half_way.pk) not in client.get("/").content.decode()
        assert client.get("/api/session").json()["count"] == 1
        for address in ("", "play", "chapter", "play/status", "chapter/status", "downloads/export"):
            assert client.get(f"/chapters/{half_way.pk}/{address}").status_code == 404
        api = f"/api/session/{half_way.pk}"
        assert client.get(api).status_code == 404
        assert client.delete(api, content_type="application/json").status_code == 404
        for action in ("end", "copy", "reset", "reopen", "build-narrative"):
            answer = client.post(f"{api}/{action}", content_type="application/json")
            assert answer.status_code == 404
        with pytest.raises(UnknownChapter):
            open_prompt(half_way.pk, actor=1, words="Go.", submission_key="k")
        half_way.refresh_from_db()
        assert half_way.state == State.IMPORTING

    def test_it_is_removed_once_its_lease_has_run_out(
        self, before: list[int], half_way: Session
    ) -> None:
        recover()
        assert Session.everything.filter(pk=half_way.pk).exists()
        let_lease_run_out()
        recover()
        assert counts() == before

    @pytest.mark.parametrize("wrong_by", [-timedelta(hours=1), timedelta(hours=1)])
    def test_a_process_whose_clock_is_wrong_neither_loses_nor_removes_one(
        self, half_way: Session, monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta
    ) -> None:
        content = export_chapter(Session.objects.get().pk).to_json()
        right = timezone.now
        with monkeypatch.context() as there:
            there.setattr(timezone, "now", lambda: right() + wrong_by)
            recover()
            assert Session.everything.filter(pk=half_way.pk).exists()
            # Between two pieces, a process with the right clock searches for lost imports. This
            # search must not remove the import that is running.
            there.setattr(storing_imports, "let_others_write", lambda _seconds: look(right))
            copy = import_chapter(content)
        assert Session.objects.filter(pk=copy.pk).exists()
        let_lease_run_out()
        with monkeypatch.context() as there:
            there.setattr(timezone, "now", lambda: right() + wrong_by)
            recover()
        assert not Session.everything.filter(pk=half_way.pk).exists()

    def test_whoever_stood_still_for_too_long_stores_no_more(
        self, before: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = export_chapter(Session.objects.get().pk).to_json()
        monkeypatch.setattr(
            storing_imports, "let_others_write", lambda _seconds: let_lease_run_out()
        )
        with pytest.raises(storing_imports.ImportLost, match=NOTHING_KEPT):
            import_chapter(content)
        assert counts() == before

    def test_one_that_is_stored_after_all_is_not_removed(
        self, half_way: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        let_lease_run_out()
        events = half_way.events.count()
        remove = storing_imports.remove_in_pieces

        def renew_first(chapter: "QuerySet[Session]") -> None:
            Session.everything.filter(pk=half_way.pk).update(updated_at=timezone.now())
            remove(chapter)

        monkeypatch.setattr(storing_imports, "remove_in_pieces", renew_first)
        recover()
        assert half_way.events.count() == events


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_process_that_is_killed_leaves_nothing_to_see_or_to_keep(tmp_path: Path) -> None:
    file = tmp_path / "long.json"
    file.write_bytes(long_chapter_file(10_000))
    process = subprocess.Popen(  # noqa: S603  (its words are this test's own)
        [sys.executable, "manage.py", "import_chapter", file],
        env={**os.environ, "DATABASE_URL": url_of_database()},
    )
    try:
        wait_until(Event.objects.exists, "the first events", seconds=60)
    finally:
        process.kill()
        process.wait()
    assert 0 < Event.objects.count() < 20_000
    assert not Session.objects.exists()
    let_lease_run_out()
    recover()
    assert counts() == [0] * len(KINDS)


def url_of_database() -> str:
    """Return the URL of the test database for another process."""
    names = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{names['NAME']}"
    address = f"{names['USER']}:{names['PASSWORD']}@{names['HOST']}:{names['PORT']}"
    return f"postgres://{address}/{names['NAME']}"
