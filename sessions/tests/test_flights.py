"""A prompt that nothing stands in the way of is claimed and stored in one step."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions.exceptions import TurnInFlight
from sessions.flights import claim_and_store
from sessions.leases import TURN_LEASE
from sessions.models import Session, Turn
from sessions.states import PLAYABLE, State
from sessions.tests.factories import add_turn, make_active_chapter
from sessions.tests.racing import LONG, held_elsewhere
from sessions.turns import OpenedTurn, commit_turn, fail_turn, open_prompt

ON_POSTGRESQL = connection.vendor == "postgresql"
on_postgresql = pytest.mark.skipif(not ON_POSTGRESQL, reason="SQLite has one writer at a time")


def new_prompt(session_id: uuid.UUID, **fields: Any) -> Turn:
    values = {"submission_key": "new", "agent_slot": 2, "user_text": "Go."} | fields
    return Turn(session_id=session_id, lease_until=timezone.now() + TURN_LEASE, **values)


def rows() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Session, Turn)]


@pytest.mark.django_db
def test_the_chapter_comes_with_the_turn_as_both_are_stored() -> None:
    chapter = make_active_chapter(
        rerolling_prompt_index=4, agent_names={"2": "Old Tom", "3": "Zoë 💧"}
    )
    bystander = make_active_chapter()
    turn = new_prompt(chapter.pk, user_text="100 %s of 'it', \"all\"\n💧 {0}")
    assert claim_and_store(turn)
    assert turn.session.turn_in_flight == turn.turn_id
    assert (turn.session.next_agent_slot, turn.session.rerolling_prompt_index) == (2, None)
    for mine in (turn, turn.session):
        stored = type(mine)._default_manager.get(pk=mine.pk)
        for field in mine._meta.concrete_fields:
            assert getattr(mine, field.attname) == getattr(stored, field.attname), field.attname
    assert turn.session.updated_at == chapter.updated_at
    # What is saved next is this row, and no second one.
    turn.partial_text = "I step"
    turn.save()
    assert Turn.objects.get().partial_text == "I step"
    bystander.refresh_from_db()
    assert bystander.turn_in_flight is None


@pytest.mark.django_db
@pytest.mark.parametrize("state", State)
def test_a_chapter_is_claimed_in_play_alone(state: State) -> None:
    chapter = make_active_chapter(state=state)
    assert claim_and_store(new_prompt(chapter.pk)) is (state in PLAYABLE)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("of_chapter", "of_prompt", "earlier"),
    [
        ({"is_ending": True}, {}, {}),
        ({"turn_in_flight": uuid.UUID(int=7)}, {}, {}),
        ({"selected_agent_slots": [1, 3]}, {}, {}),
        ({}, {"agent_slot": 4}, {}),
        ({}, {"submission_key": "old"}, {"status": Turn.Status.COMMITTED}),
        ({}, {"submission_key": "old"}, {"status": Turn.Status.SET_ASIDE}),
        ({}, {}, {"status": Turn.Status.RUNNING}),
        ({}, {}, {"status": Turn.Status.FAILED}),
        ({}, {}, {"status": Turn.Status.STOPPED}),
    ],
)
def test_whatever_stands_in_the_way_is_left_as_it_was(
    of_chapter: dict[str, Any], of_prompt: dict[str, Any], earlier: dict[str, Any]
) -> None:
    chapter = make_active_chapter(**of_chapter)
    if earlier:
        add_turn(chapter, submission_key="old", **earlier)
    before = rows()
    assert not claim_and_store(new_prompt(chapter.pk, **of_prompt))
    assert rows() == before


@pytest.mark.django_db
def test_turns_that_are_over_and_those_of_other_chapters_stand_in_nobodys_way() -> None:
    chapter, other = make_active_chapter(), make_active_chapter()
    add_turn(chapter, submission_key="1", status=Turn.Status.COMMITTED)
    add_turn(chapter, submission_key="2", status=Turn.Status.SET_ASIDE)
    add_turn(other, submission_key="new", status=Turn.Status.FAILED)
    assert claim_and_store(new_prompt(chapter.pk))


@pytest.mark.django_db
def test_there_need_be_no_such_chapter() -> None:
    assert not claim_and_store(new_prompt(uuid.uuid4()))
    assert not Turn.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_prompt_waits_for_as_few_trips_as_the_database_allows() -> None:
    chapter = make_active_chapter()
    with CaptureQueriesContext(connection) as queries:
        opened = open_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="")
    assert opened.must_run
    verbs = [query["sql"].split()[0] for query in queries.captured_queries]
    assert verbs == (["WITH"] if ON_POSTGRESQL else ["BEGIN", "UPDATE", "INSERT", "COMMIT"])


@pytest.mark.django_db(transaction=True)
@on_postgresql
@pytest.mark.parametrize("strength", ["UPDATE", "NO KEY UPDATE", "KEY SHARE"])
def test_it_does_not_wait_for_who_holds_the_chapter(strength: str) -> None:
    """What that one does to the chapter's turns it would not see, unless it only refers to it."""
    chapter = make_active_chapter()

    def lock() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {Session._meta.db_table} FOR {strength}")  # noqa: S608

    with held_elsewhere(lock):
        assert claim_and_store(new_prompt(chapter.pk)) is (strength == "KEY SHARE")
    assert claim_and_store(new_prompt(chapter.pk)) is (strength != "KEY SHARE")


