"""A turn is all or nothing: stored before any model is called, committed in one transaction."""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import models, transaction
from django.db.models import Case, F, Max, Q, When
from django.utils import timezone

from sessions.access import get_chapter, get_chapter_to_change, lock_chapter
from sessions.exceptions import InvalidInput, KeyReused, TurnInFlight, WrongState
from sessions.flights import claim_and_store, claim_flight
from sessions.leases import TURN_LEASE
from sessions.limits import PROMPT_CHAR_LIMIT, SUBMISSION_KEY_CHAR_LIMIT
from sessions.log_lines import note_after_commit
from sessions.models import Event, Session, Turn
from sessions.roster import next_slot
from sessions.states import PLAYABLE
from sessions.text import clean_line, clean_text, scrub_reply

logger = logging.getLogger(__name__)

# What was kept of a turn that broke off, and what to do.
KEPT = "Your words and the text so far are kept; retry, or keep what is there."
INTERRUPTED = f"The program stopped while this reply was being written. {KEPT}"
# What the log calls that.
_INTERRUPTION = "Interrupted"


@dataclass(frozen=True)
class OpenedTurn:
    """`must_run` is False when the same submission was answered before."""

    turn: Turn
    must_run: bool


def open_prompt(
    session_id: uuid.UUID, *, agent_slot: int, user_text: str, submission_key: str
) -> OpenedTurn:
    """Store the GM's prompt as the turn in flight.

    Sent again under the same key it is the same turn: TurnInFlight while it runs, the committed
    turn after success, a new attempt after a failure. KeyReused for other words or another agent:
    the first ones were accepted, and stay in their row. Raises ChapterError when refused. The
    turn's chapter may be as it was before the claim.
    """
    text = clean_text(user_text, limit=PROMPT_CHAR_LIMIT, label="The prompt")
    if not text.strip():
        raise InvalidInput("The prompt is empty. Write what happens, then send it.")
    now = timezone.now()
    prompt = Turn(
        session_id=session_id,
        submission_key=_clean_key(submission_key),
        agent_slot=agent_slot,
        user_text=text,
        submitted_at=now,
        lease_until=now + TURN_LEASE,
    )
    if claim_and_store(prompt):
        _note(prompt, "turn stored")
        return OpenedTurn(prompt, must_run=True)
    return _open_prompt_carefully(prompt)


@transaction.atomic
def _open_prompt_carefully(prompt: Turn) -> OpenedTurn:
    """Something may be in its way, and what that is decides."""
    chapter = get_chapter_to_change(prompt.session_id)
    key, text, agent_slot = prompt.submission_key, prompt.user_text, prompt.agent_slot
    concerned = _concerned_turns(chapter, key)
    earlier = _find_earlier(concerned, key, Turn.Kind.PROMPT)
    if earlier is not None:
        if (earlier.user_text, earlier.agent_slot) != (text, agent_slot):
            raise KeyReused(
                "This prompt was sent already, with other words or to another agent. "
                "Nothing was changed; send yours again under an id of its own."
            )
        if not earlier.may_run_again:
            return _answer_again(earlier)
    if agent_slot not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {agent_slot} in this chapter. Nothing was sent.")
    prompt.session = chapter
    turn = earlier or prompt
    claim_flight(chapter, turn)
    return OpenedTurn(_start_attempt(turn, concerned), must_run=True)


@transaction.atomic
def open_reroll(session_id: uuid.UUID, *, submission_key: str) -> OpenedTurn:
    """Store a re-roll of the latest reply as the turn in flight.

    Refused with WrongState once memory covers the prompt.
    """
    key = _clean_key(submission_key)
    chapter = get_chapter_to_change(session_id)
    concerned = _concerned_turns(chapter, key)
    earlier = _find_earlier(concerned, key, Turn.Kind.REROLL)
    if earlier is not None and not earlier.may_run_again:
        return _answer_again(earlier)
    if chapter.prompt_index == 0:
        raise WrongState("There is no reply to write again yet. Send a prompt first.")
    reply = chapter.events.filter(prompt_index=chapter.prompt_index, role=Event.Role.AGENT).latest(
        "created_at"
    )
    prompt = chapter.events.get(prompt_index=chapter.prompt_index, role=Event.Role.USER)
    turn = earlier or Turn(session=chapter, submission_key=key)
    turn.kind, turn.prompt_index = Turn.Kind.REROLL, chapter.prompt_index
    turn.agent_slot, turn.user_text = reply.agent_slot or 1, prompt.text
    claim_flight(chapter, turn)
    return OpenedTurn(_start_attempt(turn, concerned), must_run=True)


