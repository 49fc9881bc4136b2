"""The schema of version 2 of a chapter's JSON file. docs/export.md describes the file for other
programs.

The limits on the size of a file are in storyengine.settings.import_limits.
storyengine.exchange.invariants checks that the parts of a file fit together.
"""

from bisect import bisect_left
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from sessions.language.text import removed_by_tidying
from sessions.limits import (
    MAX_AGENTS,
    MAX_CHANGES_OF_AN_ATTEMPT,
    MAX_CHUNK_SIZE_PROMPTS,
    MAX_PEOPLE,
    MAX_TARGET_WORDS,
    MIN_CHUNK_SIZE_PROMPTS,
    STARTER_CHAR_LIMIT,
)
from sessions.models import DEFAULT_AGENT, FIRST_NUMBER_IN_PLAY, PERSON, SAID
from sessions.payloads import with_fields
from sessions.roster import BESIDE_NAME
from storyengine.exchange.file_parts import (
    MOST_MEMBERS,
    AgentName,
    DraftText,
    ErrorText,
    File,
    LanguageTag,
    Member,
    ModelText,
    Name,
    NarratorText,
    Number,
    Part,
    Payload,
    Seed,
    Slot,
    SourceSnapshot,
    Tab1,
    TargetWords,
    Term,
    Time,
    Title,
    Words,
    at_most,
    cast_text,
    keys_of,
)

FORMAT: Final = "storyengine-chapter"
VERSION: Final = 2

# A file may have more attempts at a turn than the fifty that the engine makes.
MAX_ATTEMPTS_OF_A_TURN: Final = 1_000
# A file may have twice as many events of an attempt as the engine stores.
MAX_EVENTS_OF_AN_ATTEMPT: Final = 1_000
_MAX_PROMPTS_OF_A_PARAGRAPH: Final = 100

Witnesses = Annotated[list[Member], Field(max_length=MOST_MEMBERS, fail_fast=True)]
Audience = Annotated[
    Witnesses | None,
    Field(description="Those who know the block, in ascending order; null for the lock."),
]
_Place = Annotated[
    Number | None,
    Field(description="A place among the attempts at its last turn, the first 0."),
]


@with_fields({one.name: cast_text(one) for one in BESIDE_NAME})
class CastEntry(Part):
    slot: Slot | None = Field(description="Null where there is no panel.")
    is_selected: bool = Field(description="Whether it takes part.")
    name: Name


class EventEntry(Part):
    role: Literal["user", "agent", "system"]
    kind: Term = SAID
    agent_slot: Member | None
    text: ModelText
    shown: Payload | None = Field(None, description="A form of it beyond its words.")
    witnesses: Witnesses
    created_at: Time


class TrialChange(Part):
    """The `changed_layer` of a trial: a layer of the request, with its text before and after the
    change."""

    layer: Number
    layer_name: ModelText
    text_before: ModelText
    text: ModelText


class ChangeEntry(Part):
    """A change of the world, made by an attempt or by an act of the user after the attempt."""

    is_act: bool
    kind: Term
    payload: Payload
    cause: Term
    step: Number
    after_chars: Number = Field(
        0, description="The characters that the reply's text had at the end of this step."
    )
    result: Number | None = Field(description="The place of the late result that it takes.")
    created_at: Time


@with_fields({one.name: cast_text(one) for one in BESIDE_NAME if not one.is_private})
class PersonChange(Part):
    """The `payload` of a change of the kind `person`: a person who appears in play."""

    number: Annotated[int, Field(ge=FIRST_NUMBER_IN_PLAY, le=MOST_MEMBERS)]
    name: Annotated[Name, Field(min_length=1)]


class ResultEntry(Part):
    """A late result that an attempt asked for. A run may have taken it already."""

    job_kind: Annotated[Term, Field(max_length=40)]
    turn: Number
    attempt: Number = Field(description="The place of the attempt that asked.")
    kind: Term = Field(description="The kind of the change that it becomes.")
    payload: Payload | None = Field(description="Null if there is none and never will be.")


Changes = Annotated[list[ChangeEntry], Field(max_length=MAX_CHANGES_OF_AN_ATTEMPT, fail_fast=True)]


