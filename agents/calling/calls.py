"""Makes every call of a model: checks, composes and sends the call, and validates and records the
reply.

No other module calls a model.
"""

import asyncio
import hashlib
import json
import logging
import math
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from django.db import Error as DatabaseError
from django.db import transaction

from agents.calling import rates
from agents.calling.consent import check_consent, check_host
from agents.calling.model_access import facts_at, model_name, provider_at
from agents.calling.reported_usage import MostTokens, believed, most_tokens
from agents.calling.spending import check_budget, check_price
from agents.calling.stored_prompts import hash_messages, pack_layers, store_texts
from agents.facts.model_facts import ModelFacts
from agents.models import LLMArtifact
from agents.prompting.budget import (
    calibrate,
    input_budget,
    output_limit,
    read_weight_per_token,
    weigh,
)
from agents.prompting.declarations import Agent
from agents.prompting.fitting import AssembledPrompt, assemble
from agents.prompting.layers import Layer
from agents.providers import embedded
from agents.providers.base import (
    Finished,
    ModelRequest,
    Provider,
    ToolCall,
    ToolSchema,
    Usage,
)
from agents.providers.exceptions import FREE_FAILURES, EmptyReply, ProviderError
from agents.running.database import in_database, in_database_patiently
from agents.servers.choices import choice_of, refresh_choices, with_served_model
from agents.storage import describe
from sessions.access import lock_chapter
from sessions.exceptions import WrongState
from sessions.log_lines import note
from sessions.text import scrub_reply

logger = logging.getLogger(__name__)

# A function that composes the layers of a request. It is called where the ORM may be used.
Compose = Callable[[], Sequence[Layer]]
OnText = Callable[[str], None]
IsEnough = Callable[[str], bool]

# The error in the record of a call that was stopped by the GM or by the end of the program.
STOPPED = "Stopped before the end."

# The fraction by which a reply has to grow before `is_enough` is called again. If it were called
# for each piece, the time would grow with the square of the reply's length.
_GROWTH = 0.01


@dataclass(frozen=True)
class Reply:
    """The text that a model wrote. `was_cut` is True if the output limit or the caller ended it."""

    text: str
    was_cut: bool
    # The tool calls in the form of the server's protocol. None of them has been run.
    tool_calls: tuple[ToolCall, ...] = ()


Validate = Callable[[Reply], None]


@dataclass(frozen=True)
class PreparedCall:
    """A call that is composed but not sent yet."""

    agent: Agent
    session_id: uuid.UUID
    # The function that has composed the layers. A continuation composes them again.
    compose: Compose
    provider: Provider
    request: ModelRequest
    prompt: AssembledPrompt
    most: MostTokens
    # The attempt or the job for which the call is made. The record of the call names it.
    attempt_id: uuid.UUID | None = None
    job_id: uuid.UUID | None = None
    step: int = 1


@dataclass
class _Outcome:
    """The result of a call at its end, which may be an error."""

    parts: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    finished: Finished | None = None
    # The usage that the provider reported. None without a report, or if the report cannot be true.
    usage: Usage | None = None
    error: str = ""
    # The name of the error's class, which is shown only in the log.
    failure: str = ""
    started: float = field(default_factory=time.perf_counter)
    first_token_ms: int | None = None
    # True if the provider may charge for the call. It may do so even if it reported no tokens.
    may_cost: bool = True

    @property
    def text(self) -> str:
        return scrub_reply("".join(self.parts))

    @property
    def in_a_word(self) -> str:
        if not self.error:
            return "finished"
        return "stopped" if self.error == STOPPED else "failed"


async def call_model(
    agent: Agent,
    session_id: uuid.UUID,
    compose: Compose,
    *,
    json_schema: Mapping[str, Any] | None = None,
    on_text: OnText | None = None,
    is_enough: IsEnough | None = None,
    validate: Validate | None = None,
    output_tokens: int | None = None,
    job_id: uuid.UUID | None = None,
) -> Reply:
    """Check, prepare and count a call, and make it; see `let_through` and `make_call`."""
    prepare = partial(
        prepare_call,
        agent,
        session_id,
        compose,
        json_schema=json_schema,
        output_tokens=output_tokens,
        job_id=job_id,
    )
    call = await in_database(let_through, session_id, prepare)
    return await make_call(call, on_text=on_text, is_enough=is_enough, validate=validate)


