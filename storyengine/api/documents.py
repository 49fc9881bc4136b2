"""The documents in the API's answers. The specification gives the names of their fields."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agents.modes.fields import present_setup
from agents.modes.registry import find_mode
from sessions.chapter.people import followed, persons_before
from sessions.models import Attempt, Session, State
from sessions.payloads import with_fields
from sessions.roster import BESIDE_NAME


class Document(BaseModel):
    model_config = ConfigDict(from_attributes=True)


_BY_SLOT = "By slot, also of slots that are not selected now: nothing typed is lost."


_ENDED_BEFORE = (
    "The member of the cast as whom the model went on to speak, or words for somebody else, as "
    "“the Game Master”; the reply ends before that. Empty where it spoke for the actor alone."
)
_WAS_CUT = (
    "Whether the output limit ended the reply, and its continuation by one more call did not make "
    "it whole."
)
_REPLY_LENGTH = "How long the characters' replies should be."
_CAME_WITH_STARTER = "Whether it came with a starter: people wrote it, and no model was called."


@with_fields(
    {
        one.api_name: (dict[str, str], Field(description=f"{one.label}. {_BY_SLOT}"))
        for one in BESIDE_NAME
    }
)
class Tab1Texts(Document):
    world_text: str
    chapter_text: str


class Tab1Document(Tab1Texts):
    """The texts of Tab 1, in a form that a client can send back."""

    selected_agent_slots: list[int]
    agent_names: dict[str, str] = Field(
        description="Slot to the name shown, for the selected slots."
    )
    agent_persons_before: dict[str, int | None] = Field(
        description="Slot to the number of the same person in the chapter before, or null for "
        "somebody new. Empty where no chapter comes before."
    )
    chunk_size_prompts: int = Field(description="How many prompts a summary covers.")
    setup: dict[str, Any] = Field(
        description="The fields that the way to play adds to Tab 1; empty if it adds none."
    )


class EventDocument(Document):
    event_id: UUID
    session_id: UUID
    attempt_id: UUID
    prompt_index: int
    role: Literal["user", "agent", "system"]
    kind: str = Field(
        description='"said", "thought", or what a way to play calls its own. Thoughts are left out '
        "unless they are asked for."
    )
    agent_slot: int | None = Field(
        description="Who speaks: a slot, or the number of a person without a panel; null where "
        "nobody of the cast does."
    )
    text: str
    shown: Any = Field(description="A form of it that a page draws beyond its words, or null.")
    witnesses: list[int] = Field(description="The numbers of all members who could perceive it.")
    created_at: datetime


class ChangeDocument(Document):
    """A change of the world, made by an attempt or by an act of the user after the attempt."""

    is_act: bool
    kind: str
    payload: dict[str, Any]
    cause: str = Field(description="The tool, the rule or the act that it came from.")
    step: int = Field(description="The call of the model within the reply; 0 before the first.")
    after_chars: int = Field(
        description="The characters that the reply's text had at the end of this step; 0 for an "
        "act and before the first step. An edited reply has those of the reply it came from."
    )
    created_at: datetime


class MemoryBlockDocument(Document):
    block_id: UUID
    session_id: UUID
    type: str = Field(
        description="world_chapter_lock, turn_delta, canon_correction, or what a way to play calls "
        "its own."
    )
    from_prompt_index: int
    to_prompt_index: int
    audience: list[int] | None = Field(
        description="The slots of those who know it: of a delta the witnesses of all that it "
        "tells, of a correction its readers; null for everybody, as of the lock."
    )
    json_payload: dict[str, Any] = Field(
        description="Exactly what the agent returned; of a correction, what the GM ruled."
    )
    came_with_starter: bool = Field(description=_CAME_WITH_STARTER)
    created_at: datetime


class PromptRange(Document):
    """The prompts from `first` to `last`, both included. The setup has the prompts 0 to 0."""

    first: int
    last: int


class NowItemDocument(Document):
    text: str
    aside: str = Field(description="What else is known of it.")
    first: PromptRange = Field(description="The prompts that first said it.")
    latest: PromptRange = Field(description="The prompts that said it last.")
    at: list[int] = Field(
        description="The prompts within these from which it comes, as far as memory names them; "
        "empty where it names none."
    )
    replaces: str = Field(description="What a correction of it names; empty where none can be.")


class NowSectionDocument(Document):
    key: Literal[
        "canon",
        "questions",
        "open",
        "where",
        "state",
        "relationships",
        "items",
        "closed",
        "withdrawn",
        "timeline",
    ]
    title: str
    items: list[NowItemDocument]


class NowDocument(Document):
    """The present state of memory. Sections without items are left out."""

    session_id: UUID
    prompt_index: int
    last_summarized_prompt_index: int = Field(description="Memory goes as far as this prompt.")
    sections: list[NowSectionDocument]


class SourceSnapshot(Document):
    max_prompt_index_used: int
    memory_block_ids_used: list[UUID]


class NarrativeDraftDocument(Document):
    draft_id: UUID
    session_id: UUID
    job_id: UUID | None = Field(
        description="The job that wrote it; null of an imported and of an edited one."
    )
    origin_id: UUID | None = Field(
        description="The draft that was edited, or of which a scene was written again."
    )
    is_edited: bool = Field(description="Whether the user edited it.")
    attempt_id: UUID | None = Field(
        description="The attempt at the last turn that it tells; null where that is not known."
    )
    is_current: bool = Field(
        description="False where the story goes by another attempt at that turn now."
    )
    narrative_agent_definition_text: str
    target_words: int
    source_snapshot: SourceSnapshot
    chapter_text: str
    word_count: int
    created_at: datetime


AttemptKind = Literal["prompt", "reroll", "trial", "edit"]


class PendingTurn(Document):
    """The attempt in flight, or a broken attempt that can be retried, kept or set aside."""

    turn_id: UUID = Field(description="The same as `attempt_id`.")
    attempt_id: UUID
    submission_key: str = Field(description="The Idempotency-Key; send it again to retry.")
    kind: AttemptKind
    status: Literal["running", "committed", "failed", "stopped", "set_aside"]
    agent_slot: int | None = Field(description="Null where no character acts.")
    user_text: str
    witnesses: list[int] | None = Field(description="As they were sent; a retry sends them again.")
    given: dict[str, Any] | None = Field(description="What was sent beside the words.")
    partial_text: str = Field(
        description="All that the model has written so far, flushed once a second. What will be a "
        "thought is in it."
    )
    error: str
    submitted_at: datetime


class JobDocument(Document):
    """The newest job of a kind, or a late result that is void."""

    job_id: UUID
    kind: str = Field(
        description="lock, summarize, narrate, go_on, memory_result, or that of a way to play."
    )
    status: Literal["queued", "running", "done", "failed", "cancelled", "void"] = Field(
        description="void: a late result that can never be taken; `error` says why."
    )
    error: str
    refusal: str = Field(
        description="The kind of the error where the engine itself refused to call a model, as in "
        "a problem's type, such as budget-spent; empty where the model's server failed."
    )
    progress: dict[str, Any] = Field(
        description="For a narration: words, target_words, scene, scenes."
    )
    from_prompt_index: int
    to_prompt_index: int
    partial_text: str = Field(description="The text so far of a narration that is not done.")
    created_at: datetime
    updated_at: datetime


class CallsEstimateDocument(Document):
    """An estimate of model calls: their number, their tokens and their price."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = Field(description="How much hidden reasoning may come on top at most.")
    dollars: Decimal | None = Field(
        description="Without hidden reasoning; null where the model's price is not known."
    )
    reasoning_dollars: Decimal | None
    warning: str = Field(description="Which cap of the chapter the calls would pass, if any.")


