"""The database's clock decides how long a lease lasts.

If another transaction has locked a row, the leases of other rows are renewed all the same.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from sessions.attempts import open_prompt
from sessions.breaking import recover_dead_attempts
from sessions.leases import LEASE, renew_attempts
from sessions.models import Attempt
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
