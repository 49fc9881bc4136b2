"""Finds the latest turn, and says whether another attempt at it can be made or chosen."""

from sessions.exceptions import TurnInFlight, WrongState
from sessions.limits import MAX_ATTEMPTS_OF_A_TURN
from sessions.models import Session, Turn
from sessions.play.played_world import is_closed

_CLOSED = "you have acted in the world since, so this reply stays as it is."


def latest_turn(chapter: Session) -> Turn:
    """Return the latest turn. Raises WrongState if the chapter has no turn yet."""
    turn = find_latest_turn(chapter)
    if turn is None:
        raise WrongState("There is no reply to write again yet. Send a prompt first.")
    return turn


def find_latest_turn(chapter: Session) -> Turn | None:
    """Return the latest turn with its chosen attempt, or None if the chapter has no turn yet."""
    return chapter.turns.select_related("chosen__turn").order_by("-number").first()


def check_changeable(chapter: Session, number: int, *, in_flight: bool = False) -> None:
    """Raise WrongState if no other attempt at the turn can be made or chosen.

    Also raise TurnInFlight while an attempt is in flight, unless `in_flight` is True.
    """
    if reason := why_not_changeable(chapter, number):
        raise WrongState(f"Nothing was changed: {reason}")
    if chapter.turn_in_flight is not None and not in_flight:
        raise TurnInFlight("A reply is being written. Wait for it, or stop it first.")


def check_open(turn: Turn) -> None:
    """Raise WrongState once an act has followed the turn."""
    if is_closed(turn.session, turn.number):
        raise WrongState(f"Nothing was changed: {_CLOSED}")


def check_room_for_attempt(turn: Turn) -> None:
    """Raise WrongState once the turn has as many attempts as it may have."""
    if turn.attempts.count() >= MAX_ATTEMPTS_OF_A_TURN:
        raise WrongState(
            f"There are {MAX_ATTEMPTS_OF_A_TURN} replies to this prompt, and there can be no more. "
            "Nothing was changed; choose one of them."
        )


def why_not_changeable(chapter: Session, number: int) -> str:
    """Return the reason why no other attempt at this turn can be made or chosen. Return "" if one
    can be."""
    if number != chapter.prompt_index:
        return "play has gone on, and only the latest reply can be replaced."
    if is_closed(chapter, number):
        return _CLOSED
    if chapter.is_ending:
        return "the chapter is ending."
    if not chapter.is_playable:
        return f"the chapter is not in play ({chapter.get_state_display()})."
    return ""
