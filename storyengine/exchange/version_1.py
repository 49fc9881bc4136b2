"""Converts files of version 1. They have no attempts: a prompt's replies are events that follow the
prompt."""

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from sessions.limits import CHUNK_SIZE_PROMPTS, MAX_AGENTS, PROMPT_CHAR_LIMIT
from sessions.models import DEFAULT_AGENT, DEFAULT_MODE
from sessions.roster import SLOTS
from storyengine.exchange.chapter_file import (
    MAX_ATTEMPTS_OF_A_TURN,
    MAX_EVENTS_OF_AN_ATTEMPT,
    AttemptEntry,
    CastEntry,
    Chapter,
    DraftEntry,
    MemoryBlockEntry,
    TurnEntry,
    UnansweredEntry,
)
from storyengine.exchange.chapter_file import EventEntry as EventOfAttempt
from storyengine.exchange.exceptions import BeyondLimits, refuse
from storyengine.exchange.file_parts import (
    BlockParts,
    ChapterParts,
    DraftParts,
    ErrorText,
    ModelText,
    Name,
    Number,
    Part,
    PromptText,
    Slot,
    Tab1,
    Tab1Text,
    Time,
    at_most,
    keys_of,
)
from storyengine.exchange.invariants import (
    check_empty,
    check_order,
    check_slot,
    check_slots,
    check_speaker,
)
from storyengine.exchange.limits import Limits

VERSION: Final = 1

# The most replies to a prompt, and the most events of the system at a prompt. Each reply becomes an
# attempt. The limit for events of the system is half of the events that an attempt may have,
# because an attempt at the first turn also gets the events from before the first prompt.
_MOST_AT_A_PROMPT: Final = {
    "agent": MAX_ATTEMPTS_OF_A_TURN,
    "system": MAX_EVENTS_OF_AN_ATTEMPT // 2 - 1,
}


SlotKey = Literal["1", "2", "3", "4", "5", "6", "7"]


class Config(Part):
    chunk_size_prompts: Annotated[Number, Field(ge=1)]
    tab1_char_limit: Annotated[Number, Field(ge=1)]
    tab2_char_limit: Annotated[Number, Field(ge=1)]
    prompt_char_limit: Annotated[Number, Field(ge=1)]


class OldTab1(Tab1):
    agent_identity_text_by_slot: dict[SlotKey, Tab1Text]


class EventEntry(Part):
    prompt_index: Number
    role: Literal["user", "agent", "system"]
    agent_slot: Slot | None
    text: ModelText
    created_at: Time


class OldBlock(BlockParts):
    type: Literal["world_chapter_lock", "turn_delta", "canon_correction"]


class UnansweredTurn(Part):
    """A prompt or a re-roll without a complete reply."""

    kind: Literal["prompt", "reroll"]
    status: Literal["failed", "stopped", "set_aside"]
    agent_slot: Slot
    user_text: PromptText
    prompt_index: Number | None
    partial_text: ModelText
    error: ErrorText
    submitted_at: Time


class OldChapter(ChapterParts):
    selected_agent_slots: Annotated[
        list[Slot], Field(min_length=1, max_length=MAX_AGENTS, fail_fast=True)
    ]
    agent_names: dict[SlotKey, Name]
    config: Config
    tab1: OldTab1
    events: Annotated[list[EventEntry], *at_most("events")]
    memory_blocks: Annotated[list[OldBlock], *at_most("memory_blocks")]
    narrative_drafts: Annotated[list[DraftParts], *at_most("narrative_drafts")]
    unanswered_turns: Annotated[list[UnansweredTurn], *at_most("unanswered_attempts")]


class OldChapterFile(Part):
    format: Literal["storyengine-chapter"]
    version: Literal[1]
    exported_at: Time
    chapter: OldChapter


KNOWN_KEYS = keys_of(OldChapterFile, OldChapter, Config, OldTab1, EventEntry, UnansweredTurn)


