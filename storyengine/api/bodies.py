"""The bodies that a client may send. Values must have exactly the declared type, and unknown fields
are refused.

Other modules check the length of a text. They count a line break as one character, whichever
characters the client sends for it.
"""

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from sessions.models import DEFAULT_MODE
from sessions.payloads import with_fields
from sessions.roster import CAST_TEXTS, CastText


class Body(BaseModel):
    """The base class of all bodies. It refuses unknown fields, because otherwise the text in a
    misspelt field would be lost without an error."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewChapterBody(Body):
    title: str = Field("", description="At most 120 characters; a default when empty.")
    mode: str = Field(DEFAULT_MODE, description="The name of the way to play.")
    starter: str = Field(
        "",
        description="The name of a starter, from `GET /api/starters`. The chapter is then in play "
        "after the starter's prompts, and no model is called.",
    )
    change_first: bool = Field(
        False, description="With a starter: fill Tab 1 with its texts, and leave it open."
    )


class ChapterBody(Body):
    """What to change. A field that is missing or null is not changed; at least one is needed."""

    title: str | None = Field(None, description="At most 120 characters, not empty.")
    reply_length: Literal["short", "normal", "long"] | None = Field(
        None, description="How long the characters' replies should be, from the next one on."
    )
    language: str | None = Field(
        None,
        description="The tag (BCP 47) of the language that the story is told in, such as ar or "
        "pt-BR; empty, the language that is found in play counts.",
    )


def _by_slot(one: CastText) -> tuple[Any, Any]:
    described = f"{one.label}, by slot; at most {one.limit:,} characters each."
    return dict[str, str] | None, Field(None, description=described, examples=[{"1": one.hint}])


@with_fields({one.api_name: _by_slot(one) for one in CAST_TEXTS})
class Tab1Body(Body):
    """The fields of Tab 1 to change. A field that is missing or null is not changed. A slot that is
    not named keeps its text, and an empty name means the default."""

    world_text: str | None = Field(None, description="At most 5,000 characters.")
    chapter_text: str | None = Field(None, description="At most 5,000 characters.")
    selected_agent_slots: list[int] | None = Field(
        None, description="1 to n without a gap, n from 1 to 7.", examples=[[1, 2, 3]]
    )
    agent_persons_before: dict[str, int | None] | None = Field(
        None,
        description="Slot to the number of the same person in the chapter before, whose memory the "
        "agent has; null for somebody new.",
        examples=[{"1": 2, "3": None}],
    )
    chunk_size_prompts: int | None = Field(
        None, description="How many prompts a summary covers, 3 to 20. Fewer take more calls."
    )
    setup: dict[str, Any] | None = Field(
        None,
        description="Fields that the way to play adds to Tab 1. A field that is not named stays as "
        "it is. Those that the way to play leaves open can be changed in play too.",
        examples=[{"note": {"text": "The fog never lifts.", "depth": 4, "role": "user"}}],
    )


_WITNESSES = (
    "The slots of those who can perceive it; left out: everybody. The one addressed always can."
)
_GIVEN = "What the way to play lets a prompt carry beside its words, as its own model has it."


class PromptBody(Body):
    agent_slot: int | None = Field(
        None, description="The character that answers; null where the way to play has none."
    )
    user_text: str = Field(
        description="What happens; 1 to 5,000 characters, or none where the way to play goes on "
        "without."
    )
    witnesses: list[int] | None = Field(None, description=_WITNESSES)
    given: dict[str, Any] | None = Field(None, description=_GIVEN)


class RerollBody(Body):
    """Another attempt at the latest turn. A field that is left out gets its value from the chosen
    attempt."""

    number: int | None = Field(
        None, description="The turn that is meant: 409 if play has gone on beyond it."
    )
    agent_slot: int | None = Field(None, description="The character that answers.")
    user_text: str | None = Field(
        None,
        description="What happens; at most 5,000 characters. Some ways to play also take none.",
    )
    witnesses: list[int] | Literal["everybody"] | None = Field(
        None,
        description="The slots of those who can perceive it, or `everybody`. The one addressed "
        "always can.",
    )
    given: dict[str, Any] | None = Field(None, description=_GIVEN)


class ActBody(Body):
    act: str = Field(description="The name of an act of the chapter's way to play.")
    arguments: dict[str, Any] = Field({}, description="As that act declares them.")


class ChooseBody(Body):
    attempt_id: UUID = Field(strict=False)


class EditBody(Body):
    text: str = Field(
        description="The reply as it is to read; 1 to 1,000,000 characters, in a body of at most "
        "1,000,000 bytes."
    )


class ForkBody(Body):
    number: int = Field(description="The last turn that the fork has.")


class CallsBody(Body):
    """The GM's consent to the model calls that memory needs. The whole body may be left out."""

    accept_calls: bool = Field(
        False,
        description="Whether as many model calls are accepted as a refusal with `calls` names.",
    )


class TrialBody(Body):
    layer: int = Field(description="The number of the layer, as `GET …/trial` gives it.")
    text: str = Field(
        description="Its text in the trial; empty leaves the layer out. At most 60,000 characters, "
        "or as many as it was sent with."
    )
    call_id: str = Field(
        "", description="Of `GET …/trial`: refused when the reply comes from another call by now."
    )


class NarrativeAgentBody(Body):
    """The settings of the narrator to change. A field that is missing or null is not changed."""

    narrative_agent_definition_text: str | None = Field(
        None, description="Instructions to the narrator; at most 5,000 characters."
    )
    target_words: int | None = Field(None, description="Length of the chapter, 100 to 5,000 words.")


_READERS = (
    "The slots of those who are told; left out: those who knew what it settles, else everybody."
)


class CorrectionBody(Body):
    """A ruling about a fact. At least one of `canon` and `replaces` must have text."""

    canon: str = Field("", description="What is true now; at most 1,000 characters.")
    replaces: str = Field(
        "",
        description="What is no longer true, as an item of `GET …/now` words it in `replaces`; "
        "at most 1,000 characters.",
    )
    reason: str = Field("", description="Why; at most 1,000 characters.")
    readers: list[int] | None = Field(None, description=_READERS)


class AnswerBody(Body):
    question: str = Field(description="The text of an item of the section `questions`.")
    answer: Literal["keep", "take_new", "ignore"] = Field(
        description="Keep the old canon, take the new, or let it be."
    )
    old: str = Field("", description="The old canon; at most 1,000 characters.")
    new: str = Field("", description="The new, needed for `take_new`; at most 1,000 characters.")
    reason: str = Field("", description="Why; at most 1,000 characters.")
    readers: list[int] | None = Field(None, description=_READERS)


class ConsentBody(Body):
    host: str = Field(description="The host as a refusal or `GET /api/consent` names it.")
    allowed: bool