def prepare_call(
    agent: Agent,
    session_id: uuid.UUID,
    compose: Compose,
    *,
    json_schema: Mapping[str, Any] | None = None,
    output_tokens: int | None = None,
    stop: Sequence[str] = (),
    tools: Sequence[ToolSchema] = (),
    tool_choice: Literal["", "required"] = "",
    attempt_id: uuid.UUID | None = None,
    job_id: uuid.UUID | None = None,
    step: int = 1,
) -> PreparedCall:
    """Compose a call, and fit its layers into the window of the agent's model.

    `output_tokens` lowers the output limit of this call below the agent's own limit. `stop` has the
    words at which a small model is stopped. `tools` are the tools for a model whose server accepts
    tools, and `tool_choice` says whether its answer must be a tool call. Raises PromptTooLong,
    ModelNotReady, ConsentMissing, or another ChapterError that `compose` raises. The caller must
    call `let_through` before it sends the call.
    """
    # The rows are read at the beginning of the call, and provider, model and facts come from one
    # choice, because another thread may change the choice at any moment. The host of the very
    # provider that is called is checked.
    refresh_choices()
    choice = choice_of(agent)
    provider = provider_at(choice.server)
    check_host(provider.host)
    check_price(choice)
    facts = facts_at(choice)
    limit = output_limit(agent, facts)
    prompt = fit_prompt(agent, facts, compose, beside=_weight_of(tools))
    request = ModelRequest(
        model=with_served_model(choice).model,
        messages=prompt.messages,
        max_output_tokens=limit if output_tokens is None else min(limit, output_tokens),
        token_parameter=facts.token_parameter,
        temperature=_temperature(agent) if facts.accepts_temperature else None,
        top_p=agent.own.top_p if facts.accepts_temperature else None,
        json_schema=json_schema if facts.json_schema else None,
        tools=tuple(tools),
        tool_choice=tool_choice,
        reasoning_effort=agent.reasoning_effort if facts.reasoning_effort else "",
        streams=facts.streaming,
        is_background=agent.is_background,
        retry_waits=agent.retry_waits,
        cache_key=hashlib.sha256(f"{session_id} {agent.label}".encode()).hexdigest()[:32],
        extra_body={"stop": stops} if (stops := _stops(agent, facts, stop)) else {},
    )
    window = facts.context_window if facts.is_window_told else None
    most = most_tokens(request, weight=prompt.weight, window=window)
    return PreparedCall(
        agent, session_id, compose, provider, request, prompt, most, attempt_id, job_id, step
    )


def _temperature(agent: Agent) -> float:
    return agent.temperature if agent.own.temperature is None else agent.own.temperature


def _stops(agent: Agent, facts: ModelFacts, cues: Sequence[str]) -> list[str]:
    """Return the texts at which the model is stopped: those that the chapter has set, and for a
    small model the cues at which it leaves its role."""
    own = agent.own.stop if facts.accepts_stop else ()
    return [*own, *(cues if facts.tier == "minimal" else ())]


def fit_prompt(
    agent: Agent, facts: ModelFacts, compose: Compose, *, beside: float = 0
) -> AssembledPrompt:
    """Compose the request, and fit it into the window without sending it. Raises PromptTooLong if
    the request cannot fit.

    `beside` is the weight of everything that is sent outside of the messages. The weight of the
    result includes this weight.
    """
    weight_per_token = read_weight_per_token(model_name(agent), agent.name)
    budget = input_budget(facts, output_limit(agent, facts))
    prompt = assemble(
        compose(),
        budget_tokens=budget - math.ceil(beside / weight_per_token),
        weight_per_token=weight_per_token,
    )
    return replace(prompt, weight=prompt.weight + beside)