def play_a_prompt(session_id: uuid.UUID) -> None:
    opened = open_prompt(session_id, agent_slot=1, user_text="Went first.", submission_key="new")
    assert commit_turn(opened.turn, "She turns.")


def break_a_prompt(session_id: uuid.UUID) -> None:
    opened = open_prompt(session_id, agent_slot=1, user_text="Broke.", submission_key="other")
    assert fail_turn(opened.turn, error="It is away.", partial_text="")


@pytest.mark.django_db(transaction=True)
@on_postgresql
@pytest.mark.parametrize("meanwhile", [play_a_prompt, break_a_prompt])
def test_turns_that_came_after_it_looked_are_in_its_way(
    meanwhile: Callable[[uuid.UUID], None],
) -> None:
    """The chapter is free again by then, but it looked at the turns before."""
    chapter = make_active_chapter()

    def claim_slowly() -> bool:
        def look_and_wait(execute: Any, sql: str, *rest: Any) -> Any:
            assert "AND state IN" in sql
            waits = "AND pg_advisory_xact_lock(7)::text IS NOT NULL AND state IN"
            return execute(sql.replace("AND state IN", waits), *rest)

        try:
            with connection.execute_wrapper(look_and_wait):
                return claim_and_store(new_prompt(chapter.pk))
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as slow, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(7)")
        try:
            claim = slow.submit(claim_slowly)
            waiting = 0
            while not waiting and not claim.done():
                cursor.execute(
                    "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid "
                    "WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
                )
                (waiting,) = cursor.fetchone()
            assert waiting
            meanwhile(chapter.pk)
            before = rows()
        finally:
            cursor.execute("SELECT pg_advisory_unlock(7)")
        assert not claim.result(LONG)
    assert rows() == before


@pytest.mark.django_db(transaction=True)
def test_a_prompt_whose_storing_was_not_answered_can_be_sent_again() -> None:
    """Whether it was stored nobody can know then; it is there once at the end."""
    chapter = make_active_chapter()

    def send() -> OpenedTurn:
        return open_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="new")

    def lose_the_answer(execute: Any, sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)
        if sql.split()[0] in ("WITH", "UPDATE"):
            raise OperationalError("The connection was lost.")
        return answer

    with connection.execute_wrapper(lose_the_answer), pytest.raises(OperationalError):
        send()
    # A single statement was carried out; two were taken back.
    assert Turn.objects.exists() is ON_POSTGRESQL
    if ON_POSTGRESQL:
        # Somebody may be playing it.
        with pytest.raises(TurnInFlight):
            send()
        Turn.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert send().must_run
    assert Turn.objects.get().user_text == "Go."


@pytest.mark.django_db
def test_an_old_sqlite_takes_the_longer_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.features, "can_return_columns_from_insert", False)
    chapter = make_active_chapter()
    assert not claim_and_store(new_prompt(chapter.pk))
    assert open_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="").must_run