@transaction.atomic
def commit_turn(turn: Turn, reply_text: str) -> list[Event] | None:
    """Write the turn's Events and move the chapter on; None when it is no longer this attempt's.

    But for its lease the turn is then as it is stored, and so is its chapter: neither need be read
    again.
    """
    now = timezone.now()
    flight = Session.objects.filter(pk=turn.session_id, turn_in_flight=turn.turn_id)
    landed: dict[str, object] = {
        "turn_in_flight": None,
        "rerolling_prompt_index": None,
        "last_played_at": now,
        "updated_at": now,
    }
    is_prompt = turn.kind == Turn.Kind.PROMPT
    if is_prompt:
        landed |= {"prompt_index": F("prompt_index") + 1, "next_agent_slot": _panel_after(turn)}
    if not flight.filter(state__in=PLAYABLE).update(**landed):
        return None
    chapter = get_chapter(turn.session_id)
    committed = {
        "status": Turn.Status.COMMITTED,
        "prompt_index": chapter.prompt_index,
        "partial_text": "",
        "error": "",
        "updated_at": now,
    }
    if not _attempt(turn).update(**committed):
        transaction.set_rollback(True)
        return None
    for name, value in {**committed, "session": chapter}.items():
        setattr(turn, name, value)
    took = (now - turn.submitted_at) // timedelta(milliseconds=1)
    _note(turn, "turn committed", prompt=chapter.prompt_index, ms=took)
    return _write_events(turn, scrub_reply(reply_text))


def fail_turn(turn: Turn, *, error: str, partial_text: str, kind: str = _INTERRUPTION) -> bool:
    """Keep the GM's words and the text so far beside the error; the chapter did not move.

    `kind` names the failure in the log, which never repeats `error`.
    """
    return _break_turn(_attempt(turn), turn, Turn.Status.FAILED, error, partial_text, kind)


def stop_turn(turn: Turn, *, partial_text: str | None = None) -> bool:
    """End the attempt as the GM asked; None keeps the text that was last flushed."""
    return _break_turn(_attempt(turn), turn, Turn.Status.STOPPED, "", partial_text)


def extend_broken_text(turn: Turn, partial_text: str) -> None:
    """Add what arrived between the last flush and the attempt's end by another process: a stop, or
    a claim that could not be renewed."""
    Turn.objects.filter(pk=turn.pk, run_id=turn.run_id, status__in=Turn.BROKEN).update(
        partial_text=scrub_reply(partial_text)
    )


@transaction.atomic
def take_broken_text(turn: Turn) -> Turn:
    """Put a broken turn with text back in flight so that its text can be committed."""
    if not turn.partial_text.strip():
        raise WrongState("There is no text to keep. Retry the prompt, or send another.")
    chapter = get_chapter_to_change(turn.session_id)
    claim_flight(chapter, turn)
    text = turn.partial_text
    attempt = _start_attempt(turn, _concerned_turns(chapter, turn.submission_key))
    attempt.partial_text = text
    return attempt


def set_aside(turn: Turn) -> bool:
    """Go on without a broken turn."""
    return bool(
        Turn.objects.filter(pk=turn.pk, status__in=Turn.BROKEN).update(status=Turn.Status.SET_ASIDE)
    )


def pending_turn(chapter: Session) -> Turn | None:
    """The turn in flight, or the broken one that waits for the GM."""
    # There is one at most. Were an order asked for, SQLite would look through all turns in it.
    return next(iter(chapter.turns.filter(status__in=Turn.PENDING).order_by()[:1]), None)


def set_aside_turns(chapter: Session) -> list[Turn]:
    """The prompts that the GM went on without, oldest first: their words are still there."""
    return list(chapter.turns.filter(status=Turn.Status.SET_ASIDE).order_by("submitted_at"))


def running_turn(chapter: Session) -> Turn:
    turn = chapter.turns.filter(status=Turn.Status.RUNNING).first()
    if turn is None:
        raise WrongState("No reply is being written.")
    return turn


def broken_turn(chapter: Session) -> Turn:
    turn = chapter.turns.filter(status__in=Turn.BROKEN).first()
    if turn is None:
        raise WrongState("There is no stopped or broken reply to keep.")
    return turn


def recover_stale_turns(session_id: uuid.UUID | None = None) -> int:
    """Fail the turns whose process died; returns how many."""
    stale = Turn.objects.filter(status=Turn.Status.RUNNING, lease_until__lt=timezone.now())
    if session_id is not None:
        stale = stale.filter(session_id=session_id)
    return sum(
        _break_turn(
            _attempt(turn).filter(lease_until__lt=timezone.now()),
            turn,
            Turn.Status.FAILED,
            INTERRUPTED,
            None,
            _INTERRUPTION,
        )
        for turn in stale
    )


def _clean_key(submission_key: str) -> str:
    key = clean_line(submission_key, limit=SUBMISSION_KEY_CHAR_LIMIT, label="The submission's id")
    return key or str(uuid.uuid4())