async def make_call(
    call: PreparedCall,
    *,
    on_text: OnText | None = None,
    is_enough: IsEnough | None = None,
    validate: Validate | None = None,
) -> Reply:
    """Make a call that `let_through` has counted. The call's artifact is stored even if the call
    fails.

    `on_text` gets each piece of text as it arrives. `is_enough` gets the text so far, and ends the
    reply by returning True. `validate` gets the whole reply, and may raise UnusableReply. Raises
    ProviderError.
    """
    async with _recorded(call) as outcome:
        await _stream(call, outcome, on_text, is_enough)
        was_cut = outcome.finished is not None and outcome.finished.was_cut
        reply = Reply(outcome.text, was_cut, tuple(outcome.tool_calls))
        if validate is not None:
            # The check runs in a thread, so that the lease of the job can be renewed meanwhile.
            # Repairing a long malformed reply may take longer than the lease.
            await asyncio.to_thread(validate, reply)
    return reply


async def warm_model(agent: Agent, session_id: uuid.UUID, compose: Compose) -> None:
    """Let the model read the start of a request into its cache. The text that the model writes is
    dropped.

    Raises the errors of `call_model`, and WrongState if the agent's model is not the embedded one.
    """

    def prepare() -> PreparedCall:
        call = prepare_call(agent, session_id, compose, output_tokens=1)
        # The provider is asked and not the settings, because the user may have chosen a server that
        # charges for each request.
        if call.provider.name != embedded.NAME:
            raise WrongState("Only the embedded model reads ahead.")
        return call

    call = await in_database(let_through, session_id, prepare)
    async with _recorded(call) as outcome:
        # This call costs nothing, because only the embedded model is warmed up. The tokens of this
        # request are counted later, with the reply whose request begins in the same way.
        outcome.may_cost = False
        async with aclosing(call.provider.stream(call.request)) as parts:
            await anext(parts, None)
        outcome.finished = Finished()


@asynccontextmanager
async def _recorded(call: PreparedCall) -> AsyncGenerator["_Outcome"]:
    outcome = _Outcome()
    try:
        yield outcome
    except asyncio.CancelledError:
        outcome.error = STOPPED
        raise
    except ProviderError as error:
        outcome.failure = type(error).__name__
        outcome.error = str(error) or outcome.failure
        outcome.may_cost = outcome.may_cost and not isinstance(error, FREE_FAILURES)
        raise
    finally:
        if not outcome.finished and not outcome.error:
            outcome.error = "Broke off."
        reported = outcome.finished.usage if outcome.finished else None
        outcome.usage = believed(reported, call.most)
        _note(call, outcome)
        try:
            await in_database_patiently(_record, call, outcome)
        except DatabaseError as error:
            # The error is only logged, because a missing record must not make a reply fail.
            logger.warning("a model call could not be recorded: %s", describe(error))


def check_allowed(session_id: uuid.UUID, agent: Agent) -> None:
    """Raise an error if the chapter may not call the agent's model now. No call is counted here.

    Raises ConsentMissing, RateLimited or BudgetSpent.
    """
    check_consent(agent)
    check_price(choice_of(agent))
    rates.check_rate(session_id)
    check_budget(session_id)


def let_through(session_id: uuid.UUID, prepare: Callable[[], PreparedCall]) -> PreparedCall:
    """Check whether a call is allowed, prepare it, and count it.

    The call is counted last, so that a call that cannot be sent is not counted. This matters for a
    job that waits for the embedded model, because the job tries to call the model every few
    seconds. A call counts once even if its provider repeats it. A repair, a continuation, another
    try of a job and a warm-up each count as one more call. Raises RateLimited, BudgetSpent, and the
    errors of `prepare`.
    """
    refresh_choices()
    rates.check_rate(session_id)
    check_budget(session_id)
    call = prepare()
    rates.count_call(session_id)
    return call


def let_reply_through(session_id: uuid.UUID, prepare: Callable[[], PreparedCall]) -> PreparedCall:
    """Check, prepare and count the call of a reply, with fewer queries than `let_through`.

    The call counts as running until the caller calls `rates.reply_is_over`.
    """
    check_budget(session_id)
    call = prepare()
    rates.let_reply_through(session_id)
    return call


