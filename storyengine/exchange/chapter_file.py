"""A chapter as one JSON file, version 2; docs/export.md describes it to others.

How much a file may hold is in storyengine.exchange.limits, and what has to fit together in
storyengine.exchange.invariants. A file of version 1 becomes one of these when it is read.
"""

import json
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import Field

from sessions.limits import (
    MAX_AGENTS,
    MAX_CHUNK_SIZE_PROMPTS,
    MAX_PEOPLE,
    MIN_CHUNK_SIZE_PROMPTS,
)
from storyengine.exchange.file_parts import (
    AgentName,
    BlockParts,
    ChapterParts,
    DraftParts,
    ErrorText,
    ModelText,
    Name,
    Number,
    Part,
    Payload,
    PromptText,
    Pronouns,
    PublicText,
    Slot,
    SourceSnapshot,
    Tab1,
    Tab1Text,
    Time,
    at_most,
    keys_of,
)

FORMAT: Final = "storyengine-chapter"
VERSION: Final = 2

# The engine makes fifty attempts at a turn. A chapter from before that limit may have more.
MAX_ATTEMPTS_OF_A_TURN: Final = 1_000
# The words, a reply, and what the system says to them, of which the engine itself says nothing.
MAX_EVENTS_OF_AN_ATTEMPT: Final = 1_000

Witnesses = Annotated[list[Slot], Field(max_length=MAX_AGENTS, fail_fast=True)]
Audience = Annotated[
    Witnesses | None,
    Field(description="Those who know the block, slots in ascending order; null for the lock."),
]
_Place = Annotated[
    Number | None,
    Field(description="A place among the attempts at its last turn, the first 0."),
]


class CastEntry(Part):
    slot: Slot | None = Field(description="Null where there is no panel.")
    is_selected: bool = Field(description="Whether it takes part.")
    name: Name
    pronouns: Pronouns
    public_text: PublicText = Field(description="What everybody may know.")
    identity_text: Tab1Text = Field(description="What only its own prompt carries.")


class EventEntry(Part):
    role: Literal["user", "agent", "system"]
    agent_slot: Slot | None
    text: ModelText
    witnesses: Witnesses
    created_at: Time


class TrialChange(Part):
    """What the `given` of a trial holds: the layer of the request that it changed, and how."""

    layer: Number
    layer_name: ModelText
    text_before: ModelText
    text: ModelText


class AttemptEntry(Part):
    """A committed attempt at a turn."""

    kind: Literal["prompt", "reroll", "trial", "edit"]
    source: Number | None = Field(
        description="The place of the attempt that an edit or a trial was made from."
    )
    actor: Slot | None = Field(description="Null where nobody of the cast acts.")
    agent: AgentName = Field(description="The agent who wrote it.")
    words: PromptText
    given: Payload | None = Field(description="Of a trial, what it changed.")
    witnesses: Witnesses | None
    submitted_at: Time
    committed_at: Time
    events: Annotated[list[EventEntry], Field(max_length=MAX_EVENTS_OF_AN_ATTEMPT, fail_fast=True)]


class TurnEntry(Part):
    number: Number
    chosen: Number = Field(description="The place of the attempt that the story goes by.")
    attempts: Annotated[
        list[AttemptEntry],
        Field(min_length=1, max_length=MAX_ATTEMPTS_OF_A_TURN, fail_fast=True),
    ]


class MemoryBlockEntry(BlockParts):
    audience: Audience
    attempt: _Place


class DraftEntry(DraftParts):
    attempt: _Place


class UnansweredEntry(Part):
    """An attempt that nothing came of."""

    kind: Literal["prompt", "reroll"]
    status: Literal["failed", "stopped", "set_aside"]
    turn: Number | None = Field(description="The turn at which a re-roll was another attempt.")
    actor: Slot | None = Field(description="Null where nobody of the cast acts.")
    agent: AgentName = Field(description="The agent who was to write it.")
    words: PromptText
    witnesses: Witnesses | None
    partial_text: ModelText
    error: ErrorText
    submitted_at: Time


class Chapter(ChapterParts):
    mode: str
    mode_content: dict[str, Payload] = Field(description="What the mode adds.")
    chunk_size_prompts: Annotated[int, Field(ge=MIN_CHUNK_SIZE_PROMPTS, le=MAX_CHUNK_SIZE_PROMPTS)]
    tab1: Tab1
    cast: Annotated[
        list[CastEntry],
        Field(min_length=1, max_length=MAX_AGENTS + MAX_PEOPLE, fail_fast=True),
    ]
    turns: Annotated[list[TurnEntry], *at_most("turns")]
    memory_blocks: Annotated[list[MemoryBlockEntry], *at_most("memory_blocks")]
    narrative_drafts: Annotated[list[DraftEntry], *at_most("narrative_drafts")]
    unanswered_attempts: Annotated[list[UnansweredEntry], *at_most("unanswered_attempts")]

    @cached_property
    def selected_agent_slots(self) -> list[int]:
        return sorted(one.slot for one in self.cast if one.slot and one.is_selected)


class ChapterFile(Part):
    format: Literal["storyengine-chapter"]
    version: Literal[2]
    exported_at: Time
    chapter: Chapter

    def to_json(self) -> bytes:
        """UTF-8, read again to the same values."""
        text = json.dumps(self.model_dump(), ensure_ascii=False, separators=(",", ":"))
        return text.encode()


# The only words of a file that a message about it may repeat.
KNOWN_KEYS = keys_of(
    *(ChapterFile, Chapter, Tab1, CastEntry, TurnEntry, AttemptEntry, EventEntry),
    *(UnansweredEntry, MemoryBlockEntry, DraftEntry, SourceSnapshot, TrialChange),
)