def upgrade(old: OldChapter, limits: Limits) -> Chapter:
    """Return a chapter of version 2 with the content of a chapter of version 1.

    Raises BadChapterFile if the events make no turns. The parts that have another name in version 2
    are checked here, so that the error names the part as the file does.
    storyengine.exchange.invariants checks all other rules afterwards.
    """
    check_slots(old.selected_agent_slots, "selected_agent_slots")
    check_slot(old.next_agent_slot, old, "next_agent_slot")
    if old.state == "DRAFT_TAB1":
        check_empty(old, "events", "unanswered_turns")
    _check_events(old)
    _check_sizes(old, limits)
    _check_unanswered(old)
    turns, cast = _turns(old), old.selected_agent_slots
    chosen = {turn.number: turn.chosen for turn in turns}
    fields = {name: getattr(old, name) for name in ChapterParts.model_fields}
    return Chapter.model_construct(
        **fields,
        mode=DEFAULT_MODE,
        mode_content={},
        # Programs of version 1 always used this size of a stretch, whatever the file says.
        chunk_size_prompts=CHUNK_SIZE_PROMPTS,
        tab1=Tab1.model_construct(
            world_text=old.tab1.world_text, chapter_text=old.tab1.chapter_text
        ),
        cast=_cast(old),
        turns=turns,
        memory_blocks=[
            MemoryBlockEntry.model_construct(
                **dict(block),
                audience=None if block.type == "world_chapter_lock" else cast,
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


def _cast(old: OldChapter) -> list[CastEntry]:
    """Return the characters that take part, and also other characters for whom the user typed a
    text."""
    selected, names = old.selected_agent_slots, old.agent_names
    identities = old.tab1.agent_identity_text_by_slot
    entries = [
        CastEntry(
            slot=slot,
            is_selected=slot in selected,
            name=names.get(str(slot), ""),  # type: ignore[call-overload]
            pronouns="",
            public_text="",
            identity_text=identities.get(str(slot), ""),  # type: ignore[call-overload]
        )
        for slot in SLOTS
    ]
    return [one for one in entries if one.is_selected or one.name or one.identity_text]


def _check_events(chapter: OldChapter) -> None:
    """Check that the prompts are numbered 1 to n, and that each prompt begins with the user's words
    and has a reply."""
    number, has_reply = 0, True
    previous: EventEntry | None = None
    for at, event in enumerate(chapter.events):
        place = f"events[{at}]"
        if event.role == "user":
            if not has_reply:
                refuse(place, f"follows prompt {number:,}, which has no reply")
            number, has_reply, previous = number + 1, False, None
        elif event.role == "agent":
            if not number:
                refuse(place, "answers no prompt")
            has_reply = True
        check_speaker(event.role, event.agent_slot, chapter, f"{place}.agent_slot")
        if event.prompt_index != number:
            refuse(f"{place}.prompt_index", f"must be {number:,}: prompts go from 1 to n")
        if previous and event.created_at <= previous.created_at:
            refuse(f"{place}.created_at", "must be later than that of the entry before")
        previous = event
    if not has_reply:
        refuse("events", f"ends with prompt {number:,}, which has no reply")
    _check_count(number, chapter)


def _check_count(prompts: int, chapter: OldChapter) -> None:
    if chapter.events and not prompts:
        refuse("events", "must hold a prompt, unless it is empty")
    if chapter.prompt_index != prompts:
        refuse("prompt_index", f"must be {prompts:,}, the number of prompts in events")


def _check_sizes(chapter: OldChapter, limits: Limits) -> None:
    """Check the size of the chapter that the import would make, not only the size of the file.

    The chapter stores a copy of the prompt with each reply. So a small file could become a very
    large chapter.
    """
    at, repeated = 0, 0
    for number, of_prompt in groupby(chapter.events, key=attrgetter("prompt_index")):
        events = list(of_prompt)
        roles: Counter[str] = Counter(event.role for event in events)
        for role, most in _MOST_AT_A_PROMPT.items():
            if roles[role] > most:
                refuse(
                    "events", f'has more than {most:,} of the role "{role}" at prompt {number:,}'
                )
        if number:
            _check_words(events[0], f"events[{at}].text")
        repeated += len(events[0].text) * roles["agent"]
        at += len(events)
    if repeated > limits.file_bytes:
        problem = "chapter.events has more replies to long prompts than can be imported here"
        raise BeyondLimits(problem, limits)


def _check_words(event: EventEntry, place: str) -> None:
    """Check that the text of a prompt can be the words of an attempt."""
    if len(event.text) > PROMPT_CHAR_LIMIT:
        refuse(place, f"is longer than {PROMPT_CHAR_LIMIT:,} characters")
    if not event.text.strip():
        refuse(place, "must not be empty")


def _check_unanswered(chapter: OldChapter) -> None:
    turns = chapter.unanswered_turns
    check_order((turn.submitted_at for turn in turns), "unanswered_turns")
    if sum(turn.status != "set_aside" for turn in turns) > 1:
        refuse("unanswered_turns", "may hold one turn at most that is not set_aside")
    for at, turn in enumerate(turns):
        place = f"unanswered_turns[{at}]"
        check_slot(turn.agent_slot, chapter, f"{place}.agent_slot")
        if not _is_prompt_of(turn, chapter):
            refuse(f"{place}.prompt_index", "must be a prompt for a reroll, and null for a prompt")


def _is_prompt_of(turn: UnansweredTurn, chapter: OldChapter) -> bool:
    if turn.prompt_index is None:
        return turn.kind == "prompt"
    return turn.kind == "reroll" and 1 <= turn.prompt_index <= chapter.prompt_index


def _turns(chapter: OldChapter) -> list[TurnEntry]:
    turns: list[TurnEntry] = []
    # The events of the system from before the first prompt. They are added to the first turn.
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
        agent=DEFAULT_AGENT,
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
    return UnansweredEntry.model_construct(**fields, **renamed, agent=DEFAULT_AGENT, witnesses=None)
