"""A chapter has one turn in flight, claimed by a conditional UPDATE of the chapter's row."""

from collections.abc import Iterable

from django.db import connection, transaction
from django.db.models import Q

from sessions.access import get_chapter
from sessions.exceptions import ChapterError, TurnInFlight, WrongState
from sessions.models import Session, Turn
from sessions.states import PLAYABLE

# Turns that wait for the GM, and those with the one that is in flight.
BROKEN = (Turn.Status.FAILED, Turn.Status.STOPPED)
PENDING = (Turn.Status.RUNNING, *BROKEN)


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


# Written out, because for Django to do so takes longer than for the database to do it. No value
# of anybody's is in it: the states and statuses are the program's own.
_CHAPTERS, _TURNS = Session._meta.db_table, Turn._meta.db_table
_ON_POSTGRESQL = connection.vendor == "postgresql"
_HAS_SLOT = (
    "selected_agent_slots @> to_jsonb(%s)"
    if _ON_POSTGRESQL
    else "%s IN (SELECT value FROM json_each(selected_agent_slots))"
)
# Whoever waited for a row would see it as it is then, and its turns as they were before.
_WITHOUT_WAITING = "FOR UPDATE SKIP LOCKED" if _ON_POSTGRESQL else ""
_CLAIM = f"""
    UPDATE {_CHAPTERS} SET turn_in_flight = %s, rerolling_prompt_index = NULL, next_agent_slot = %s
    WHERE session_id = (
        SELECT session_id FROM {_CHAPTERS}
        WHERE session_id = %s AND {_HAS_SLOT}
            AND state IN ({_quoted(PLAYABLE)}) AND NOT is_ending AND turn_in_flight IS NULL
            AND NOT EXISTS (
                SELECT 1 FROM {_TURNS} WHERE session_id = %s AND submission_key = %s
            )
            AND NOT EXISTS (
                SELECT 1 FROM {_TURNS} WHERE session_id = %s AND status IN ({_quoted(PENDING)})
            )
        {_WITHOUT_WAITING}
    )
    RETURNING *
"""  # noqa: S608
_COLUMNS = [field.attname for field in Turn._meta.concrete_fields]
_ROW = ", ".join(["%s"] * len(_COLUMNS))
_INSERT_INTO = f"INSERT INTO {_TURNS} ({', '.join(_COLUMNS)})"
_INSERT = f"{_INSERT_INTO} VALUES ({_ROW})"
_CLAIM_AND_INSERT = f"""
    WITH claimed AS ({_CLAIM}), stored AS ({_INSERT_INTO} SELECT {_ROW} FROM claimed)
    SELECT * FROM claimed
"""  # noqa: S608


def claim_flight(chapter: Session, turn: Turn) -> None:
    """Raises WrongState when the chapter is not in play or another turn is in flight."""
    free = Session.objects.filter(
        pk=chapter.pk, state__in=PLAYABLE, is_ending=False, turn_in_flight=None
    )
    rerolling = turn.prompt_index if turn.kind == Turn.Kind.REROLL else None
    if rerolling is not None:
        free = free.filter(Q(last_summarized_prompt_index__lt=rerolling), prompt_index=rerolling)
    claim = {"turn_in_flight": turn.turn_id, "rerolling_prompt_index": rerolling}
    if turn.kind == Turn.Kind.PROMPT:
        claim["next_agent_slot"] = turn.agent_slot
    if not free.update(**claim):
        raise _refusal(get_chapter(chapter.pk), turn)


def claim_and_store(turn: Turn) -> bool:
    """Claim the chapter for a new prompt and store it; `turn.session` is then the chapter.

    A GM waits for this: it asks nothing first and is, on PostgreSQL, one trip. False, with nothing
    changed, when there is more to it: what `claim_flight` refuses, a character that the chapter
    does not have, a key that was used before, a broken turn that waits, a row that somebody holds.
    """
    fields = Turn._meta.concrete_fields
    row = [field.get_db_prep_save(field.pre_save(turn, add=True), connection) for field in fields]
    value_of = dict(zip((field.name for field in fields), row, strict=True))
    turn_id, session_id, slot = (value_of[name] for name in ("turn_id", "session", "agent_slot"))
    key = value_of["submission_key"]
    claim = [turn_id, slot, session_id, slot, session_id, key, session_id]
    if _ON_POSTGRESQL:
        claimed = list(Session.objects.raw(_CLAIM_AND_INSERT, [*claim, *row]))
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            if claimed := list(Session.objects.raw(_CLAIM, claim)):
                cursor.execute(_INSERT, row)
    for chapter in claimed:
        turn.session, turn._state.adding, turn._state.db = chapter, False, connection.alias
    return bool(claimed)


def _refusal(chapter: Session, turn: Turn) -> ChapterError:
    kept = "Your words are kept in the box."
    if chapter.turn_in_flight is not None:
        return TurnInFlight(f"A reply is being written. {kept} Wait for it, or stop it first.")
    if chapter.is_ending:
        return WrongState(f"The chapter is ending. {kept}")
    if not chapter.is_playable:
        return WrongState(f"This chapter is not in play ({chapter.get_state_display()}). {kept}")
    return WrongState(
        "This reply can no longer be written again: memory covers it, or play has gone on."
    )
