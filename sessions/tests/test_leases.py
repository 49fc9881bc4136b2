"""Tests that the database's clock measures leases, and that a row which another transaction has
locked does not prevent the renewal of other rows."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from sessions.leases import LEASE, renew_attempts
from sessions.models import Attempt
from sessions.play.attempts import open_prompt
from sessions.play.breaking import recover_dead_attempts
from sessions.tests.factories import make_active_chapter
from sessions.tests.racing import held_elsewhere


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite holds no single rows")
def test_a_row_that_somebody_holds_keeps_no_other_from_being_renewed() -> None:
    attempts = [
        open_prompt(make_active_chapter().pk, actor=1, words="Go.", submission_key="").attempt
        for _ in range(3)
    ]
    with held_elsewhere(lambda: Attempt.objects.select_for_update().get(pk=attempts[1].pk)):
        assert renew_attempts([(attempt, "I step") for attempt in attempts]) == set()
    texts = [Attempt.objects.get(pk=attempt.pk).partial_text for attempt in attempts]
    assert texts == ["I step", "", "I step"]
    assert renew_attempts([(attempt, "I step in") for attempt in attempts]) == set()
    assert Attempt.objects.get(pk=attempts[1].pk).partial_text == "I step in"


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", [-timedelta(hours=1), timedelta(hours=1)])
def test_a_process_whose_clock_is_wrong_neither_loses_nor_breaks_an_attempt(
    monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta
) -> None:
    right: Callable[[], datetime] = timezone.now

    def begin() -> Attempt:
        chapter = make_active_chapter()
        return open_prompt(chapter.pk, actor=1, words="Go.", submission_key="").attempt

    running = begin()
    with monkeypatch.context() as there:
        there.setattr(timezone, "now", lambda: right() + wrong_by)
        assert recover_dead_attempts() == 0
        started, renewed = begin(), begin()
        assert renew_attempts([(renewed, "I step")]) == set()
    assert recover_dead_attempts() == 0
    for one in (running, started, renewed):
        one.refresh_from_db()
        assert timedelta(0) < one.lease_until - right() <= LEASE
    Attempt.objects.update(lease_until=right() - timedelta(seconds=1))
    with monkeypatch.context() as there:
        there.setattr(timezone, "now", lambda: right() + wrong_by)
        assert recover_dead_attempts() == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no such updates")
def test_a_renewal_changes_no_index() -> None:
    """PostgreSQL counts the updates that stayed on their page and changed no index. After the first
    ones, which fill the free part of the page, the old versions of the row make room."""
    attempt = open_prompt(make_active_chapter().pk, actor=1, words="Go.", submission_key="").attempt
    before = counted_updates()
    for count in range(200):
        assert renew_attempts([(attempt, "word " * count)]) == set()
    updates, hot = (now - then for now, then in zip(counted_updates(), before, strict=True))
    assert updates >= 200
    assert hot > 0.8 * updates


def counted_updates() -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT 1")
        cursor.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s",
            [Attempt._meta.db_table],
        )
        updates, hot = cursor.fetchone()
        return int(updates), int(hot)