class SessionSummary(Document):
    session_id: UUID
    title: str
    story_id: UUID
    place: int = Field(description="Its number in its story. A fork has the place of its origin.")
    is_chosen: bool = Field(description="Whether the story goes by it among those of its place.")
    mode: str = Field(description="The name of the way to play.")
    state: State
    prompt_index: int
    starter: str = Field(
        description="The starter that it was made from; empty for any other chapter, and once it "
        "is locked with a changed Tab 1."
    )
    created_at: datetime
    last_played_at: datetime
    origin_id: UUID | None = Field(
        description="Of a fork the chapter that it was made from; null once that is removed."
    )
    origin_title: str = Field(description="The title that this chapter had then.")
    forked_at_prompt: int = Field(
        description="Of a fork the last prompt that both have in common; 0 where it is none."
    )


class SessionList(Document):
    count: int = Field(description="The exact number of all chapters.")
    items: list[SessionSummary]


class SessionFields(SessionSummary):
    """The fields of a chapter that come from its row and its cast."""

    last_summarized_prompt_index: int
    selected_agent_slots: list[int]
    agent_names: dict[str, str] = Field(
        description="Slot to the name shown, for the selected slots."
    )
    next_agent_slot: int
    reply_length: Literal["short", "normal", "long"] = Field(description=_REPLY_LENGTH)
    tab1_locked: bool
    is_ending: bool = Field(description="End Chapter waits for the last memory.")
    narrative_agent_definition_text: str
    target_words: int


