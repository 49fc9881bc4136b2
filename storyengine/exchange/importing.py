"""Stores a chapter from a file or from another chapter under new ids.

The chapter is stored in pieces, and becomes visible when it is complete
(sessions.chapter.storing_imports). If anything fails, no part of it is kept. No model is called and
no job is queued. Missing memory is written with the next prompt, as in play, or after the GM has
accepted the calls (agents.flows.remembering.memory_calls). If late results are missing, the next
prompt asks again only for those that the latest turn asked for
(agents.flows.remembering.late_results).
"""

import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from django.db import models
from django.utils import timezone

from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import has_stage
from agents.running.results import result_key
from memory.blocks.blocks import with_known_slots
from memory.blocks.stretches import Audience, told_to
from memory.models import MemoryBlock
from sessions.chapter.access import get_chapter
from sessions.chapter.storing_imports import importing, store_groups, store_rows
from sessions.limits import MAX_AGENTS
from sessions.models import (
    PERSON,
    THOUGHT,
    Attempt,
    CastMember,
    Change,
    Event,
    Session,
    State,
    Tab1Inputs,
    Turn,
)
from sessions.play.events import language_of_terms, make_terms
from storyengine.exchange.chapter_file import (
    AttemptEntry,
    ChangeEntry,
    Chapter,
    MemoryBlockEntry,
    ResultEntry,
    TurnEntry,
    UnansweredEntry,
)
from storyengine.exchange.drafts_in_files import chosen_draft, draft_rows, working_copies
from storyengine.exchange.file_reading import read_chapter_file
from storyengine.exchange.mode_rules import check_world
from storyengine.settings.import_limits import OVER_THE_NETWORK, Limits

_NOT_THERE = "The chapter that this one was copied from had no result that could be used."


def import_chapter(content: bytes, limits: Limits = OVER_THE_NETWORK) -> Session:
    """Import a chapter from a file. Raises BadChapterFile, and then nothing is stored."""
    chapter = read_chapter_file(content, limits)
    check_world_of(chapter)
    return store_chapter(chapter, imported_at=timezone.now())


def check_world_of(chapter: Chapter) -> None:
    """Check that the chapter's mode can fold its world. Raises BadChapterFile."""
    session, _, cast = first_rows(chapter, {})
    session.cast = tuple(sorted(cast, key=lambda one: one.slot or MAX_AGENTS + 1))
    check_world(chapter, session)


def store_chapter(
    chapter: Chapter, *, origins: Sequence[uuid.UUID | None] = (), **fields: Any
) -> Session:
    """Store the chapter under new ids. `fields` are values for its Session row, and `origins` are
    the keys of the origins of its cast, in the order of the cast.

    Raises ImportLost. Raises UnknownChapter if the chapter is a fork and its origin was deleted.
    """
    session, tab1, cast = first_rows(chapter, fields)
    for member, origin in zip(cast, origins, strict=False):
        member.origin_id = origin
    with importing(session, tab1, cast):
        store_parts(session, chapter)
    return get_chapter(session.pk)


def store_parts(session: Session, chapter: Chapter) -> None:
    """Store the rows of a chapter beyond its first ones. Raises ImportLost."""
    block_ids, draft_ids = _new_ids(chapter.memory_blocks), _new_ids(chapter.narrative_drafts)
    names = NewNames(chapter.turns, chapter.results)
    store_groups(session, _turns(session, chapter.turns, names))
    store_rows(session, _results(session, chapter, names))
    store_rows(session, _blocks(session, chapter, block_ids, names))
    store_rows(session, draft_rows(session, chapter, draft_ids, block_ids, names.of_attempt))
    store_rows(session, working_copies(session, chapter, draft_ids))
    store_rows(session, chosen_draft(session, chapter, draft_ids))
    store_groups(session, _unanswered(session, chapter.unanswered_attempts, names))


class NewNames:
    """The new ids of turns, attempts and late results. An id is looked up by the number or the
    place of the entry in the file."""

    def __init__(self, turns: Sequence[TurnEntry], results: Sequence[ResultEntry]) -> None:
        self.of_results = _new_ids(results)
        self._turns = [uuid.uuid4() for _ in turns]
        self._attempts = [_new_ids(turn.attempts) for turn in turns]

    def of_turn(self, number: int) -> uuid.UUID:
        return self._turns[number - 1]

    def of_attempts(self, number: int) -> list[uuid.UUID]:
        return self._attempts[number - 1]

    def of_attempt(self, number: int, place: int | None) -> uuid.UUID | None:
        return None if place is None else self.of_attempts(number)[place]


def _new_ids(entries: Sequence[object]) -> list[uuid.UUID]:
    """Return a new id for each entry, in ascending order. So rows that are ordered by their ids are
    in the order of the file."""
    return sorted(uuid.uuid4() for _ in entries)


