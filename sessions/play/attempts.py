"""Stores each attempt before a model is called for it. A chapter has at most one attempt in flight
at a time."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from django.db import transaction
from django.utils import timezone

from sessions.chapter.access import get_chapter_to_change
from sessions.exceptions import ChapterError, InvalidInput, KeyReused, TurnInFlight, WrongState
from sessions.language.text import clean_line, clean_text, is_blank
from sessions.leases import LEASE, from_now, ran_out
from sessions.limits import PROMPT_CHAR_LIMIT, SUBMISSION_KEY_CHAR_LIMIT
from sessions.log_lines import note_attempt
from sessions.models import DEFAULT_AGENT, PLAYABLE, Attempt, Session
from sessions.play.breaking import recover_dead_attempts, set_broken_aside
from sessions.play.latest_turn import (
    check_changeable,
    check_open,
    check_room_for_attempt,
    latest_turn,
)
from sessions.play.played_world import copy_changes, take_part_once

logger = logging.getLogger(__name__)

KEY_REUSED = (
    "Something else was sent already under this id. Nothing was changed; send yours again under an "
    "id of its own."
)


class Writer(NamedTuple):
    """The writer of an attempt: the agent, and the member of the cast who acts, if any.

    `needs_words` is False for a writer who can also answer an empty prompt.
    """

    actor: int | None
    agent: str = DEFAULT_AGENT
    needs_words: bool = True


# A function that returns the writer who answers a prompt. Its arguments are the chapter, and the
# number of the addressed member of the cast. The number is None if nobody is addressed.
Answers = Callable[[Session, int | None], Writer]


class Everybody(Enum):
    """As the witnesses of another attempt: all who take part, even if the attempt before has fewer
    witnesses."""

    EVERYBODY = "everybody"


EVERYBODY = Everybody.EVERYBODY


def _addressed(chapter: Session, actor: int | None) -> Writer:
    return Writer(actor)


@dataclass(frozen=True)
class OpenedAttempt:
    """A stored attempt, and whether it must run. A committed attempt need not run."""

    attempt: Attempt
    must_run: bool


@transaction.atomic
def open_prompt(
    session_id: uuid.UUID,
    *,
    actor: int | None,
    words: str,
    submission_key: str,
    witnesses: Sequence[int] | None = None,
    given: dict[str, Any] | None = None,
    came_with_starter: bool = False,
    answers: Answers = _addressed,
) -> OpenedAttempt:
    """Store the user's prompt as the attempt in flight. The function `answers` chooses the writer.

    If the same prompt comes again under the same key, no second attempt is stored, even if the
    prompt would be refused by now. If the first attempt is committed, it is returned. If it is
    broken, it runs again with its stored `given`.

    Raises TurnInFlight if the first attempt is running, and WrongState if it was set aside. Raises
    KeyReused if the key came with other words, another actor or another `given`. An actor or a
    `given` that is None does not count as another one. Raises another ChapterError if the prompt is
    refused.
    """
    words = _clean_words(words)
    chapter = get_chapter_to_change(session_id)
    key = clean_key(submission_key)
    if earlier := _find_earlier(chapter, key, Attempt.Kind.PROMPT):
        said: dict[str, object] = {"words": words}
        said["witnesses"] = _with_actor(witnesses, earlier.actor)
        said["actor"] = _actor_again(earlier, chapter, actor, answers)
        said["given"] = earlier.given if given is None else given
        return _open_again(chapter, earlier, said)
    writer = answers(chapter, actor)
    check_cast(chapter, writer.actor, witnesses)
    prompt = Attempt(
        session=chapter,
        submission_key=key,
        actor=writer.actor,
        agent=writer.agent,
        words=_words_for(writer, words),
        witnesses=_with_actor(witnesses, writer.actor),
        given=given,
        came_with_starter=came_with_starter,
    )
    return _open_new(chapter, prompt)


@transaction.atomic
def open_reroll(
    session_id: uuid.UUID,
    *,
    submission_key: str,
    number: int | None = None,
    actor: int | None = None,
    words: str | None = None,
    witnesses: Sequence[int] | Everybody | None = None,
    given: dict[str, Any] | None = None,
    answers: Answers = _addressed,
) -> OpenedAttempt:
    """Store another attempt at the latest turn as the attempt in flight.

    A value that is None is taken from the chosen attempt; EVERYBODY means that all are witnesses,
    whoever the witnesses of the chosen attempt were. If the words differ from the words of the
    chosen attempt, `given` is not taken from it. Raises the errors of `open_prompt`, and WrongState
    if the latest turn has another number than `number`, or once the turn has as many attempts as it
    may have.
    """
    words = None if words is None else _clean_words(words)
    chapter = get_chapter_to_change(session_id)
    key = clean_key(submission_key)
    if earlier := _find_earlier(chapter, key, Attempt.Kind.REROLL):
        sent = {"words": words, "given": given}
        said: dict[str, object] = {name: one for name, one in sent.items() if one is not None}
        if witnesses is not None:
            said["witnesses"] = _witnesses_again(earlier, witnesses, earlier.actor)
        said["actor"] = _actor_again(earlier, chapter, actor, answers)
        return _open_again(chapter, earlier, said)
    turn = latest_turn(chapter)
    if number not in (None, turn.number):
        raise WrongState(
            f"Play has gone on, so prompt {number} can no longer be written again. Nothing was "
            "changed, and your words are kept in the box."
        )
    like = turn.chosen
    writer = Writer(like.actor, like.agent, needs_words=bool(like.words))
    if actor is not None:
        writer = answers(chapter, actor)
    elif words == "" and like.words:
        # The writer of the chosen attempt may also be one who needs no words.
        writer = writer._replace(needs_words=answers(chapter, like.actor).needs_words)
    named = None if witnesses is EVERYBODY else witnesses
    check_cast(chapter, writer.actor, named, before=turn.number)
    reroll = Attempt(
        session=chapter,
        turn=turn,
        kind=Attempt.Kind.REROLL,
        submission_key=key,
        actor=writer.actor,
        agent=writer.agent,
        words=_words_for(writer, like.words if words is None else words),
        witnesses=_witnesses_again(like, witnesses, writer.actor),
        given=like.given if given is None and words in (None, like.words) else given,
    )
    return _open_new(chapter, reroll)


@transaction.atomic
def open_trial(
    session_id: uuid.UUID, *, source: Attempt, changed_layer: dict[str, object], submission_key: str
) -> OpenedAttempt:
    """Store a trial: an attempt at the latest turn that runs beside play and is committed unchosen.

    `source` is a committed attempt at the latest turn. `changed_layer` says which layer of the
    request of `source` is changed, and how. If the same trial comes again under the same key and is
    broken, it runs again. Raises KeyReused if the key came with another change. Raises WrongState
    if no attempt at the turn could be chosen.
    """
    chapter = get_chapter_to_change(session_id)
    turn = latest_turn(chapter)
    check_changeable(chapter, turn.number, in_flight=True)
    if source.turn_id != turn.pk:
        raise WrongState("Play has gone on, so only a later reply can be tried again.")
    key = clean_key(submission_key)
    if earlier := _find_earlier(chapter, key, Attempt.Kind.TRIAL):
        return _open_again(chapter, earlier, {"changed_layer": changed_layer})
    trial = Attempt(
        session=chapter,
        turn=turn,
        source=source,
        kind=Attempt.Kind.TRIAL,
        submission_key=key,
        actor=source.actor,
        agent=source.agent,
        words=source.words,
        witnesses=source.witnesses,
        given=source.given,
        changed_layer=changed_layer,
    )
    return _open_new(chapter, trial)


def start_keeping(attempt: Attempt) -> Attempt:
    """Put a broken attempt with text back in flight, so that its text can be committed.

    The attempt gets a new run, so a process that still writes to it finds that the old run has
    ended. The changes of the run that wrote the text are copied to the new run, and so are the
    fields of the mode's setup as they were when that run began. Raises WrongState if the attempt
    has no text.
    """
    if is_blank(attempt.partial_text):
        raise WrongState("There is no text to keep. Retry the prompt, or send another.")
    chapter = get_chapter_to_change(attempt.session_id)
    brought = attempt.text_run_id
    kept = _start_run(chapter, attempt)
    if brought is not None:
        copy_changes(kept, brought, kept)
        kept.text_run_id = kept.run_id
        kept.kept_setup = {str(kept.run_id): kept.kept_setup_of(brought)}
        kept.save(update_fields=["text_run_id", "kept_setup"])
    return kept


def clean_key(submission_key: str) -> str:
    """Return the key without surrounding space, or a new key if the client sent none."""
    key = clean_line(submission_key, limit=SUBMISSION_KEY_CHAR_LIMIT, label="The submission's id")
    return key or str(uuid.uuid4())


def _open_new(chapter: Session, new: Attempt) -> OpenedAttempt:
    """Store the new attempt and start its run."""
    if new.turn is not None:
        check_open(new.turn)
        check_room_for_attempt(new.turn)
    return OpenedAttempt(_start_run(chapter, new), must_run=True)


def _open_again(chapter: Session, earlier: Attempt, said: Mapping[str, object]) -> OpenedAttempt:
    """Return the stored attempt `earlier`. If it is broken, run it again.

    `said` has what the client has sent now, by the names of the attempt's fields. Raises KeyReused
    if a value differs from the field of `earlier`.
    """
    if any(getattr(earlier, name) != one for name, one in said.items()):
        raise KeyReused(KEY_REUSED)
    if earlier.is_running:
        raise TurnInFlight("This prompt was sent already; its reply is being written.")
    if earlier.status == Attempt.Status.SET_ASIDE:
        raise WrongState(
            "This prompt was set aside, because play went on without it. Its words are kept; "
            "send them again as a new prompt."
        )
    if earlier.status == Attempt.Status.COMMITTED:
        return OpenedAttempt(earlier, must_run=False)
    return OpenedAttempt(_start_run(chapter, earlier), must_run=True)


def _find_earlier(chapter: Session, key: str, kind: str) -> Attempt | None:
    """Return the attempt of this kind that is already stored under this key, or None."""
    # A trial runs beside play, so `turn_in_flight` does not show whether one is running.
    if chapter.turn_in_flight is not None or kind == Attempt.Kind.TRIAL:
        free_from_dead_attempt(chapter)
    earlier = chapter.attempts.filter(submission_key=key).first()
    if earlier is not None and earlier.kind != kind:
        raise InvalidInput("This submission's id belongs to something else. Nothing was changed.")
    return earlier


def _actor_again(
    earlier: Attempt, chapter: Session, actor: int | None, answers: Answers
) -> int | None:
    """Return the member of the cast who acts if a client addresses `actor` again.

    The result is the actor of the stored attempt if the client addresses this actor or nobody. The
    mode is not asked then, because it may give another answer now that the world has changed. If
    the client addresses somebody else, the mode decides.
    """
    return earlier.actor if actor in (None, earlier.actor) else answers(chapter, actor).actor


def free_from_dead_attempt(chapter: Session) -> None:
    """Mark the chapter's attempts whose process died as failed, so that another attempt can be
    stored."""
    running = chapter.attempts.filter(status=Attempt.Status.RUNNING)
    if running.filter(ran_out()).order_by().exists():
        recover_dead_attempts(chapter.pk)
        chapter.refresh_from_db(fields=["turn_in_flight"])


def _start_run(chapter: Session, attempt: Attempt) -> Attempt:
    unchanged = Attempt.objects.filter(
        pk=attempt.pk, run_id=attempt.run_id, status__in=Attempt.BROKEN
    )
    if not (attempt._state.adding or unchanged.exists()):
        raise WrongState("This prompt was taken up in another window meanwhile.")
    if not attempt.is_trial:
        _claim(chapter, attempt)
        set_broken_aside(chapter)
    # The attempt shows the text of the earlier run until this run has text of its own.
    attempt.status, attempt.error, attempt.server_said = Attempt.Status.RUNNING, "", ""
    attempt.run_id = uuid.uuid4()
    attempt.submitted_at, attempt.lease_until = timezone.now(), from_now(LEASE)
    attempt.save()
    # The database has computed the lease with its own clock. This value is close to the stored
    # value, and no query is needed for it.
    attempt.lease_until = attempt.submitted_at + LEASE
    note_attempt(logger, attempt, "stored")
    return attempt


def _claim(chapter: Session, attempt: Attempt) -> None:
    """Make the attempt the chapter's attempt in flight.

    Raises TurnInFlight if another attempt is in flight, and WrongState if the chapter is not in
    play.
    """
    free = Session.objects.filter(
        pk=chapter.pk, state__in=PLAYABLE, is_ending=False, turn_in_flight=None
    )
    if attempt.turn is not None:
        free = free.filter(prompt_index=attempt.turn.number)
    claim: dict[str, Any] = {"turn_in_flight": attempt.pk}
    if attempt.kind == Attempt.Kind.PROMPT and attempt.actor is not None:
        claim["next_agent_slot"] = attempt.actor
    if not free.update(**claim):
        chapter.refresh_from_db()
        raise _refusal(chapter)
    for name, value in claim.items():
        setattr(chapter, name, value)


def _refusal(chapter: Session) -> ChapterError:
    kept = "Your words are kept in the box."
    if chapter.turn_in_flight is not None:
        return TurnInFlight(f"A reply is being written. {kept} Wait for it, or stop it first.")
    if chapter.is_ending:
        return WrongState(f"The chapter is ending. {kept}")
    if not chapter.is_playable:
        return WrongState(f"This chapter is not in play ({chapter.get_state_display()}). {kept}")
    return WrongState("This reply can no longer be written again: play has gone on.")


def _clean_words(words: str) -> str:
    """Return the words in the form that is stored, which is "" for blank words.

    Raises InvalidInput and TooLong.
    """
    words = clean_text(words, limit=PROMPT_CHAR_LIMIT, label="The prompt")
    return words if words.strip() else ""


def _words_for(writer: Writer, words: str) -> str:
    """Return the words. Raises InvalidInput if they are empty although the writer needs words."""
    if writer.needs_words and not words:
        raise InvalidInput("The prompt is empty. Write what happens, then send it.")
    return words


def check_cast(
    chapter: Session,
    actor: int | None,
    witnesses: Sequence[int] | None,
    *,
    before: int | None = None,
) -> None:
    """Raise InvalidInput unless the actor is a character of the chapter, and each witness takes
    part and is named once.

    With `before`, a witness must have taken part before that turn.
    """
    if actor is not None and actor not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {actor} in this chapter. Nothing was sent.")
    if witnesses is not None and not take_part_once(chapter, witnesses, before=before):
        raise InvalidInput(
            "The witnesses must be agents of this chapter, each once. Nothing was sent."
        )


def _witnesses_again(
    like: Attempt, witnesses: Sequence[int] | Everybody | None, actor: int | None
) -> list[int] | None:
    """Return the witnesses of another attempt. If `witnesses` is None, they are the witnesses of
    `like`."""
    if witnesses is EVERYBODY:
        return None
    return _with_actor(like.witnesses if witnesses is None else witnesses, actor)


def _with_actor(witnesses: Sequence[int] | None, actor: int | None) -> list[int] | None:
    if witnesses is None:
        return None
    return sorted({*witnesses, *([] if actor is None else [actor])})