async def _stream(
    call: PreparedCall, outcome: _Outcome, on_text: OnText | None, is_enough: IsEnough | None
) -> None:
    length, ask_at = 0, 0.0
    # When a reply is stopped, the stream is closed at once, so that the server stops writing too.
    async with aclosing(call.provider.stream(call.request)) as parts:
        async for part in parts:
            if isinstance(part, Finished):
                outcome.finished = part
                continue
            if isinstance(part, ToolCall):
                outcome.tool_calls.append(part)
                continue
            if outcome.first_token_ms is None:
                outcome.first_token_ms = _milliseconds(outcome.started, time.perf_counter())
            outcome.parts.append(part.text)
            if on_text is not None:
                on_text(part.text)
            length += len(part.text)
            if is_enough is not None and length >= ask_at:
                ask_at = length * (1 + _GROWTH)
                if is_enough(outcome.text):
                    outcome.finished = Finished(was_cut=True)
                    break
    if not outcome.text.strip() and not outcome.tool_calls:
        raise EmptyReply(
            "The model returned an empty reply. Nothing was lost; try again, "
            "or choose another model."
        )


def _record(call: PreparedCall, outcome: _Outcome) -> None:
    """Store the call's artifact unless its chapter was reset meanwhile. A deleted chapter gets it
    too, because it may be brought back, and the call has cost what it cost."""
    now = time.perf_counter()
    # The texts are prepared before the transaction, so that other writers need not wait for this
    # work. A text that is already stored is not prepared. It will still be stored in the
    # transaction, because stored texts are deleted only together with their chapter.
    layers, texts = pack_layers(call.session_id, call.prompt.layers)
    input_hash = hash_messages(call.request.messages)
    with transaction.atomic():
        if call.attempt_id is not None:
            rates.write_down_reply(call.session_id)
        if not lock_chapter(call.session_id, also_deleted=True):
            return
        store_texts(texts)
        LLMArtifact.objects.create(
            session_id=call.session_id,
            attempt_id=call.attempt_id,
            job_id=call.job_id,
            step=call.step,
            agent=call.agent.name,
            agent_id=call.agent.agent_id,
            provider=call.provider.name,
            model=call.request.model,
            input_hash=input_hash,
            token_counts=_token_counts(outcome.usage),
            sent_options=_sent_options(call.request),
            **_estimated_counts(call, outcome),
            layers=layers,
            raw_output_ref=outcome.text,
            tool_calls=[one.as_sent() for one in outcome.tool_calls],
            error=outcome.error,
            first_token_ms=outcome.first_token_ms,
            duration_ms=_milliseconds(outcome.started, now),
        )
        if outcome.usage is not None:
            calibrate(call.request.model, call.agent.name, call.prompt.weight, outcome.usage)


def _sent_options(request: ModelRequest) -> dict[str, Any]:
    """Return how the model was asked to write, as far as something was said of it."""
    options = {
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": request.extra_body.get("stop"),
    }
    return {name: value for name, value in options.items() if value is not None}


def _note(call: PreparedCall, outcome: _Outcome) -> None:
    note(
        logger,
        "model call",
        agent=call.agent.label,
        model=call.request.model,
        outcome=outcome.in_a_word,
        failure=outcome.failure,
        ms=_milliseconds(outcome.started, time.perf_counter()),
        first_token_ms=outcome.first_token_ms,
        is_reply=call.attempt_id is not None,
        session_id=call.session_id,
        attempt_id=call.attempt_id,
        job_id=call.job_id,
        **_token_counts(outcome.usage),
    )


def _token_counts(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_tokens,
    }


def _estimated_counts(call: PreparedCall, outcome: _Outcome) -> dict[str, int]:
    """Return estimates for the tokens of a call without a report. Hidden reasoning is not
    estimated.

    An estimate is never above the limits, although a server that ignores its limits may send more.
    """
    if outcome.usage is not None or not outcome.may_cost:
        return {}
    weight_per_token = read_weight_per_token(call.request.model, call.agent.name)
    read = sum(layer.tokens for layer in call.prompt.layers)
    read += math.ceil(_weight_of(call.request.tools) / weight_per_token)
    written = weigh(outcome.text) + sum(weigh(one.arguments) for one in outcome.tool_calls)
    return {
        "estimated_input": min(read, call.most.read),
        "estimated_output": min(math.ceil(written / weight_per_token), call.most.written),
    }


def _weight_of(tools: Sequence[ToolSchema]) -> float:
    return weigh(json.dumps([tool.as_sent() for tool in tools])) if tools else 0.0


def _milliseconds(start: float, end: float) -> int:
    return round((end - start) * 1000)
