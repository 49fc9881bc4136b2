"""Acts: changes of the world that the user makes without a model, such as a move on a map."""

import uuid
from collections.abc import Callable, Sequence

from django.db import transaction
from django.utils import timezone

from sessions.chapter.access import get_chapter_to_change
from sessions.exceptions import TurnInFlight, WrongState
from sessions.limits import MAX_ACTS_OF_A_TURN
from sessions.models import Change, Session
from sessions.play.attempts import free_from_dead_attempt
from sessions.play.breaking import set_broken_aside
from sessions.play.latest_turn import find_latest_turn
from sessions.play.played_world import NewChange, add_changes

# A function that takes a chapter, whose row is locked, and returns the changes that an act makes.
Deed = Callable[[Session], Sequence[NewChange]]


@transaction.atomic
def act(session_id: uuid.UUID, deed: Deed) -> list[Change]:
    """Store the changes of an act after the latest turn, and set a broken attempt aside.

    The act closes the turn to other attempts. Raises TurnInFlight while a reply is being written.
    Raises WrongState outside of play, before the first turn, and if the turn has too many acts.
    Raises InvalidInput for a change that cannot be stored.
    """
    chapter = get_chapter_to_change(session_id)
    if chapter.is_ending or not chapter.is_playable:
        raise WrongState(
            f"The chapter is not in play ({chapter.get_state_display()}). Nothing was changed."
        )
    free_from_dead_attempt(chapter)
    if chapter.turn_in_flight is not None:
        raise TurnInFlight(
            "A reply is being written. Nothing was changed; wait for it, or stop it first."
        )
    turn = find_latest_turn(chapter)
    if turn is None:
        raise WrongState("Nothing has happened yet that this could follow. Send a prompt first.")
    new = deed(chapter)
    if not new:
        return []
    if turn.chosen.changes.filter(run_id=None).count() + len(new) > MAX_ACTS_OF_A_TURN:
        raise WrongState(
            f"You have acted {MAX_ACTS_OF_A_TURN} times since the last turn. Nothing was changed; "
            "go on with the story first."
        )
    made = add_changes(turn.chosen, new, run_id=None)
    set_broken_aside(chapter)
    now = timezone.now()
    Session.objects.filter(pk=chapter.pk).update(last_played_at=now, updated_at=now)
    return made
