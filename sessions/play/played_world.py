"""The world of a chapter: the initial state, into which the changes that count are folded.

A change is stored when its step ends. It counts while its run is committed and its attempt is
chosen. The change of an act counts at once. No change is ever undone, because each attempt has
changes of its own.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import F, Q, QuerySet

from sessions.chapter.access import lock_chapter, tell_readers_apart
from sessions.chapter.cast import clean_person
from sessions.exceptions import InvalidInput
from sessions.limits import CHANGE_CHAR_LIMIT, MAX_CHANGES_OF_AN_ATTEMPT, MAX_PEOPLE_IN_PLAY
from sessions.models import FIRST_NUMBER_IN_PLAY, PERSON, Attempt, Change, Session, Turn
from sessions.payloads import check_stored_size
from sessions.play.breaking import run_of
from sessions.roster import PUBLIC_TEXTS, Character, character

World = TypeVar("World")

_TOLD_OF_A_PERSON = tuple(one.name for one in PUBLIC_TEXTS)


@dataclass(frozen=True)
class NewChange:
    """A change that is not stored yet. `payload` is a JSON object.

    `cause` is the name of the tool, the rule or the act that makes the change. `step` is the number
    of the model call within the reply, and `after_chars` is the number of characters that the
    reply's text had at the end of this step. `result` is the id of the job whose late result the
    change takes.
    """

    kind: str
    payload: Mapping[str, Any]
    cause: str = ""
    step: int = 0
    result: uuid.UUID | None = None
    after_chars: int = 0


@dataclass(frozen=True)
class LateResult:
    """The late result of a job. A run that takes the result stores it as a change of the kind
    `kind`."""

    result_id: uuid.UUID
    kind: str
    payload: Mapping[str, Any]


def changes_that_count(
    chapter: Session, *, before: int | None = None, attempt: Attempt | None = None
) -> "QuerySet[Change]":
    """Return the changes that count, in the order of turns. The changes of an attempt come before
    the changes of the acts after the attempt.

    `before` is the number of a turn. With `before`, the result has only the changes of earlier
    turns. With `attempt`, the result has the changes of the turns before this attempt, then the
    changes of the attempt's present run, and then the changes of the acts after the attempt. The
    present run need not be committed.
    """
    if attempt is not None and attempt.turn is not None:
        before = attempt.turn.number
    counts = Q(attempt__chosen_for__isnull=False)
    counts &= Q(run_id=None) | Q(run_id=F("attempt__run_id"))
    if before is not None:
        counts &= Q(attempt__turn__number__lt=before)
    if attempt is not None:
        counts |= Q(attempt=attempt) & (Q(run_id=None) | Q(run_id=attempt.run_id))
    # A prompt has no turn until it is committed. Its changes come last.
    number = F("attempt__turn__number").asc(nulls_last=True)
    return chapter.changes.filter(counts).order_by(
        number, F("run_id").asc(nulls_last=True), "position"
    )


def fold_world(
    initial: World, changes: Iterable[Change], apply: Callable[[World, Change], World]
) -> World:
    """Fold the changes into the initial state, and return the resulting world.

    `apply` takes a world and one change, and returns the world after the change. It must not modify
    the world that it is given.
    """
    return reduce(apply, changes, initial)


def everybody_at(
    chapter: Session, *, before: int | None = None, attempt: Attempt | None = None
) -> tuple[Character, ...]:
    """Return the members of the cast of Tab 1, and then the people who have appeared in play.

    Each of these people appeared through a change. `before` and `attempt` say which changes count,
    as in `changes_that_count`.
    """
    # A person who appears in play missed the earlier events, so `differs_by_reader` is True from
    # then on. If it is False, nobody has appeared.
    if not chapter.differs_by_reader:
        return chapter.everybody
    appeared = changes_that_count(chapter, before=before, attempt=attempt).filter(kind=PERSON)
    people = (character(**payload) for payload in appeared.values_list("payload", flat=True))
    return (*chapter.everybody, *people)


def take_part_once(chapter: Session, numbers: Sequence[int], *, before: int | None = None) -> bool:
    """Return whether the numbers are all different and each belongs to a member who takes part.

    With `before`, which is the number of a turn, the members must have taken part before this turn.
    """
    everybody = {one.number for one in everybody_at(chapter, before=before)}
    return len(set(numbers)) == len(numbers) and set(numbers) <= everybody


def is_closed(chapter: Session, number: int) -> bool:
    """Return whether an act has closed the turn, so that no attempt at it can be made or chosen."""
    return chapter.changes.filter(attempt__chosen_for__number=number, run_id=None).exists()


@transaction.atomic
def store_changes(attempt: Attempt, changes: Sequence[NewChange]) -> bool:
    """Store the changes of one step of the attempt's present run.

    Returns False and stores nothing if this run may no longer write to the attempt. Raises
    InvalidInput for a change that cannot be stored.
    """
    if not (lock_chapter(attempt.session_id) and run_of(attempt).exists()):
        return False
    add_changes(attempt, changes, run_id=attempt.run_id)
    return True


def take_results(attempt: Attempt, waiting: Iterable[LateResult]) -> bool:
    """Store late results as changes of the attempt's present run, before its first step.

    Returns False and stores nothing if this run may no longer write to the attempt. Raises
    InvalidInput for a result that cannot be stored.
    """
    taken = [
        NewChange(one.kind, one.payload, cause="result", result=one.result_id) for one in waiting
    ]
    return store_changes(attempt, taken)


def turns_before(attempt: Attempt) -> "QuerySet[Turn]":
    """Return the turns before the attempt's turn. If the attempt has no turn yet, return all
    turns."""
    turns = attempt.session.turns.all()
    return turns.filter(number__lt=attempt.turn.number) if attempt.turn else turns


def taken_before(attempt: Attempt) -> "QuerySet[Change]":
    """Return the changes that count before the attempt's turn, but only those that take a late
    result."""
    before = attempt.turn.number if attempt.turn else None
    return changes_that_count(attempt.session, before=before).filter(result__isnull=False)


def copy_changes(source: Attempt, run_id: uuid.UUID, copy: Attempt) -> None:
    """Copy the changes of this run of `source` to the run of `copy`. If a change takes a late
    result, its copy takes the same result."""
    fields = ("position", "kind", "payload", "cause", "step", "result", "after_chars")
    changes = source.changes.filter(run_id=run_id).order_by("position").values(*fields)
    to = {"session_id": copy.session_id, "attempt": copy, "run_id": copy.run_id}
    Change.objects.bulk_create([Change(**to, **one) for one in changes])


def text_and_changes(attempt: Attempt, text: str) -> list[str | Change]:
    """Return the text of the attempt's present run in pieces, with the changes of this run between
    them, in order.

    `text` is the text that a mode's `outcome` gets. A change comes after the text of the step that
    made it. The pieces have no blank lines or spaces at their ends, and no piece is empty.
    """
    pieces: list[str | Change] = []
    begin = 0
    for change in attempt.changes.filter(run_id=attempt.run_id).order_by("position"):
        # The text may be shorter than it was at the end of the step, because the last sentence of a
        # small model's cut reply is left out.
        end = max(begin, min(change.after_chars, len(text)))
        pieces += [text[begin:end].strip(), change]
        begin = end
    pieces.append(text[begin:].strip())
    return [piece for piece in pieces if piece]


def room_for_changes(attempt: Attempt) -> int:
    """Return how many more changes this attempt may have: changes of its present run, and of the
    acts after it."""
    of_run_or_act = Q(run_id=None) | Q(run_id=attempt.run_id)
    return MAX_CHANGES_OF_AN_ATTEMPT - attempt.changes.filter(of_run_or_act).count()


def add_changes(
    attempt: Attempt, changes: Sequence[NewChange], *, run_id: uuid.UUID | None
) -> list[Change]:
    """Store changes of the run `run_id`, or of an act if `run_id` is None. The new changes come
    after the stored changes of the same run or of earlier acts.

    The chapter's row has to be locked. Raises InvalidInput.
    """
    if len(changes) > room_for_changes(attempt):
        raise InvalidInput(
            f"One turn can change {MAX_CHANGES_OF_AN_ATTEMPT:,} things in the world, its acts "
            "included. Nothing was changed; go on with the story first."
        )
    first = Change.objects.filter(attempt=attempt, run_id=run_id).count()
    rows: list[Change] = []
    for position, one in enumerate(changes, start=first):
        check_change(one.kind, one.payload)
        payload = dict(one.payload)
        if one.kind == PERSON:
            payload = _person(attempt, payload, rows)
        row = Change(
            session_id=attempt.session_id,
            attempt=attempt,
            run_id=run_id,
            position=position,
            kind=one.kind,
            payload=payload,
            cause=one.cause,
            step=one.step,
            result=one.result,
            after_chars=one.after_chars,
        )
        rows.append(row)
    return Change.objects.bulk_create(rows)


def check_change(kind: str, payload: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a change that no chapter can store."""
    check_stored_size(payload, most=CHANGE_CHAR_LIMIT, label="A change to the world")
    if kind == PERSON:
        _clean_person((), payload)