class ChapterBeforeDocument(Document):
    """What has changed in the chapter before since its memory was handed on."""

    session_id: UUID | None = Field(description="That chapter; null if it was deleted.")
    changes: list[str] = Field(description="A sentence for each change; empty if there is none.")
    can_renew: bool = Field(
        description="Whether `POST …/before/renew` can bring what is remembered up to date."
    )


class SessionDocument(SessionFields):
    """A whole chapter."""

    language: str = Field(
        description="The tag (BCP 47) of the language that the story is told in, as it was set or "
        "else found in play; empty if it is not known yet."
    )
    before: ChapterBeforeDocument | None = Field(
        description="Null for a chapter to which no memory was handed on."
    )
    calls_to_accept: int = Field(
        description="How many model calls memory is behind; it waits until they are accepted with "
        "`POST …/retry-summary` or `POST …/end`. 0 where nothing has to be accepted."
    )
    config: dict[str, int]
    tab1: Tab1Texts
    events: list[EventDocument]
    memory_blocks: list[MemoryBlockDocument]
    narrative_drafts: list[NarrativeDraftDocument]
    pending_turn: PendingTurn | None
    jobs: list[JobDocument]


class TurnAnswer(Document):
    """A committed attempt, with the events of its words and of its reply."""

    session_id: UUID
    turn_id: UUID = Field(description="The same as `attempt_id`.")
    attempt_id: UUID
    kind: AttemptKind
    prompt_index: int
    ended_before: str = Field(description=_ENDED_BEFORE)
    was_cut: bool = Field(description=_WAS_CUT)
    events: list[EventDocument]


class AttemptDocument(Document):
    attempt_id: UUID
    kind: AttemptKind
    is_chosen: bool = Field(description="Whether the story goes by this attempt.")
    status: Literal["running", "committed", "failed", "stopped", "set_aside"]
    agent_slot: int | None = Field(description="Null where no character acts.")
    came_with_starter: bool = Field(description=_CAME_WITH_STARTER)
    ended_before: str = Field(description=_ENDED_BEFORE)
    was_cut: bool = Field(description=_WAS_CUT)
    words: str
    given: dict[str, Any] | None = Field(description="What its prompt carried beside its words.")
    events: list[EventDocument] = Field(description="Empty until the attempt is committed.")
    changes: list[ChangeDocument] = Field(
        description="What it did to the world, in order; acts last. They count while it is chosen."
    )
    witnesses: list[int] | None = Field(
        description="The slots of those who can perceive it; null where everybody can. A person "
        "without a panel has a number above the slots."
    )


class ActAnswer(Document):
    """The changes that an act made to the world."""

    session_id: UUID
    prompt_index: int = Field(description="The turn that it followed, and closed.")
    changes: list[ChangeDocument]


class TurnDocument(Document):
    """A turn with all attempts at it, oldest first."""

    number: int
    attempts: list[AttemptDocument]


class NarrativeAgentDocument(Document):
    narrative_agent_definition_text: str
    target_words: int


class ConsentedHost(Document):
    host: str
    granted_at: datetime


class ConsentDocument(Document):
    provider_host: str = Field(
        description="Where texts would be sent now; empty when they stay on this machine."
    )
    provider_allowed: bool
    hosts: list[ConsentedHost]


def tab1_texts(chapter: Session) -> Tab1Texts:
    nothing = {str(slot): "" for slot in chapter.selected_agent_slots}
    return Tab1Texts.model_validate(
        {
            "world_text": chapter.tab1.world_text,
            "chapter_text": chapter.tab1.chapter_text,
            **{one.api_name: nothing | chapter.agent_texts(one.name) for one in BESIDE_NAME},
        }
    )


def tab1_document(chapter: Session) -> Tab1Document:
    before = followed(chapter)
    persons = persons_before(chapter, before) if before else {}
    return Tab1Document(
        **dict(tab1_texts(chapter)),
        selected_agent_slots=chapter.selected_agent_slots,
        agent_names=chapter.agent_names,
        agent_persons_before={str(slot): number for slot, number in persons.items()},
        chunk_size_prompts=chapter.chunk_size_prompts,
        setup=present_setup(chapter) if find_mode(chapter.mode) else chapter.tab1.mode_setup,
    )


def pending_document(attempt: Attempt) -> PendingTurn:
    return PendingTurn.model_validate(
        {
            "turn_id": attempt.pk,
            "attempt_id": attempt.pk,
            "submission_key": attempt.submission_key,
            "kind": attempt.kind,
            "status": attempt.status,
            "agent_slot": attempt.actor,
            "user_text": attempt.words,
            "witnesses": attempt.witnesses,
            "given": attempt.given,
            "partial_text": attempt.partial_text,
            "error": attempt.error,
            "submitted_at": attempt.submitted_at,
        }
    )