def first_rows(
    chapter: Chapter, fields: dict[str, Any]
) -> tuple[Session, Tab1Inputs, list[CastMember]]:
    """Return the rows of the chapter that are stored first. `fields` are values for its Session
    row."""
    session = _session(chapter, fields)
    content = chapter.mode_content
    tab1 = Tab1Inputs(
        session=session,
        mode_setup=content.get("setup", {}),
        handed_on=content.get("handed_on", {}),
        **dict(chapter.tab1),
    )
    cast = [
        CastMember(member_id=member_id, session=session, **dict(one))
        for member_id, one in zip(_new_ids(chapter.cast), chapter.cast, strict=True)
    ]
    return session, tab1, cast


def _session(chapter: Chapter, fields: dict[str, Any]) -> Session:
    has_lock = has_stage(chapter.mode, Stage.LOCK)
    state = State(chapter.state)
    if state == State.DRAFT_TAB1 and not has_lock:
        # A chapter of a mode without a lock is in play from its beginning, even if the file says
        # otherwise.
        state = State.ACTIVE
    named = {
        "title": chapter.title,
        "mode": chapter.mode,
        "state": state,
        "prompt_index": chapter.prompt_index,
        "last_summarized_prompt_index": chapter.last_summarized_prompt_index,
        "tab1_locked": has_lock and state != State.DRAFT_TAB1,
        "chunk_size_prompts": chapter.chunk_size_prompts,
        "reply_length": chapter.reply_length,
        "language": chapter.language,
        "found_language": chapter.found_language,
        "starter": chapter.starter,
        "next_agent_slot": chapter.next_agent_slot,
        "narrative_agent_definition_text": chapter.narrative_agent_definition_text,
        "target_words": chapter.target_words,
        "created_at": chapter.created_at,
        "last_played_at": chapter.last_played_at,
        "differs_by_reader": _differs_by_reader(chapter),
        "seed": uuid.UUID(chapter.seed) if chapter.seed else uuid.uuid4(),
    }
    return Session(**(named | fields))


def _differs_by_reader(chapter: Chapter) -> bool:
    cast = set(chapter.everybodys_numbers)
    attempts = [attempt for turn in chapter.turns for attempt in turn.attempts]
    changes = (one for attempt in attempts for one in attempt.changes)
    events = [event for attempt in attempts for event in attempt.events]
    # A person who appeared in play missed the earlier events, and a thought is known only to its
    # thinker. In both cases not everybody knows the same.
    if any(one.kind == PERSON for one in changes) or any(one.kind == THOUGHT for one in events):
        return True
    told = (event.witnesses for event in events)
    known = (block.audience for block in chapter.memory_blocks if block.audience is not None)
    return any(not cast <= set(readers) for readers in (*told, *known))


def _turns(
    session: Session, turns: Sequence[TurnEntry], names: NewNames
) -> Iterator[list[models.Model]]:
    """Yield lists of rows that must be stored together. A turn and its attempts are one list,
    because they refer to each other. Each event is a list with its terms, and each change is a list
    of its own."""
    for entry in turns:
        turn_id, ids = names.of_turn(entry.number), names.of_attempts(entry.number)
        attempts = list(zip(ids, entry.attempts, strict=True))
        yield [
            Turn(
                turn_id=turn_id,
                session=session,
                number=entry.number,
                chosen_id=ids[entry.chosen],
            ),
            *(
                _attempt(session, attempt, entry.number, attempt_id, names)
                for attempt_id, attempt in attempts
            ),
        ]
        for attempt_id, attempt in attempts:
            events = list(_events(session, attempt, entry.number, attempt_id))
            terms = make_terms(events, language_of_terms(events, session))
            for event, found_by in zip(events, terms, strict=True):
                yield [event, found_by]
            for change in _changes(session, attempt.changes, attempt_id, names):
                yield [change]


def _attempt(
    session: Session, entry: AttemptEntry, number: int, attempt_id: uuid.UUID, names: NewNames
) -> Attempt:
    fields = dict(entry)
    del fields["events"], fields["changes"]
    source = fields.pop("source")
    return Attempt(
        attempt_id=attempt_id,
        run_id=_run_of(attempt_id),
        session=session,
        turn_id=names.of_turn(number),
        source_id=names.of_attempt(number, source),
        status=Attempt.Status.COMMITTED,
        submission_key=str(uuid.uuid4()),
        lease_until=entry.committed_at,
        **fields,
    )


def _run_of(attempt_id: uuid.UUID) -> uuid.UUID:
    """Return an id for the only run of an imported attempt. No other attempt's run has this id."""
    return uuid.uuid5(attempt_id, "run")


