"""Claims that are renewed together do not depend on each other."""

import pytest
from django.db import connection

from sessions.attempts import open_prompt
from sessions.leases import renew_attempts
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
