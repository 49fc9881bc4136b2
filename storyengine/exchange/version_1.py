"""A file of version 1, whose prompts have their replies one after the other and name no attempt."""

from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

from storyengine.exchange.chapter_file import (
    GAME_MASTER,
    MAX_ATTEMPTS_OF_A_TURN,
    AttemptEntry,
    Chapter,
    DraftEntry,
    MemoryBlockEntry,
    TurnEntry,
    UnansweredEntry,
)
from storyengine.exchange.chapter_file import EventEntry as EventOfAttempt
from storyengine.exchange.exceptions import refuse
from storyengine.exchange.file_parts import (
    BlockParts,
    ChapterParts,
    DraftParts,
    ErrorText,
    ModelText,
    Number,
    Part,
    PromptText,
    Slot,
    Time,
    at_most,
    keys_of,
)

VERSION: Final = 1


class EventEntry(Part):
    prompt_index: Number
    role: Literal["user", "agent", "system"]
    agent_slot: Slot | None
    text: ModelText
    created_at: Time


class UnansweredTurn(Part):
    """A submission that no event came of."""

    kind: Literal["prompt", "reroll"]
    status: Literal["failed", "stopped", "set_aside"]
    agent_slot: Slot
    user_text: PromptText
    prompt_index: Number | None
    partial_text: ModelText
    error: ErrorText
    submitted_at: Time


class OldChapter(ChapterParts):
    events: Annotated[list[EventEntry], *at_most("events")]
    memory_blocks: Annotated[list[BlockParts], *at_most("memory_blocks")]
    narrative_drafts: Annotated[list[DraftParts], *at_most("narrative_drafts")]
    unanswered_turns: Annotated[list[UnansweredTurn], *at_most("unanswered_attempts")]


class OldChapterFile(Part):
    format: Literal["storyengine-chapter"]
    version: Literal[1]
    exported_at: Time
    chapter: OldChapter


KNOWN_KEYS = keys_of(OldChapterFile, OldChapter, EventEntry, UnansweredTurn)


def upgrade(old: OldChapter) -> Chapter:
    """The chapter as version 2 has it; raises BadChapterFile where its events make no turns."""
    _check_events(old)
    turns = _turns(old)
    chosen = {turn.number: turn.chosen for turn in turns}
    fields = {name: getattr(old, name) for name in ChapterParts.model_fields}
    return Chapter.model_construct(
        **fields,
        mode=GAME_MASTER,
        mode_content={},
        turns=turns,
        memory_blocks=[
            MemoryBlockEntry.model_construct(
                **dict(block),
                attempt=chosen.get(block.to_prompt_index) if block.type == "turn_delta" else None,
            )
            for block in old.memory_blocks
        ],
        narrative_drafts=[
            DraftEntry.model_construct(
                **dict(draft), attempt=chosen.get(draft.source_snapshot.max_prompt_index_used)
            )
            for draft in old.narrative_drafts
        ],
        unanswered_attempts=[_unanswered(turn) for turn in old.unanswered_turns],
    )


def _check_events(chapter: OldChapter) -> None:
    """Prompts 1 to n, each with its user event first and a reply at least."""
    number, replies = 0, 0
    previous: EventEntry | None = None
    for at, event in enumerate(chapter.events):
        place = f"events[{at}]"
        if event.role == "user":
            if number and not replies:
                refuse(place, f"follows prompt {number:,}, which has no reply")
            number, replies, previous = number + 1, 0, None
        elif event.role == "agent":
            if not number:
                refuse(place, "answers no prompt")
            if replies == MAX_ATTEMPTS_OF_A_TURN:
                refuse(place, f"is one of more than {replies:,} replies to its prompt")
            replies += 1
        _check_speaker(event, chapter, f"{place}.agent_slot")
        if event.prompt_index != number:
            refuse(f"{place}.prompt_index", f"must be {number:,}: prompts go from 1 to n")
        if previous and event.created_at <= previous.created_at:
            refuse(f"{place}.created_at", "must be later than that of the entry before")
        previous = event
    if number and not replies:
        refuse("events", f"ends with prompt {number:,}, which has no reply")


def _check_speaker(event: EventEntry, chapter: OldChapter, place: str) -> None:
    if event.role != "agent":
        if event.agent_slot is not None:
            refuse(place, "must be null where no agent speaks")
    elif event.agent_slot not in chapter.selected_agent_slots:
        refuse(place, "is none of the selected agents")


def _turns(chapter: OldChapter) -> list[TurnEntry]:
    turns: list[TurnEntry] = []
    # What the system said before the first prompt belongs to the first turn from here on.
    early: list[EventEntry] = []
    for number, of_prompt in groupby(chapter.events, key=attrgetter("prompt_index")):
        events = early + list(of_prompt)
        by_role: dict[str, list[EventEntry]] = {"user": [], "agent": [], "system": []}
        for event in events:
            by_role[event.role].append(event)
        if not number:
            early = by_role["system"]
            continue
        [words], replies = by_role["user"], by_role["agent"]
        cast = chapter.selected_agent_slots
        attempts = [_attempt(words, reply, cast, at) for at, reply in enumerate(replies)]
        attempts[-1].events.extend(_event(event, cast) for event in by_role["system"])
        early = []
        turns.append(
            TurnEntry.model_construct(number=number, chosen=len(attempts) - 1, attempts=attempts)
        )
    return turns


def _attempt(words: EventEntry, reply: EventEntry, cast: list[int], place: int) -> AttemptEntry:
    return AttemptEntry.model_construct(
        kind="reroll" if place else "prompt",
        source=None,
        actor=reply.agent_slot or cast[0],
        words=words.text,
        given=None,
        witnesses=None,
        submitted_at=words.created_at,
        committed_at=reply.created_at,
        events=[_event(words, cast), _event(reply, cast)],
    )


def _event(event: EventEntry, cast: list[int]) -> EventOfAttempt:
    fields: dict[str, Any] = dict(event)
    del fields["prompt_index"]
    return EventOfAttempt.model_construct(**fields, witnesses=cast)


def _unanswered(turn: UnansweredTurn) -> UnansweredEntry:
    fields: dict[str, Any] = dict(turn)
    names = {"turn": "prompt_index", "actor": "agent_slot", "words": "user_text"}
    renamed = {new: fields.pop(old) for new, old in names.items()}
    return UnansweredEntry.model_construct(**fields, **renamed, witnesses=None)
