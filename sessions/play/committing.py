"""Commits attempts, and chooses for each turn the one attempt that is part of the story."""

import logging
import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db import models, transaction
from django.db.models import Case, F, When
from django.utils import timezone

from sessions.chapter.access import (
    get_chapter,
    get_chapter_to_change,
    lock_chapter,
)
from sessions.exceptions import InvalidInput, KeyReused, UnknownTurn, WrongState
from sessions.language.text import clean_text
from sessions.limits import REPLY_CHAR_LIMIT
from sessions.log_lines import note_attempt
from sessions.models import PLAYABLE, THOUGHT, Attempt, Event, Session, Turn
from sessions.play.attempts import KEY_REUSED, clean_key
from sessions.play.breaking import run_of, set_broken_aside
from sessions.play.edited_events import events_with_text, whole_reply
from sessions.play.events import NewEvent, reply, write_events
from sessions.play.latest_turn import check_changeable, check_room_for_attempt, latest_turn
from sessions.play.played_world import copy_changes
from sessions.roster import next_slot

# All lines about attempts that go well come from one logger.
logger = logging.getLogger("sessions.play.attempts")


@transaction.atomic
def commit_attempt(attempt: Attempt, outcome: str | Sequence[NewEvent]) -> list[Event] | None:
    """Commit the attempt with its events, and choose it unless it is a trial. Return the events.

    `outcome` is the reply's text, or all events of the attempt. `ended_before` and `was_cut` are
    stored as the given object has them. If the attempt's run may no longer
    write to it, nothing is written and None is returned. Afterwards `attempt` and its chapter have
    the stored values, except for the lease.
    """
    if not lock_chapter(attempt.session_id):
        return None
    now = timezone.now()
    # The turn is read from the database, because `attempt` may have a turn from an earlier commit
    # that was rolled back.
    is_prompt = attempt.kind == Attempt.Kind.PROMPT
    turns = Turn.objects.select_related("chosen")
    at = None if is_prompt else turns.get(attempts=attempt)
    if not attempt.is_trial and not _land(attempt, at):
        return None
    chapter = get_chapter(attempt.session_id)
    turn = at or Turn(session=chapter, number=chapter.prompt_index)
    if not attempt.is_trial:
        turn.chosen = attempt
        turn.save()
    committed = {
        "status": Attempt.Status.COMMITTED,
        "turn": turn,
        "partial_text": "",
        "kept_setup": None,
        "error": "",
        "server_said": "",
        "ended_before": attempt.ended_before,
        "was_cut": attempt.was_cut,
        "committed_at": now,
        "updated_at": now,
    }
    if not run_of(attempt).update(**committed):
        transaction.set_rollback(True)
        return None
    for name, value in {**committed, "session": chapter}.items():
        setattr(attempt, name, value)
    took = (now - attempt.submitted_at) // timedelta(milliseconds=1)
    note_attempt(logger, attempt, "committed", prompt=turn.number, ms=took)
    return write_events(attempt, reply(attempt, outcome) if isinstance(outcome, str) else outcome)


@transaction.atomic
def choose_attempt(session_id: uuid.UUID, number: int, attempt_id: uuid.UUID) -> Attempt:
    """Choose this attempt at the latest turn. No model is called.

    Raises UnknownTurn if this is no committed attempt at turn `number`. Raises WrongState if no
    attempt at this turn can be chosen any more, and TurnInFlight while a reply is being written.
    """
    chapter = get_chapter_to_change(session_id)
    attempt = find_committed(chapter, number, attempt_id)
    check_changeable(chapter, number)
    turn = latest_turn(chapter)
    if turn.chosen_id != attempt.pk:
        _choose(chapter, turn, attempt)
    return attempt


