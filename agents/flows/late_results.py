"""Late results in play. A run takes the results that wait, and a prompt asks for those that are
missing."""

from django.db import Error as DatabaseError
from django.db import transaction

from agents.modes import check_changes, find_mode, mode_of, world_of
from agents.running.results import ask_again_for_results, make_void, waiting_results
from sessions.attempts import find_latest_turn
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from sessions.world import LateResult, NewChange, take_results


def take_waiting_results(attempt: Attempt) -> None:
    """Store the finished late results that wait for the attempt, as the first changes of its run.

    If a result cannot be stored, or if the world cannot take it, it becomes void instead.
    """
    if not mode_of(attempt.session).job_kinds or not (waiting := waiting_results(attempt)):
        return
    # If the world cannot be folded even without these results, none of them is the cause.
    world_of(attempt)
    for result in waiting:
        if reason := _take(attempt, result):
            make_void(result.result_id, reason)


def _take(attempt: Attempt, result: LateResult) -> str:
    """Take one result. Return the reason if it could not be taken, or "" if it was taken."""
    try:
        with transaction.atomic():
            check_changes(attempt.session, [NewChange(result.kind, result.payload)])
            take_results(attempt, [result])
            world_of(attempt)
    except DatabaseError:
        raise
    except InvalidInput as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  (or each further prompt would fail at this)
        return f"The way to play cannot take it into its world ({type(error).__name__})."
    return ""


def ask_for_lacking_results(chapter: Session) -> None:
    """Ask for late results that a choice, a failure, an edit or an import has left missing."""
    mode = find_mode(chapter.mode)
    if mode is None or not mode.job_kinds:
        return
    ask_again_for_results(chapter.pk)
    latest = find_latest_turn(chapter)
    if latest is not None:
        mode.after_commit(latest.chosen)
