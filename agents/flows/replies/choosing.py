"""Chooses or edits an attempt at the latest turn, and adapts memory and jobs to the new choice."""

import uuid

from django.db import transaction

from agents.flows.remembering.summarizing import cancel_waiting_summary, end_summarizing
from agents.modes.registry import find_mode
from agents.running.results import settle_results
from memory.blocks.blocks import settle_pointer
from sessions.models import Attempt
from sessions.play import committing


@transaction.atomic
def choose_reply(session_id: uuid.UUID, number: int, attempt_id: uuid.UUID) -> Attempt:
    """Choose an attempt by `choose_attempt`, and adapt memory to this choice, without calling a
    model."""
    attempt = committing.choose_attempt(session_id, number, attempt_id)
    follow_choice(session_id)
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
    """Edit a reply by `sessions.play.committing.edit_reply`, and adapt memory to the edited reply.
    No model is called.

    The mode's function `after_commit` may refuse the edit, for example if a block of the mode would
    be too long.
    """
    attempt = committing.edit_reply(
        session_id, number, text, submission_key=submission_key, attempt_id=attempt_id
    )
    mode = find_mode(attempt.session.mode)
    if mode and mode.play.after_commit:
        mode.play.after_commit(attempt)
    follow_choice(session_id)
    return attempt


def follow_choice(session_id: uuid.UUID) -> None:
    """Set the summary pointer to the last prompt that the memory of the chosen attempts covers, and
    cancel the waiting jobs of other attempts.

    Missing memory and late results are asked for when the next prompt is stored or the chapter
    ends.
    """
    settle_pointer(session_id)
    cancel_waiting_summary(session_id)
    settle_results(session_id)
    end_summarizing(session_id)
