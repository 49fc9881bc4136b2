"""The model calls of a chapter, with the layers of their requests and the tokens that they used."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from agents.calling.records.call_records import CallRecord, SentPrompt, read_recent_calls
from agents.calling.records.usage import inherited_usage, total_of, usage_by_agent
from agents.calling.spending import uncapped_models
from agents.exceptions import ModelNotReady
from agents.flows.replies.dry_run import look_ahead
from agents.flows.telling.estimates import estimate_build
from agents.modes.registry import agents_in
from sessions.chapter.access import get_chapter
from sessions.exceptions import WrongState
from storyengine.api.bodies import PromptBody
from storyengine.api.documents import CallsEstimateDocument, Document
from storyengine.api.problems import READ, WRITE, refusals

router = Router(tags=["Model calls"])

_RECORD = (
    "A line for each text that the layer could have, such as an entry of a lorebook: whether it is "
    "in the prompt, and why."
)


class LayerDocument(Document):
    """A layer of a request as it was sent, and how many of its pieces were kept, shortened or
    dropped."""

    name: str
    tokens: int = Field(0, description="Estimated.")
    kept: int = 0
    shortened: int = 0
    dropped: int = 0
    reason: str = Field("", description="Why it was trimmed, if it was.")
    characters: int = Field(0, description="Its size in the prompt.")
    left_out: list[str] = Field(
        [],
        description="What of memory and of the transcript it left out, by block and by place in "
        "the block, such as `Prompts 1-7: event 1, deed 2`.",
    )
    record: list[str] = Field([], description=_RECORD)


class CallFigures(Document):
    """The figures of a call: its outcome, its duration, its tokens and its price."""

    call_id: UUID
    model: str
    outcome: Literal["finished", "stopped", "failed", "warm-up"]
    input_tokens: int | None = Field(description="As reported; null when it was not.")
    cached_tokens: int | None = Field(description="Those of them that a cache had.")
    output_tokens: int | None
    first_token_ms: int | None
    duration_ms: int


class CallDocument(CallFigures):
    max_output_tokens: int | None = Field(
        description="The output limit as it was sent; null if the server takes none."
    )
    temperature: float | None = Field(description="Null when none was sent.")
    top_p: float | None = Field(description="Null when none was sent.")
    stop: list[str] = Field(description="The stop sequences that were sent.")
    turn_id: UUID | None = Field(description="The same as `attempt_id`.")
    attempt_id: UUID | None = Field(
        description="The attempt it was made for, of a character's reply."
    )
    prompt_index: int | None = Field(description="The number of that attempt's turn.")
    job_id: UUID | None = Field(description="The job it was made for, of agents 0, 8 and 9.")
    agent_id: int | None = Field(description="Null for an agent without a number.")
    agent: str
    provider: str
    error: str = Field(description="Why the call failed, or empty.")
    server_said: str = Field(
        description="What the server or the model itself said of the failure, at most about 300 "
        "characters. No other message has its words."
    )
    taken_off: str = Field(
        description="What was taken off the answer: hidden reasoning, and marks of templates."
    )
    told_too_few: int = Field(
        description="The tokens that the server says it read, if the request must have more: it "
        "left out a part, or counts only what is new to it. Otherwise 0."
    )
    estimated_tokens: int = Field(description="Of the prompt, before it was sent.")
    layers: list[LayerDocument]
    prompt_characters: int
    shared_characters: int | None = Field(
        description="How many characters of the prompt's start this agent's call before it began "
        "with too; null for its first call."
    )
    reply_characters: int
    created_at: datetime


class UsageDocument(Document):
    """The number of calls, all together and by outcome, and the tokens that the provider reported
    for them."""

    calls: int
    finished: int
    stopped: int
    failed: int
    warm_ups: int
    input_tokens: int
    cached_tokens: int = Field(description="Part of `input_tokens`.")
    output_tokens: int
    estimated_input_tokens: int = Field(
        description="Of calls that may have cost something and for which no tokens were reported. "
        "Caps count them too."
    )
    estimated_output_tokens: int = Field(description="The same, without hidden reasoning.")


class AgentUsageDocument(Document):
    agent_id: int | None = Field(
        description="Null for an agent without a number, and for what a fork has inherited."
    )
    agent: str
    model: str
    usage: UsageDocument


class CallList(Document):
    count: int = Field(description="The exact number of all calls of the chapter.")
    items: list[CallDocument] = Field(description="The newest first.")
    usage: UsageDocument = Field(description="Of all calls of the chapter.")
    usage_by_agent: list[AgentUsageDocument]
    inherited_usage: UsageDocument = Field(
        description="Of a fork, the tokens that its origin had used by then. Caps count them too."
    )
    uncapped_models: list[str] = Field(
        description="Models without a known price, whose calls the cap in dollars cannot stop; "
        "empty where there is no such cap, and where one in tokens is set."
    )


@router.get("/session/{uuid:session_id}/calls", response={200: CallList, **READ, **refusals(422)})
def list_calls(
    request: HttpRequest,
    session_id: UUID,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> CallList:
    """Return the chapter's model calls, newest first, and the usage of each agent and model."""
    chapter = get_chapter(session_id)
    rows = usage_by_agent(chapter)
    total = total_of(row.usage for row in rows)
    return CallList(
        count=total.calls,
        items=list(_documents(read_recent_calls(chapter, limit=limit, offset=offset))),
        usage=total,
        usage_by_agent=rows,
        inherited_usage=total_of(row.usage for row in inherited_usage(chapter)),
        uncapped_models=uncapped_models(agents_in(chapter)),
    )