def _clean_person(everybody: Iterable[Character], told: Mapping[str, Any]) -> dict[str, str]:
    is_text = all(isinstance(one, str) for one in told.values())
    if not (is_text and told.keys() <= set(_TOLD_OF_A_PERSON)):
        raise InvalidInput(
            f"A person who appears has {' and '.join(_TOLD_OF_A_PERSON)}, which are texts; the "
            "program gives the number. Nobody was added."
        )
    return clean_person(everybody, **{"name": "", **told})


def _person(attempt: Attempt, told: dict[str, Any], new: Sequence[Change]) -> dict[str, Any]:
    """Return the payload of a person who appears, with a new number.

    The number is not used in any run that is committed or may still be committed. So two people of
    different attempts are never mistaken for each other.
    """
    chapter = attempt.session
    before = [one.payload for one in new if one.kind == PERSON]
    everybody = (*everybody_at(chapter, attempt=attempt), *(character(**one) for one in before))
    person = _clean_person(everybody, told)
    known = {one["number"] for one in (*chapter.people_in_play(), *before)}
    number = next(one for one in count(FIRST_NUMBER_IN_PLAY) if one not in known)
    if number >= FIRST_NUMBER_IN_PLAY + MAX_PEOPLE_IN_PLAY:
        raise InvalidInput(
            f"At most {MAX_PEOPLE_IN_PLAY} people can appear in a chapter. Nobody was added."
        )
    # The new person missed the earlier events, so not everybody knows the same from now on.
    tell_readers_apart(chapter, ())
    return {"number": number, **person}
