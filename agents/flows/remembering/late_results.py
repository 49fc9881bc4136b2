"""Late results in play. A job ends with a result, and a later run takes the results that wait. When
a prompt is stored, the missing results are asked for, and the mode can ask for other work that the
turn before should have brought."""

import logging
from collections.abc import Mapping
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction

from agents.models import Job
from agents.modes.registry import check_changes, find_mode, mode_of
from agents.running.jobs import finish, owned
from agents.running.results import ask_again_for_results, make_void, waiting_results
from agents.running.unforeseen import traceback_of
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Change, Session
from sessions.play.latest_turn import find_latest_turn
from sessions.play.played_world import LateResult, NewChange, check_change, take_results

logger = logging.getLogger(__name__)


def finish_with_result(job: Job, payload: Mapping[str, Any]) -> bool:
    """Mark the job done, and store its result, a JSON object.

    Returns False if the job no longer belongs to this worker. A result that no run could store as a
    change becomes void at once.
    """
    if reason := why_never(job.session, job.result_kind, payload):
        return make_void(job.pk, owned(job), reason)
    return finish(job, result=dict(payload))


def why_never(chapter: Session, kind: str, result: Any) -> str:
    """Return the reason why no run could store this result as a change of the kind, or "" if a run
    can store it."""
    if kind not in mode_of(chapter).world.all_change_kinds:
        return "The way to play has no such change of its world."
    no_object = "What was worked out is no JSON object that can be stored."
    if not isinstance(result, Mapping):
        return no_object
    try:
        check_change(kind, result)
    except InvalidInput as error:
        return str(error)
    except (TypeError, ValueError):
        return no_object
    return ""


def take_waiting_results(attempt: Attempt) -> None:
    """Store the finished late results that wait for the attempt, as the first changes of its run.

    A result is left out if it cannot be stored or the world cannot take it. The first attempt at a
    turn makes such a result void. A re-roll and a trial do not, because another attempt may be the
    chosen one, and its world can take the result.
    """
    mode = mode_of(attempt.session)
    if not mode.kinds_of_results or not (waiting := waiting_results(attempt)):
        return
    # The world is folded before the loop. If this fails, no single result is to blame, so no result
    # becomes void.
    world = mode.world.of(attempt)
    for result in waiting:
        try:
            with transaction.atomic():
                world = _take(attempt, result, world)
        except DatabaseError:
            raise
        except InvalidInput as error:
            _give_up(attempt, result, str(error))
        except Exception as error:  # noqa: BLE001  (or each further prompt would fail at this)
            name = type(error).__name__
            reason = f"The way to play cannot take it into its world ({name})."
            _give_up(attempt, result, reason)


def world_at_end(chapter: Session) -> Any:
    """Return the present world with the finished late results that wait for the next run.

    The next chapter gets this world, because no further run of this chapter takes these results. A
    result that the world cannot take is left out.
    """
    rules, next_run = mode_of(chapter).world, Attempt(session=chapter)
    world = rules.now(chapter)
    for result in waiting_results(next_run):
        change = Change(
            session=chapter,
            attempt=next_run,
            kind=result.kind,
            payload=dict(result.payload),
            result=result.result_id,
        )
        try:
            world = rules.apply_change(world, change)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001  (or the next chapter could never begin)
            name = type(error).__name__
            logger.warning("the late result %s is not handed on: %s", result.result_id, name)
    return world


def _take(attempt: Attempt, result: LateResult, world: Any) -> Any:
    """Store one result as a change of the attempt, and return the world after this change."""
    check_changes(attempt.session, [NewChange(result.kind, result.payload)])
    if not take_results(attempt, [result]):
        return world
    change = attempt.changes.get(run_id=attempt.run_id, result=result.result_id)
    return mode_of(attempt.session).world.apply_change(world, change)


def _give_up(attempt: Attempt, result: LateResult, reason: str) -> None:
    if attempt.kind == Attempt.Kind.PROMPT:
        finished = Job.objects.filter(pk=result.result_id, status=Job.Status.DONE)
        make_void(result.result_id, finished, reason)


def follow_up_latest_turn(chapter: Session) -> None:
    """Ask for late results that are missing after a choice, a failure or an import, and call the
    mode's `after_commit` again for the chosen attempt at the latest turn.

    An error of the mode is only logged, because it must not stop play: the latest turn is already
    committed.
    """
    mode = find_mode(chapter.mode)
    if mode is None:
        return
    if mode.play.job_kinds:
        ask_again_for_results(chapter.pk)
    follow_up = mode.play.after_commit
    latest = find_latest_turn(chapter) if follow_up else None
    if follow_up is None or latest is None:
        return
    try:
        with transaction.atomic():
            follow_up(latest.chosen)
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001  (or each further prompt and the end would fail)
        logger.error(
            "what follows attempt %s met an error of the program:\n%s",
            latest.chosen_id,
            traceback_of(error),
        )
