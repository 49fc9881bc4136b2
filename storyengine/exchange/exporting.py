"""Exports a chapter as a file, as the chapter is at one moment.

The API has documents of its own for the same rows. They may change with the program, but a file
must keep the form of its version.
"""

import uuid
from collections import defaultdict
from copy import copy
from typing import Any

from django.db.models import Case, F, Model, Q, When
from django.utils import timezone
from pydantic import BaseModel

from agents.models import Job
from agents.modes.registry import find_mode, mode_of
from memory.blocks.blocks import covered_until
from memory.models import MemoryBlock
from sessions.chapter.access import read_at_one_moment
from sessions.exceptions import UnknownChapter, WrongState
from sessions.models import Attempt, Session, State, Turn
from sessions.play.committing import find_turn
from sessions.record.chosen_events import committed_attempts
from sessions.roster import next_slot
from storyengine.exchange.chapter_file import (
    FORMAT,
    VERSION,
    AttemptEntry,
    CastEntry,
    ChangeEntry,
    Chapter,
    ChapterFile,
    EventEntry,
    MemoryBlockEntry,
    ResultEntry,
    TurnEntry,
    UnansweredEntry,
)
from storyengine.exchange.drafts_in_files import no_drafts, read_drafts
from storyengine.exchange.file_parts import ERROR_CHAR_LIMIT, Tab1

# The states of exported chapters. A file has no background work, so a chapter with background work
# gets the state that it had before this work.
_SETTLED = {
    State.DRAFT_TAB1: State.DRAFT_TAB1,
    State.LOCKING: State.DRAFT_TAB1,
    State.ACTIVE: State.ACTIVE,
    State.SUMMARIZING: State.ACTIVE,
    State.ENDED: State.ENDED,
    State.NARRATING: State.ENDED,
}
_UNANSWERED = (
    Attempt.Status.RUNNING,
    Attempt.Status.FAILED,
    Attempt.Status.STOPPED,
    Attempt.Status.SET_ASIDE,
)


def export_chapter(session_id: uuid.UUID) -> ChapterFile:
    """Return the chapter as a file. Raises UnknownChapter.

    The limits of files are not checked. A user who cannot import the file has at least the file.
    """
    content = read_at_one_moment(session_id, _read)
    return ChapterFile.model_construct(
        format=FORMAT, version=VERSION, exported_at=timezone.now(), chapter=content
    )


def export_until(session_id: uuid.UUID, number: int) -> Chapter:
    """Return the chapter in play, as if turn `number` were its last turn.

    Raises UnknownChapter, and the errors of `find_turn_to_fork`.
    """
    return read_at_one_moment(session_id, lambda chapter: _read_until(chapter, number))


def _read_until(chapter: Session, number: int) -> Chapter:
    """Read the rows that a fork takes over from its origin. Only this function decides which rows
    these are.

    A fork gets the turns up to turn `number` with all their committed attempts, and the memory
    blocks and rulings up to that turn. It gets no draft and no attempt that was not committed.
    """
    # The slots are read before the turn. So if the chapter is deleted meanwhile, the error is
    # UnknownTurn.
    slots = chapter.selected_agent_slots
    latest = find_turn_to_fork(chapter, number).chosen
    # The fork's values are set on a copy. `chapter` must not change, because `read_at_one_moment`
    # compares it with a second reading of the chapter's row.
    cut = copy(chapter)
    cut.state = State.ACTIVE
    cut.prompt_index = number
    cut.last_summarized_prompt_index = covered_until(chapter, up_to=number)
    if latest.actor is not None:
        cut.next_agent_slot = next_slot(latest.actor, slots)
    return _read(cut, is_whole=False)


def find_turn_to_fork(chapter: Session, number: int) -> Turn:
    """Return turn `number`, which becomes the last turn of the fork.

    Raises UnknownTurn. Raises WrongState if play has not begun or the chapter's mode is not
    installed.
    """
    # This raises WrongState if the mode is not installed. A fork cannot be stored without its mode.
    mode_of(chapter)
    if _settled_state(chapter) == State.DRAFT_TAB1:
        raise WrongState("This chapter has not begun, so there is no prompt to fork it at.")
    return find_turn(chapter, number)


def _settled_state(chapter: Session) -> State:
    state = _SETTLED.get(State(chapter.state))
    if state is None:
        raise UnknownChapter("This chapter is being reset.")
    return state