def _changes(
    session: Session, entries: Sequence[ChangeEntry], attempt_id: uuid.UUID, names: NewNames
) -> Iterator[Change]:
    positions = {True: count(), False: count()}
    for entry in entries:
        fields = dict(entry)
        is_act, result = fields.pop("is_act"), fields.pop("result")
        yield Change(
            session=session,
            attempt_id=attempt_id,
            run_id=None if is_act else _run_of(attempt_id),
            position=next(positions[is_act]),
            result=None if result is None else names.of_results[result],
            **fields,
        )


def _results(session: Session, chapter: Chapter, names: NewNames) -> Iterator[Job]:
    """Yield the jobs of late results. A job without its result is void, so that no process runs the
    job."""
    for job_id, entry in zip(names.of_results, chapter.results, strict=True):
        is_done = entry.payload is not None
        # Tab 2 shows late results that became void lately. An imported result became void long ago,
        # so its job gets the time of the attempt.
        asked_at = chapter.turns[entry.turn - 1].attempts[entry.attempt].committed_at
        asker = names.of_attempts(entry.turn)[entry.attempt]
        yield Job(
            job_id=job_id,
            session=session,
            kind=entry.job_kind,
            key=result_key(asker, entry.kind),
            status=Job.Status.DONE if is_done else Job.Status.VOID,
            error="" if is_done else _NOT_THERE,
            attempt_id=asker,
            from_prompt_index=entry.turn,
            to_prompt_index=entry.turn,
            result_kind=entry.kind,
            result=entry.payload,
            created_at=asked_at,
            updated_at=asked_at,
        )


def _events(
    session: Session, entry: AttemptEntry, number: int, attempt_id: uuid.UUID
) -> Iterator[Event]:
    for position, event in enumerate(entry.events):
        yield Event(
            session=session,
            attempt_id=attempt_id,
            prompt_index=number,
            position=position,
            **dict(event),
        )


def _blocks(
    session: Session,
    chapter: Chapter,
    block_ids: Sequence[uuid.UUID],
    names: NewNames,
) -> Iterator[MemoryBlock]:
    slots = chapter.selected_agent_slots
    told_until = _last_prompts_told(session, chapter.turns)
    for block_id, block in zip(block_ids, chapter.memory_blocks, strict=True):
        fields = dict(block)
        fields["json_payload"] = with_known_slots(block.json_payload, slots)
        fields["attempt_id"] = names.of_attempt(block.to_prompt_index, fields.pop("attempt"))
        fields["told_until"] = told_until(block)
        yield MemoryBlock(block_id=block_id, session=session, **fields)


def _last_prompts_told(
    session: Session, turns: Sequence[TurnEntry]
) -> Callable[[MemoryBlockEntry], int | None]:
    """Return a function that finds the last prompt whose events a delta tells. For any other block,
    and for a delta without events, the function returns None."""
    told = [
        [
            {told_to(session, one.witnesses) for one in attempt.events if one.kind != THOUGHT}
            for attempt in turn.attempts
        ]
        for turn in turns
    ]
    # For each audience, the turns whose chosen attempts have events for it, in ascending order.
    # With these lists, many deltas of long stretches are read fast.
    numbers: dict[Audience, list[int]] = defaultdict(list)
    for turn, audiences in zip(turns, told, strict=True):
        for audience in audiences[turn.chosen]:
            numbers[audience].append(turn.number)

    def find(block: MemoryBlockEntry) -> int | None:
        if block.type != MemoryBlock.Type.TURN_DELTA or block.attempt is None:
            return None
        last, audience = block.to_prompt_index, tuple(block.audience or ())
        if audience in told[last - 1][block.attempt]:
            return last
        earlier = numbers.get(audience, [])
        at = bisect_left(earlier, last)
        return earlier[at - 1] if at and earlier[at - 1] >= block.from_prompt_index else None

    return find


def _unanswered(
    session: Session, attempts: Sequence[UnansweredEntry], names: NewNames
) -> Iterator[list[models.Model]]:
    """Yield a list for each attempt that was not committed: the attempt, and the changes of the run
    that wrote its text."""
    for attempt_id, entry in zip(_new_ids(attempts), attempts, strict=True):
        fields = dict(entry)
        number, changes = fields.pop("turn"), fields.pop("changes")
        source, kept = fields.pop("source"), fields.pop("kept_setup")
        attempt = Attempt(
            attempt_id=attempt_id,
            text_run_id=_run_of(attempt_id),
            kept_setup=None if kept is None else {str(_run_of(attempt_id)): kept},
            session=session,
            turn_id=None if number is None else names.of_turn(number),
            source_id=None if number is None else names.of_attempt(number, source),
            submission_key=str(uuid.uuid4()),
            lease_until=timezone.now(),
            **fields,
        )
        yield [attempt, *_changes(session, changes, attempt_id, names)]