@transaction.atomic
def edit_reply(
    session_id: uuid.UUID,
    number: int,
    text: str,
    *,
    submission_key: str = "",
    attempt_id: uuid.UUID | None = None,
) -> Attempt:
    """Store the chosen reply with another text as a new attempt, and choose the new attempt.

    If the same edit comes again under the same key, no second attempt is stored. Raises the errors
    of `choose_attempt`, InvalidInput or TooLong for a text that cannot be a reply, and KeyReused if
    the key came with another edit.

    `attempt_id` names the attempt whose text the user edited. Raises WrongState if neither this
    attempt nor an edit of it is chosen.
    """
    text = clean_text(text, limit=REPLY_CHAR_LIMIT, label="The reply")
    if not text.strip():
        raise InvalidInput("The reply is empty. Nothing was changed; the old reply is still there.")
    chapter = get_chapter_to_change(session_id)
    turn = find_turn(chapter, number)
    key = clean_key(submission_key)
    if earlier := chapter.attempts.filter(submission_key=key).first():
        is_this = earlier.kind == Attempt.Kind.EDIT and earlier.turn_id == turn.pk
        if not is_this or whole_reply(earlier) != text:
            raise KeyReused(KEY_REUSED)
        return earlier
    check_changeable(chapter, number)
    check_room_for_attempt(turn)
    source = turn.chosen
    edited = source.source_id if source.kind == Attempt.Kind.EDIT else None
    if attempt_id not in (None, source.pk, edited):
        raise WrongState(
            "Another reply was chosen while you edited this one. Nothing was changed; copy your "
            "text, and edit the reply that is chosen now."
        )
    edit = Attempt.objects.create(
        session=chapter,
        turn=turn,
        source=source,
        kind=Attempt.Kind.EDIT,
        status=Attempt.Status.COMMITTED,
        submission_key=key,
        actor=source.actor,
        agent=source.agent,
        words=source.words,
        witnesses=source.witnesses,
        given=source.given,
        lease_until=timezone.now(),
        committed_at=timezone.now(),
    )
    note_attempt(logger, edit, "committed", prompt=number)
    # The changes are copied before the events are written, because a person who appears in the
    # changes can be a witness of the events.
    copy_changes(source, source.run_id, edit)
    write_events(edit, events_with_text(source, text))
    _choose(chapter, turn, edit)
    return edit


def find_turn(chapter: Session, number: int) -> Turn:
    """Return the turn with its chosen attempt. Raises UnknownTurn."""
    turn = chapter.turns.select_related("chosen").filter(number=number).first()
    if turn is None:
        raise UnknownTurn("There is no such prompt in this chapter.")
    return turn


def find_committed(chapter: Session, number: int, attempt_id: uuid.UUID) -> Attempt:
    """Return the committed attempt with this id at this turn. Raises UnknownTurn if there is
    none."""
    attempt = chapter.attempts.filter(
        pk=attempt_id, turn=find_turn(chapter, number), status=Attempt.Status.COMMITTED
    ).first()
    if attempt is None:
        raise UnknownTurn("There is no such reply to this prompt.")
    return attempt


def reply_of(attempt: Attempt) -> Event:
    """Return the event that is the reply: the last event of the attempt that is neither a thought
    nor the user's words.

    Raises WrongState if the attempt has no such event.
    """
    reply = _last_said(attempt)
    if reply is None:
        raise WrongState("Nothing was said here, so there is no reply. Nothing was changed.")
    return reply


def text_of(attempt: Attempt) -> str:
    """Return the text of the reply that `reply_of` finds, or "" if the attempt has no reply."""
    reply = _last_said(attempt)
    return reply.text if reply else ""


def _last_said(attempt: Attempt) -> Event | None:
    said = attempt.events.filter(role=Event.Role.AGENT).exclude(kind=THOUGHT)
    return said.order_by("position").last()


def _land(attempt: Attempt, turn: Turn | None) -> bool:
    """Mark that the chapter's attempt is no longer in flight. If the attempt is a prompt, count a
    new turn.

    Returns False if the attempt is not in flight or the chapter is not in play.
    """
    now = timezone.now()
    changes: dict[str, object] = {"turn_in_flight": None, "last_played_at": now, "updated_at": now}
    if turn is None:
        changes["prompt_index"] = F("prompt_index") + 1
    changes["next_agent_slot"] = _panel_after(attempt.session, attempt.actor, turn)
    in_flight = Session.objects.filter(pk=attempt.session_id, turn_in_flight=attempt.pk)
    return bool(in_flight.filter(state__in=PLAYABLE).update(**changes))


def _choose(chapter: Session, turn: Turn, attempt: Attempt) -> None:
    set_broken_aside(chapter)
    panel = _panel_after(chapter, attempt.actor, turn)
    turn.chosen = attempt
    turn.save(update_fields=["chosen"])
    now = timezone.now()
    Session.objects.filter(pk=chapter.pk).update(
        next_agent_slot=panel, last_played_at=now, updated_at=now
    )
    note_attempt(logger, attempt, "chosen", prompt=turn.number)


def _panel_after(chapter: Session, actor: int | None, turn: Turn | None) -> Case | F:
    """Return an SQL expression for the panel that Tab 2 shows after this attempt.

    This is the panel of the next character after the actor. But if the user has chosen a panel, the
    user's panel is kept. The user has chosen one if the stored panel is not the panel that the
    engine itself has stored. For a prompt (`turn` is None), the engine has stored the actor's
    panel. For another attempt at a turn, it has stored the panel of the next character after the
    actor of the turn's chosen attempt.
    """
    before = actor if turn is None else turn.chosen.actor
    if actor is None or before is None:
        return F("next_agent_slot")
    slots = chapter.selected_agent_slots
    unchosen = actor if turn is None else next_slot(before, slots)
    return Case(
        When(next_agent_slot=unchosen, then=next_slot(actor, slots)),
        default="next_agent_slot",
        output_field=models.PositiveSmallIntegerField(),
    )