class AttemptEntry(Part):
    """A committed attempt at a turn."""

    kind: Literal["prompt", "reroll", "trial", "edit"]
    source: Number | None = Field(
        description="The place of the attempt that an edit or a trial was made from."
    )
    actor: Slot | None = Field(description="Null where nobody of the cast acts.")
    agent: AgentName = Field(default=DEFAULT_AGENT, description="The agent who wrote it.")
    words: Words
    given: Payload | None = Field(description="What the prompt carried beside its words.")
    changed_layer: Payload | None = Field(None, description="Of a trial, what it changed.")
    came_with_starter: bool = Field(False, description="Whether people wrote it for a starter.")
    witnesses: Witnesses | None
    ended_before: Name = Field(
        "", description="The member of the cast as whom the model went on; the reply ends before."
    )
    was_cut: bool = Field(False, description="Whether the output limit ended the reply.")
    submitted_at: Time
    committed_at: Time
    events: Annotated[list[EventEntry], Field(max_length=MAX_EVENTS_OF_AN_ATTEMPT, fail_fast=True)]
    changes: Changes = []


class TurnEntry(Part):
    number: Number
    chosen: Number = Field(description="The place of the attempt that the story goes by.")
    attempts: Annotated[
        list[AttemptEntry],
        Field(min_length=1, max_length=MAX_ATTEMPTS_OF_A_TURN, fail_fast=True),
    ]


class MemoryBlockEntry(Part):
    type: Term
    from_prompt_index: Number
    to_prompt_index: Number
    json_payload: Payload
    created_at: Time
    came_with_starter: bool = Field(False, description="Whether people wrote it for a starter.")
    audience: Audience
    attempt: _Place


class SceneEntry(Part):
    """A scene of a draft: the prompts that it tells, and where its text begins."""

    first_prompt: Number
    last_prompt: Number
    target_words: Annotated[int, Field(ge=1, le=MAX_TARGET_WORDS)]
    start: Number = Field(description="A place in chapter_text, the first character being 0.")


class KeptReceiptEntry(Part):
    """The receipt of a paragraph that the user left as it was."""

    paragraph: Annotated[int, Field(ge=1)] = Field(description="The first paragraph being 1.")
    prompts: Annotated[list[Number], Field(max_length=_MAX_PROMPTS_OF_A_PARAGRAPH)]
    confidence: Literal["certain", "likely", "unsure", "invented"]


class DraftEntry(Part):
    narrative_agent_definition_text: NarratorText
    target_words: TargetWords
    source_snapshot: SourceSnapshot
    chapter_text: ModelText
    created_at: Time
    attempt: _Place
    scenes: list[SceneEntry] = Field([], description="Empty where they are not recorded.")
    origin: Number | None = Field(
        None, description="The place of the draft from which it was made, the first 0."
    )
    is_edited: bool = Field(False, description="Whether the user edited it.")
    kept_receipts: list[KeptReceiptEntry] = Field(
        [], description="Of an edited draft, those of paragraphs that stayed as they were."
    )

    @model_validator(mode="before")
    @classmethod
    def _keep_starts(cls, draft: Any) -> Any:
        """Let each scene begin at the same words if the text gets shorter as it is tidied."""
        text = draft.get("chapter_text") if isinstance(draft, dict) else None
        removed = removed_by_tidying(text) if isinstance(text, str) else []
        if not (removed and isinstance(scenes := draft.get("scenes"), list)):
            return draft
        moved = [
            one | {"start": one["start"] - bisect_left(removed, one["start"])}
            if isinstance(one, dict) and type(one.get("start")) is int
            else one
            for one in scenes
        ]
        return draft | {"scenes": moved}


class WorkingCopyEntry(Part):
    draft: Number = Field(description="The place of the draft that is being edited.")
    text: DraftText
    saved_at: Time


class ChosenDraftEntry(Part):
    draft: Number = Field(description="The place of the draft.")
    chosen_at: Time