def _read(chapter: Session, *, is_whole: bool = True) -> Chapter:
    """Read the rows of the chapter up to the latest turn that `chapter` has. Turns that were added
    later are left out.

    If `is_whole` is False, drafts and attempts that were not committed are left out too.
    """
    state = _settled_state(chapter)
    slots = chapter.selected_agent_slots
    turns = list(chapter.turns.filter(number__lte=chapter.prompt_index).order_by("number"))
    attempts = _attempts(chapter)
    places = {
        attempt.pk: place for at_turn in attempts.values() for place, attempt in enumerate(at_turn)
    }
    blocks = _blocks(chapter, set(places)) if state != State.DRAFT_TAB1 else []
    results = _results(chapter, set(places))
    changes = _changes(chapter, results)
    fields = _copy(
        chapter,
        Chapter,
        state=state.value,
        # In a file, the slot of the panel to show must be selected. If the chapter's slot was
        # deselected on Tab 1, the file gets slot 1.
        next_agent_slot=chapter.next_agent_slot if chapter.next_agent_slot in slots else 1,
        tab1=Tab1.model_construct(**_copy(chapter.tab1, Tab1)),
        cast=[CastEntry.model_construct(**_copy(one, CastEntry)) for one in chapter.cast],
        mode_content=_mode_content(chapter),
        seed=chapter.seed.hex,
        turns=_turns(chapter, turns, attempts, places, changes),
        results=[_result(one, places) for one in results],
        memory_blocks=[
            MemoryBlockEntry.model_construct(
                **_copy(block, MemoryBlockEntry, attempt=_place_of(block.attempt_id, places))
            )
            for block in blocks
        ],
        **(read_drafts(chapter, blocks, places) if is_whole else no_drafts()),
        unanswered_attempts=_unanswered(chapter, turns, places, changes) if is_whole else [],
    )
    return Chapter.model_construct(**fields)


def _mode_content(chapter: Session) -> dict[str, dict[str, Any]]:
    tab1 = chapter.tab1
    content = {"setup": tab1.mode_setup, "handed_on": tab1.handed_on}
    return {name: value for name, value in content.items() if value}


def _copy(row: Model, part: type[BaseModel], **other: Any) -> dict[str, Any]:
    """Return the values of this part of a file. `other` has some of them, and the row has the
    rest."""
    names = [name for name in part.model_fields if name not in other]
    return {name: getattr(row, name) for name in names} | other


def _attempts(chapter: Session) -> dict[uuid.UUID | None, list[Attempt]]:
    """Return the committed attempts of each turn, oldest first."""
    committed = committed_attempts(chapter.pk).filter(turn__number__lte=chapter.prompt_index)
    of_turns: dict[uuid.UUID | None, list[Attempt]] = defaultdict(list)
    for attempt in committed:
        of_turns[attempt.turn_id].append(attempt)
    return of_turns


def _turns(
    chapter: Session,
    turns: list[Turn],
    attempts: dict[uuid.UUID | None, list[Attempt]],
    places: dict[uuid.UUID, int],
    changes: dict[uuid.UUID, list[ChangeEntry]],
) -> list[TurnEntry]:
    events = _events(chapter)
    return [
        TurnEntry.model_construct(
            number=turn.number,
            chosen=places[turn.chosen_id],
            attempts=[
                AttemptEntry.model_construct(
                    **_copy(
                        attempt,
                        AttemptEntry,
                        source=_place_of(attempt.source_id, places),
                        changed_layer=_changed_layer(attempt),
                        events=events[attempt.pk],
                        changes=changes[attempt.pk],
                    )
                )
                for attempt in attempts[turn.pk]
            ],
        )
        for turn in turns
        # A reset deletes the attempts of a chapter before its turns, so an attempt may be missing.
        if turn.chosen_id in places
    ]


def _events(chapter: Session) -> dict[uuid.UUID, list[EventEntry]]:
    """Return the events of each attempt, in their order."""
    of_attempts: dict[uuid.UUID, list[EventEntry]] = defaultdict(list)
    events = chapter.events.filter(prompt_index__lte=chapter.prompt_index)
    for event in events.order_by("attempt", "position"):
        entry = EventEntry.model_construct(**_copy(event, EventEntry))
        of_attempts[event.attempt_id].append(entry)
    return of_attempts


