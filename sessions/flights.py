"""A chapter has one turn in flight, claimed by a conditional UPDATE of the chapter's row."""

from collections.abc import Iterable

from django.db import connection, transaction
from django.db.models import Model, Q

from sessions.access import get_chapter
from sessions.exceptions import ChapterError, TurnInFlight, WrongState
from sessions.models import Session, Turn
from sessions.roster import SLOTS
from sessions.states import PLAYABLE


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _names_of(model: type[Model]) -> str:
    return ", ".join(field.column for field in model._meta.concrete_fields if field.column)


# Written out, because for Django to do so takes longer than for the database to do it. No value
# of anybody's is in it: the states and statuses are the program's own.
_CHAPTERS, _TURNS = Session._meta.db_table, Turn._meta.db_table
_ON_POSTGRESQL = connection.vendor == "postgresql"
_HAS_SLOT = (
    "selected_agent_slots @> to_jsonb(%s)"
    if _ON_POSTGRESQL
    else "%s IN (SELECT value FROM json_each(selected_agent_slots))"
)
# Somebody who waited for the row, or came to it after another's commit, would see it as it is then
# and its turns as they were before: it must be the row that they belong to. Whoever only refers to
# it stands in nobody's way. SQLite has one writer at a time.
_AS_ITS_TURNS_ARE = (
    f"""AND xmin = (SELECT seen.xmin FROM {_CHAPTERS} seen WHERE seen.session_id = %s)
        FOR NO KEY UPDATE SKIP LOCKED"""  # noqa: S608
    if _ON_POSTGRESQL
    else ""
)
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
                SELECT 1 FROM {_TURNS} WHERE session_id = %s AND status IN ({_quoted(Turn.PENDING)})
            )
            {_AS_ITS_TURNS_ARE}
    )
    RETURNING {_names_of(Session)}
"""  # noqa: S608
_ROW = ", ".join(["%s"] * len(Turn._meta.concrete_fields))
_INSERT_INTO = f"INSERT INTO {_TURNS} ({_names_of(Turn)})"
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
    does not have, a key that was used before, a broken turn that waits, a row that somebody holds
    or has just changed; and on an SQLite that is older than RETURNING.
    """
    # What is no slot at all would be an error of the column.
    if turn.agent_slot not in SLOTS or not connection.features.can_return_columns_from_insert:
        return False
    value_of = {
        field.attname: field.get_db_prep_save(field.pre_save(turn, add=True), connection)
        for field in Turn._meta.concrete_fields
    }
    slot, chapter_id = turn.agent_slot, value_of["session_id"]
    new = [value_of["turn_id"], slot]
    free = [chapter_id, slot, chapter_id, value_of["submission_key"], chapter_id]
    claim, row = [*new, *free], list(value_of.values())
    if _ON_POSTGRESQL:
        claimed = list(Session.objects.raw(_CLAIM_AND_INSERT, [*claim, chapter_id, *row]))
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