class DryRunLayerDocument(Document):
    """A layer with its text, and how many of its pieces would be kept, shortened or dropped."""

    name: str
    role: str
    tokens: int = Field(description="Estimated.")
    kept: int
    shortened: int
    dropped: int
    reason: str = Field(description="Why it would be trimmed, if it would be.")
    left_out: list[str] = Field(
        description="What of memory and of the transcript it would leave out, by block and place."
    )
    record: list[str] = Field(description=_RECORD)
    text: str


class DryRunDocument(Document):
    """The request that a character would be sent now."""

    model: str
    budget_tokens: int = Field(description="Room for a prompt.")
    tokens: int = Field(description="Of the prompt, estimated.")
    output_limit: int = Field(
        description="How many tokens the model may write, hidden reasoning included."
    )
    dollars: Decimal | None = Field(
        description="For reading the prompt, at list prices and without a cache; null where the "
        "model's price is not known."
    )
    most_dollars: Decimal | None = Field(description="The same with the longest reply.")
    too_long: str = Field(
        description="Why it could not be sent, if it could not; the layers are untrimmed then."
    )
    characters: int
    shared_characters: int | None = Field(
        description="How many characters of the prompt's start this agent's latest call began "
        "with too; null where there is none."
    )
    layers: list[DryRunLayerDocument]


@router.post("/session/{uuid:session_id}/dry-run", response={200: DryRunDocument, **WRITE})
def make_dry_run(request: HttpRequest, session_id: UUID, body: PromptBody) -> DryRunDocument:
    """Return the request that this prompt would cause, layer by layer. Nothing is sent, stored or
    spent."""
    run = look_ahead(get_chapter(session_id), **body.model_dump())
    return DryRunDocument.model_validate(run)


@router.get(
    "/session/{uuid:session_id}/build-estimate",
    response={200: CallsEstimateDocument, **READ, **refusals(409, 422)},
)
def get_build_estimate(request: HttpRequest, session_id: UUID) -> CallsEstimateDocument:
    """Estimate the model calls for the narrative of an ended chapter, on the assumption that no
    scene comes out too short.

    Each model call writes one scene. For the estimate itself, no model is called.
    """
    try:
        estimate = estimate_build(get_chapter(session_id))
    except ModelNotReady as error:
        raise WrongState(str(error)) from error
    return CallsEstimateDocument.model_validate(estimate)


def figures_of(call: CallRecord) -> dict[str, Any]:
    """Return the values of this call for the fields of `CallFigures`."""
    one, tokens = call.artifact, call.tokens
    return {
        "call_id": one.pk,
        "model": one.model,
        "outcome": call.outcome.value,
        **{f"{way}_tokens": tokens.get(way) for way in ("input", "cached", "output")},
        "first_token_ms": one.first_token_ms,
        "duration_ms": one.duration_ms,
    }


def _documents(calls: Iterable[tuple[CallRecord, SentPrompt]]) -> Iterable[CallDocument]:
    for call, prompt in calls:
        one = call.artifact
        yield CallDocument(
            **figures_of(call),
            max_output_tokens=one.sent_options.get("max_output_tokens"),
            temperature=one.sent_options.get("temperature"),
            top_p=one.sent_options.get("top_p"),
            stop=one.sent_options.get("stop", []),
            turn_id=one.attempt_id,
            attempt_id=one.attempt_id,
            prompt_index=one.attempt.turn.number if one.attempt and one.attempt.turn else None,
            job_id=one.job_id,
            agent_id=one.agent_id,
            agent=call.agent,
            provider=one.provider,
            error=one.error,
            server_said=one.server_said,
            taken_off=one.taken_off,
            told_too_few=call.told_too_few,
            estimated_tokens=call.estimated_tokens,
            layers=prompt.layers,
            prompt_characters=prompt.characters,
            shared_characters=prompt.shared_characters,
            reply_characters=len(one.raw_output_ref),
            created_at=one.created_at,
        )
