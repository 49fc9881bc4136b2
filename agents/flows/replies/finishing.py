"""Commits replies, and ends the attempts of replies that failed. The transaction of a commit asks
for all work that follows a reply: late results, memory, and a turn without a prompt."""

import asyncio
import logging
import uuid

from django.db import Error as DatabaseError
from django.db import transaction

from agents.flows.remembering.summarizing import queue_due_summary
from agents.flows.replies.choosing import follow_choice
from agents.flows.replies.composing import read_ahead
from agents.flows.replies.further_calls import DECLINED
from agents.llm.providers.failures.call_errors import ModelDeclined, ProviderError
from agents.models import Job
from agents.modes.registry import check_changes, mode_of, outcome_of, who_answers
from agents.running.database import in_database, in_database_patiently
from agents.running.jobs import queue_job
from agents.running.live import LiveReply
from agents.running.unforeseen import ProgramFailed, traceback_of
from agents.running.worker_places import AT_WORK
from sessions.exceptions import ChapterError
from sessions.models import Attempt, Event
from sessions.play.attempts import Writer, open_prompt
from sessions.play.breaking import (
    INTERRUPTED,
    KEPT,
    extend_broken_text,
    fail_attempt,
    fail_without_text,
)
from sessions.play.committing import commit_attempt
from sessions.play.played_world import store_changes
from sessions.storage import describe

logger = logging.getLogger(__name__)

# The seconds between a reply and the summary that the reply made due. If a prompt follows at once,
# it is answered before the summary is written.
SUMMARY_PAUSE_SECONDS = 1.0

_ACTS_AFTER = "after "


class EndedElsewhere(Exception):
    """The run may no longer write to its attempt, because another process has ended the attempt."""


@transaction.atomic
def commit_reply(attempt: Attempt, text: str, *, is_kept: bool = False) -> list[Event] | None:
    """Commit the attempt, and ask for all work that follows it.

    If the user kept the text, nobody acts next without a prompt. Returns None if the run may no
    longer write. In this case the attempt keeps the text.
    """
    play = mode_of(attempt.session).play
    if changes := play.concludes(attempt, text):
        store_changes(attempt, check_changes(attempt.session, changes))
    events = commit_attempt(attempt, outcome_of(attempt, text))
    if events is None:
        leave_ended(attempt, text)
        return None
    if attempt.is_trial:
        return events
    if play.after_commit:
        play.after_commit(attempt)
    if attempt.kind == Attempt.Kind.PROMPT:
        queue_due_summary(attempt.session, notice_after=SUMMARY_PAUSE_SECONDS)
    else:
        follow_choice(attempt.session_id)
    if not is_kept and who_acts_after(attempt):
        queue_job(attempt.session_id, Job.Kind.GO_ON, str(attempt.pk), attempt=attempt)
    elif not AT_WORK:
        # A worker does not read ahead, because the user's next prompt comes to another process,
        # which has its own caches.
        transaction.on_commit(lambda: read_ahead(attempt.session), robust=True)
    return events


def commit_written(session_id: uuid.UUID, text: str, *, words: str, actor: int | None) -> None:
    """Store a turn that people wrote for a starter or a scenario, in the same way as a played
    turn."""
    opened = open_prompt(
        session_id,
        actor=actor,
        words=words,
        submission_key="",
        came_with_starter=True,
        answers=who_answers,
    )
    commit_reply(opened.attempt, text)


def leave_ended(attempt: Attempt, text: str) -> None:
    """Keep the text of an attempt that another process has ended, or whose chapter was deleted. If
    the chapter is brought back, the user can keep the text or retry."""
    logger.info("attempt %s ended elsewhere; its reply is not committed", attempt.pk)
    _settle(attempt, text)


async def end_by(error: BaseException, attempt: Attempt, live: LiveReply) -> None:
    """End the attempt with the error that ended its run, and keep the text so far. If the database
    cannot be reached, the attempt ends when its lease runs out."""
    kind, said = type(error).__name__, {"error": str(error), "partial_text": live.text}
    try:
        match error:
            case asyncio.CancelledError():
                await in_database(_settle, attempt, live.text)
            case DatabaseError():
                logger.error("attempt %s: the database failed: %s", attempt.pk, describe(error))
            case EndedElsewhere():
                await in_database_patiently(leave_ended, attempt, live.text)
            case ModelDeclined():
                live.replace("", f"{DECLINED}.")
                await in_database_patiently(fail_without_text, attempt, error=str(error), kind=kind)
            case ProviderError() | ChapterError():
                live.refusal = error if isinstance(error, ChapterError) else None
                heard = error.said if isinstance(error, ProviderError) else ""
                await in_database_patiently(
                    fail_attempt, attempt, **said, server_said=heard, kind=kind
                )
            case Exception():
                _log_unforeseen(error, attempt)
                failed = ProgramFailed(error, KEPT)
                said["error"], kind = str(failed), type(failed).__name__
                await in_database_patiently(fail_attempt, attempt, **said, kind=kind)
    except DatabaseError as again:
        # The attempt ends when its lease runs out. The stored text is kept.
        logger.error("attempt %s could not be ended: %s", attempt.pk, type(again).__name__)
    except Exception as again:  # noqa: BLE001  (nobody asks for the result of this task)
        _log_unforeseen(again, attempt)


def _log_unforeseen(error: Exception, attempt: Attempt) -> None:
    place = traceback_of(error)
    logger.error("attempt %s met an error of the program:\n%s", attempt.pk, place)


def _settle(attempt: Attempt, text: str) -> None:
    """End the attempt, or add the text so far to an attempt that a stop has ended."""
    if not fail_attempt(attempt, error=INTERRUPTED, partial_text=text):
        extend_broken_text(attempt, text)


def key_after(attempt_id: uuid.UUID) -> str:
    """Return the submission key of the attempt that is made after this one without a prompt."""
    return f"{_ACTS_AFTER}{attempt_id}"


def who_acts_after(attempt: Attempt) -> Writer | None:
    """Return the writer who acts after this attempt without a prompt, or None if nobody does.

    Nobody acts if the attempt is not chosen at the latest turn, or if the mode allows no more turns
    without a prompt in a row.
    """
    chapter = attempt.session
    play = mode_of(chapter).play
    if not play.most_turns_alone:
        return None
    turns = chapter.turns.select_related("chosen").order_by("-number")
    latest = [turn.chosen for turn in turns[: play.most_turns_alone]]
    if not latest or latest[0] != attempt:
        return None
    are_alone = (not one.words and one.submission_key.startswith(_ACTS_AFTER) for one in latest)
    if len(latest) == play.most_turns_alone and all(are_alone):
        return None
    try:
        return play.acts_next(chapter)
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001  (or the reply before would be lost)
        logger.error(
            "who acts after attempt %s met an error of the program:\n%s",
            attempt.pk,
            traceback_of(error),
        )
        return None