def _changes(chapter: Session, results: list[Job]) -> dict[uuid.UUID, list[ChangeEntry]]:
    """Return the changes of each attempt, followed by the changes of the acts after the attempt.

    For a committed attempt, the changes of the committed run are returned. For a broken attempt,
    the changes of the run that wrote its text are returned. For an attempt that was set aside, no
    changes are returned, because its changes never count.
    """
    run = Case(
        When(attempt__status=Attempt.Status.COMMITTED, then=F("attempt__run_id")),
        default=F("attempt__text_run_id"),
    )
    counting = chapter.changes.filter(Q(run_id=None) | Q(run_id=run)).exclude(
        attempt__status=Attempt.Status.SET_ASIDE
    )
    done = Job.Status.DONE
    places = {job.pk: place for place, job in enumerate(results) if job.status == done}
    of_attempts: dict[uuid.UUID, list[ChangeEntry]] = defaultdict(list)
    for one in counting.order_by("attempt", F("run_id").asc(nulls_last=True), "position"):
        taken = None if one.result is None else places.get(one.result)
        fields = _copy(one, ChangeEntry, is_act=one.run_id is None, result=taken)
        entry = ChangeEntry.model_construct(**fields)
        of_attempts[one.attempt_id].append(entry)
    return of_attempts


def _results(chapter: Session, attempts: set[uuid.UUID]) -> list[Job]:
    """Return the jobs for late results that these attempts asked for. A job that is not done is
    left out, unless its result is void.

    Results of kinds that the mode does not declare are left out too, because no file may have them.
    """
    ended = (Job.Status.DONE, Job.Status.VOID)
    asked = chapter.jobs.exclude(result_kind="").filter(status__in=ended)
    if mode := find_mode(chapter.mode):
        changes = mode.world.all_change_kinds
        asked = asked.filter(kind__in=mode.kinds_of_results, result_kind__in=changes)
    ordered = asked.order_by("to_prompt_index", "created_at", "pk")
    return [job for job in ordered if job.attempt_id in attempts]


def _result(job: Job, places: dict[uuid.UUID, int]) -> ResultEntry:
    assert job.attempt_id is not None, "Somebody asked for a result."
    return ResultEntry.model_construct(
        job_kind=job.kind,
        turn=job.to_prompt_index,
        attempt=places[job.attempt_id],
        kind=job.result_kind,
        payload=(job.result or {}) if job.status == Job.Status.DONE else None,
    )


def _changed_layer(attempt: Attempt) -> dict[str, Any] | None:
    """Return the layer that a trial changed, with its text before and after. The id of the call is
    left out, because no calls are exported."""
    if attempt.changed_layer is None:
        return None
    return {name: value for name, value in attempt.changed_layer.items() if name != "call_id"}


def _kept_setup(attempt: Attempt) -> dict[str, Any] | None:
    """If the text can be kept, return the fields of the mode's setup as they were when the text
    began."""
    if attempt.is_trial or attempt.status == Attempt.Status.SET_ASIDE:
        return None
    return attempt.kept_setup_of(attempt.text_run_id) or None


def _place_of(attempt_id: uuid.UUID | None, places: dict[uuid.UUID, int]) -> int | None:
    return None if attempt_id is None else places.get(attempt_id)


def _blocks(chapter: Session, attempts: set[uuid.UUID]) -> list[MemoryBlock]:
    """Return the memory blocks, also those of attempts that are not chosen."""
    blocks = chapter.memory_blocks.filter(to_prompt_index__lte=chapter.prompt_index)
    return [
        block
        for block in blocks.order_by("created_at", "pk")
        if block.attempt_id is None or block.attempt_id in attempts
    ]


def _unanswered(
    chapter: Session,
    turns: list[Turn],
    places: dict[uuid.UUID, int],
    changes: dict[uuid.UUID, list[ChangeEntry]],
) -> list[UnansweredEntry]:
    """Return the attempts that were not committed. A running attempt is exported as stopped."""
    number_of = {turn.pk: turn.number for turn in turns}
    attempts = chapter.attempts.filter(status__in=_UNANSWERED)
    return [
        UnansweredEntry.model_construct(
            **_copy(
                attempt,
                UnansweredEntry,
                status=Attempt.Status.STOPPED.value if attempt.is_running else attempt.status,
                # A turn that was added while these rows were read may be missing in `number_of`.
                # `read_at_one_moment` then reads all rows again.
                turn=None if attempt.turn_id is None else number_of.get(attempt.turn_id),
                source=_place_of(attempt.source_id, places),
                changed_layer=_changed_layer(attempt),
                error=attempt.error[:ERROR_CHAR_LIMIT],
                kept_setup=_kept_setup(attempt),
                changes=changes[attempt.pk],
            )
        )
        for attempt in attempts.order_by("submitted_at", "pk")
    ]
