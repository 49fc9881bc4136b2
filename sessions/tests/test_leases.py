"""Claims that are renewed together do not depend on each other."""

import pytest
from django.db import connection

from sessions.leases import renew_turns
from sessions.models import Turn
from sessions.tests.factories import make_active_chapter
from sessions.tests.racing import held_elsewhere
from sessions.turns import open_prompt


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite holds no single rows")
def test_a_row_that_somebody_holds_keeps_no_other_from_being_renewed() -> None:
    turns = [
        open_prompt(make_active_chapter().pk, agent_slot=1, user_text="Go.", submission_key="").turn
        for _ in range(3)
    ]
    with held_elsewhere(lambda: Turn.objects.select_for_update().get(pk=turns[1].pk)):
        assert renew_turns([(turn, "I step") for turn in turns]) == set()
    texts = [Turn.objects.get(pk=turn.pk).partial_text for turn in turns]
    assert texts == ["I step", "", "I step"]
    assert renew_turns([(turn, "I step in") for turn in turns]) == set()
    assert Turn.objects.get(pk=turns[1].pk).partial_text == "I step in"