class UnansweredEntry(Part):
    """An attempt that was not committed."""

    kind: Literal["prompt", "reroll", "trial"]
    source: Number | None = Field(
        None, description="The place of the attempt that a trial was made from."
    )
    status: Literal["failed", "stopped", "set_aside"]
    turn: Number | None = Field(description="The turn of a re-roll or a trial.")
    actor: Slot | None = Field(description="Null where nobody of the cast acts.")
    agent: AgentName = Field(default=DEFAULT_AGENT, description="The agent who was to write it.")
    words: Words
    given: Payload | None = Field(None, description="What the prompt carried beside its words.")
    changed_layer: Payload | None = Field(None, description="Of a trial, what it changed.")
    witnesses: Witnesses | None
    partial_text: ModelText
    kept_setup: Payload | None = Field(
        None, description="Fields of the mode's `setup` as they were when the reply began."
    )
    changes: Changes = []
    error: ErrorText
    submitted_at: Time


class Chapter(Part):
    title: Title
    state: Literal["DRAFT_TAB1", "ACTIVE", "ENDED"]
    created_at: Time
    last_played_at: Time
    next_agent_slot: Slot
    prompt_index: Number
    last_summarized_prompt_index: Number
    narrative_agent_definition_text: NarratorText
    target_words: TargetWords
    mode: str
    mode_content: dict[str, Payload] = Field(
        description="What the mode adds: its `setup` on Tab 1, and what it `handed_on` from the "
        "chapter before."
    )
    starter: Annotated[Term, Field(max_length=STARTER_CHAR_LIMIT)] = Field(
        "", description="The starter that it was made from; empty for any other chapter."
    )
    chunk_size_prompts: Annotated[int, Field(ge=MIN_CHUNK_SIZE_PROMPTS, le=MAX_CHUNK_SIZE_PROMPTS)]
    reply_length: Literal["short", "normal", "long"] = Field(
        "normal", description="How long the characters' replies should be."
    )
    language: LanguageTag = Field("", description="The language that the user has set for it.")
    found_language: LanguageTag = Field("", description="The language that was found in play.")
    tab1: Tab1
    cast: Annotated[
        list[CastEntry],
        Field(min_length=1, max_length=MAX_AGENTS + MAX_PEOPLE, fail_fast=True),
    ]
    seed: Seed | None = Field(None, description="What chance is drawn from.")
    turns: Annotated[list[TurnEntry], *at_most("turns")]
    results: Annotated[list[ResultEntry], *at_most("results")] = []
    memory_blocks: Annotated[list[MemoryBlockEntry], *at_most("memory_blocks")]
    narrative_drafts: Annotated[list[DraftEntry], *at_most("narrative_drafts")]
    chosen_draft: ChosenDraftEntry | None = Field(
        None, description="Null while the chapter goes into its story by its newest draft."
    )
    working_copies: Annotated[list[WorkingCopyEntry], *at_most("narrative_drafts")] = []
    unanswered_attempts: Annotated[list[UnansweredEntry], *at_most("unanswered_attempts")]

    @cached_property
    def selected_agent_slots(self) -> list[int]:
        return sorted(one.slot for one in self.cast if one.slot and one.is_selected)

    @cached_property
    def everybodys_numbers(self) -> list[int]:
        """The numbers of everybody on Tab 1. Lists of witnesses use these numbers."""
        people = sum(one.slot is None for one in self.cast)
        return [*self.selected_agent_slots, *range(MAX_AGENTS + 1, MAX_AGENTS + 1 + people)]

    @cached_property
    def members(self) -> frozenset[int]:
        """The numbers of the whole cast, and of all people who appear in any attempt."""
        attempts = [one for turn in self.turns for one in turn.attempts]
        lists = [one.changes for one in attempts] + [
            one.changes for one in self.unanswered_attempts
        ]
        changes = chain.from_iterable(lists)
        people = {one.payload["number"] for one in changes if one.kind == PERSON}
        return frozenset({*self.everybodys_numbers, *people})


class ChapterFile(File):
    format: Literal["storyengine-chapter"]
    version: Literal[2]
    exported_at: Time
    chapter: Chapter


# The keys that messages about a file may repeat. Any other word of a file could be a word of a
# story.
KNOWN_KEYS = keys_of(
    *(ChapterFile, Chapter, Tab1, CastEntry, TurnEntry, AttemptEntry, EventEntry),
    *(
        ChangeEntry,
        PersonChange,
        ResultEntry,
        UnansweredEntry,
        MemoryBlockEntry,
        DraftEntry,
        SceneEntry,
        KeptReceiptEntry,
        WorkingCopyEntry,
        ChosenDraftEntry,
        SourceSnapshot,
        TrialChange,
    ),
)