def _concerned_turns(chapter: Session, key: str) -> list[Turn]:
    """The turn of this submission, and those that are in flight or broken: one query for all."""
    turns = _query_concerned(chapter, key)
    if any(turn.has_died for turn in turns):
        recover_stale_turns(chapter.pk)
        turns = _query_concerned(chapter, key)
    return turns


def _query_concerned(chapter: Session, key: str) -> list[Turn]:
    concerned = Q(submission_key=key) | Q(status__in=Turn.PENDING)
    # There are few. Were an order asked for, SQLite would look through all turns in it.
    return list(chapter.turns.filter(concerned).order_by())


def _find_earlier(concerned: list[Turn], key: str, kind: Turn.Kind) -> Turn | None:
    earlier = next((turn for turn in concerned if turn.submission_key == key), None)
    if earlier is not None and earlier.kind != kind:
        raise InvalidInput("This submission's id belongs to something else. Nothing was changed.")
    return earlier


def _answer_again(turn: Turn) -> OpenedTurn:
    if turn.is_running:
        raise TurnInFlight("This prompt was sent already; its reply is being written.")
    return OpenedTurn(turn, must_run=False)


def _start_attempt(turn: Turn, concerned: list[Turn]) -> Turn:
    now = timezone.now()
    if not turn._state.adding:
        _check_still_broken(turn)
    turn.status, turn.run_id = Turn.Status.RUNNING, uuid.uuid4()
    turn.error = turn.partial_text = ""
    turn.submitted_at, turn.lease_until = now, now + TURN_LEASE
    turn.save()
    _note(turn, "turn stored")
    for other in concerned:
        if other.pk != turn.pk:
            set_aside(other)
    return turn


def _check_still_broken(turn: Turn) -> None:
    """The flight is ours; but the turn was read before, and may have been taken up meanwhile."""
    unchanged = Turn.objects.filter(pk=turn.pk, run_id=turn.run_id)
    if not unchanged.filter(status__in=(*Turn.BROKEN, Turn.Status.SET_ASIDE)).exists():
        raise WrongState("This prompt was taken up in another window meanwhile.")


def _attempt(turn: Turn) -> models.QuerySet[Turn]:
    return Turn.objects.filter(pk=turn.pk, run_id=turn.run_id, status=Turn.Status.RUNNING)


@transaction.atomic
def _break_turn(
    attempt: models.QuerySet[Turn],
    turn: Turn,
    status: Turn.Status,
    error: str,
    partial_text: str | None,
    kind: str = "",
) -> bool:
    lock_chapter(turn.session_id)
    changes: dict[str, object] = {"status": status, "error": error, "updated_at": timezone.now()}
    if partial_text is not None:
        changes["partial_text"] = scrub_reply(partial_text)
    if not attempt.update(**changes):
        return False
    _note(turn, f"turn {status.value}", kind=kind)
    Session.objects.filter(pk=turn.session_id, turn_in_flight=turn.turn_id).update(
        turn_in_flight=None, rerolling_prompt_index=None
    )
    return True


def _note(turn: Turn, event: str, **fields: object) -> None:
    ids = {"session_id": turn.session_id, "turn_id": turn.pk}
    slot, is_reroll = turn.agent_slot, turn.kind == Turn.Kind.REROLL
    note_after_commit(logger, event, slot=slot, is_reroll=is_reroll, **fields, **ids)


def _panel_after(turn: Turn) -> Case:
    """The next character's, unless the GM has chosen another panel meanwhile."""
    slot = next_slot(turn.agent_slot, turn.session.selected_agent_slots)
    return Case(
        When(next_agent_slot=turn.agent_slot, then=slot),
        default="next_agent_slot",
        output_field=models.PositiveSmallIntegerField(),
    )


def _write_events(turn: Turn, reply_text: str) -> list[Event]:
    """The reply and, unless it was written again, the prompt before it."""
    about = {"session": turn.session, "prompt_index": turn.prompt_index}
    reply = Event(**about, role=Event.Role.AGENT, agent_slot=turn.agent_slot, text=reply_text)
    events = [reply]
    if turn.kind == Turn.Kind.PROMPT:
        prompt = Event(**about, role=Event.Role.USER, text=turn.user_text)
        prompt.created_at = turn.submitted_at
        events.insert(0, prompt)
    latest = turn.session.events.aggregate(latest=Max("created_at"))["latest"]
    for event in events:
        # The order of events is the order of their times, also when a clock was set back.
        if latest is not None:
            event.created_at = max(event.created_at, latest + timedelta(microseconds=1))
        latest = event.created_at
    return Event.objects.bulk_create(events)


def events_of(turn: Turn) -> Sequence[Event]:
    """The Events of a committed turn: its prompt's user event and every reply to it."""
    number = turn.prompt_index or 0
    return list(Event.objects.filter(session_id=turn.session_id, prompt_index=number))
