"""Tests that a restored database has the same rows as the lost database."""

import threading
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from agents.models import ReportedWindow
from sessions.models import Session, Tab1Inputs
from sessions.tests.factories import make_chapter
from storyengine.backups.folder import Reason
from storyengine.backups.restoring import restore
from storyengine.backups.taking import back_up
from storyengine.backups.tests.rows import (
    all_rows,
    all_rules,
    drop_every_table,
    empty_models,
    fill_every_table,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_row_of_every_table_comes_back(folder: Path) -> None:
    fill_every_table()
    assert empty_models() == []
    before, rules = all_rows(), all_rules()
    assert any("story_sessions_event" in table and found for table, found in rules.items())

    call_command("backup")
    (path,) = folder.glob("storyengine-*")
    drop_every_table()
    call_command("restore", str(path))

    assert all_rows() == before
    assert all_rules() == rules
    # The restore also sets the counters of row numbers, so that the new row gets a number which no
    # other row has.
    ReportedWindow.objects.create(server="http://localhost", model="another")
    assert list(folder.glob("storyengine-*")) == [path], "there was nothing to keep"


def test_what_came_after_the_backup_is_gone_and_kept_in_another() -> None:
    fill_every_table()
    path = back_up(Reason.ASKED_FOR)
    make_chapter(title="Later")
    Session.objects.exclude(title="Later").update(title="Changed")
    later = all_rows()

    restored = restore(path)
    assert not Session.objects.filter(title__in=["Later", "Changed"]).exists()
    assert restored.replaced is not None
    assert "before-restore" in restored.replaced.name

    restore(restored.replaced)
    assert all_rows() == later


def test_a_lost_file_comes_back(database_file: Path) -> None:
    fill_every_table()
    before = all_rows()
    path = back_up(Reason.ASKED_FOR)
    connection.close()
    for file in database_file.parent.glob(f"{database_file.name}*"):
        file.unlink()

    restore(path)
    assert all_rows() == before


def test_it_shows_one_moment_while_others_write() -> None:
    """One transaction stores a chapter and its setup, so a backup must have both or neither."""
    stop, written = threading.Event(), threading.Semaphore(0)

    def write() -> None:
        while not stop.is_set():
            with transaction.atomic():
                make_chapter()
            written.release()
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            assert written.acquire(timeout=60)
        paths = [back_up(Reason.ASKED_FOR) for _ in range(3)]
    finally:
        stop.set()
        writer.join()

    found = []
    for path in paths:
        restore(path)
        assert not Session.objects.filter(tab1=None).exists()
        assert Session.objects.count() == Tab1Inputs.objects.count()
        found.append(Session.objects.count())
    assert found == sorted(found)
    assert found[0] >= 5
