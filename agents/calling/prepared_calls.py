"""Composes calls of models, and fits them into the windows of their models. Nothing is sent. The
numbers of tokens that a server reports later are compared with what the call can have used."""

import hashlib
import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agents.calling.admission import Admission, Reservation
from agents.calling.consent import check_host
from agents.calling.model_access import AgentModel, provider_at
from agents.calling.servers.refused_fields import refused_fields, takes_json_object
from agents.calling.spending import check_price
from agents.llm.providers.base import ModelRequest, Provider, ToolSchema, Usage
from agents.prompting.budget import output_limit, request_budget
from agents.prompting.fitting import AssembledPrompt, assemble
from agents.prompting.forms.object_forms import form_for
from agents.prompting.layers import Layer, weigh
from agents.prompting.small_forms import SAMPLING, TOP_P

# A function that composes the layers of a request. It is called where the ORM may be used.
Compose = Callable[[], Sequence[Layer]]

# A server may add at most this many tokens to the messages, for example with its chat template or a
# date.
_ADDED_TOKENS = 1_000
# A token has at most one word of a text with blanks. So no text has fewer tokens than these
# fractions of its words and of its characters that are not ASCII.
_LEAST_OF_WORDS, _LEAST_OF_OTHERS = 0.5, 0.125
# A server may exceed its output limit by this factor and by this number of tokens. Some servers
# count the marks at the end of a reply, or check the limit only now and then.
_OVERSHOOT, _OVERSHOOT_TOKENS = 1.25, 64


@dataclass(frozen=True)
class PossibleTokens:
    """The limits of the tokens that a call used: how many it can have read and written at most, and
    how many it must have read at least. Numbers beyond these bounds cannot be true."""

    read: int
    written: int
    least_read: int = 0


@dataclass(frozen=True)
class PreparedCall:
    """A call that is composed but not sent yet."""

    model: AgentModel
    session_id: uuid.UUID
    # The function that has composed the layers. A continuation composes them again.
    compose: Compose
    provider: Provider
    request: ModelRequest
    prompt: AssembledPrompt
    possible: PossibleTokens
    # The attempt or the job that the call is made for. The record of the call names it.
    attempt_id: uuid.UUID | None = None
    job_id: uuid.UUID | None = None
    step: int = 1
    # Set by `let_through`. None for a call that is not to be sent, such as that of a dry run.
    admission: Admission | None = None

    @property
    def estimated_read(self) -> int:
        """The estimated number of tokens of the request, with its tools."""
        tokens = sum(layer.tokens for layer in self.prompt.layers)
        tokens += math.ceil(weight_of(self.request.tools) / self.model.weight_per_token)
        return min(tokens, self.possible.read)

    @property
    def reservation(self) -> Reservation:
        limit = self.request.max_output_tokens
        return Reservation(self.provider.name, self.request.model, self.estimated_read, limit)


def prepare_call(
    model: AgentModel,
    session_id: uuid.UUID,
    compose: Compose,
    *,
    json_schema: Mapping[str, Any] | None = None,
    output_tokens: int | None = None,
    stop: Sequence[str] = (),
    grammar: str = "",
    tools: Sequence[ToolSchema] = (),
    tool_choice: Literal["", "required"] = "",
    attempt_id: uuid.UUID | None = None,
    job_id: uuid.UUID | None = None,
    step: int = 1,
) -> PreparedCall:
    """Compose a call, and fit its layers into the window of the model.

    `output_tokens` lowers the output limit of this call below the agent's own limit. `stop` has the
    words that stop a small model when it writes them, and `grammar` is that of an agent in its
    small form. `tools` are the tools for a model whose server accepts tools, and `tool_choice` says
    whether its answer must be a tool call. Raises PromptTooLong, ModelNotReady, ConsentMissing, or
    another ChapterError that `compose` raises. The caller must call `let_through` before it sends
    the call.
    """
    # The consent is checked for the host of the very provider that will be called.
    server = model.choice.server
    provider = provider_at(server)
    check_host(provider.host)
    check_price(model.choice)
    model = model.when_ready()
    agent, facts = model.agent, model.facts
    refused = refused_fields(server.address, model.name)
    limit = output_limit(agent, facts)
    prompt = fit_prompt(model, compose, beside=weight_of(tools))
    request = ModelRequest(
        model=model.name,
        messages=prompt.messages,
        max_output_tokens=limit if output_tokens is None else min(limit, output_tokens),
        json_schema=json_schema if facts.json_schema else None,
        json_object=(
            json_schema is not None and form_for(facts) == "json" and takes_json_object(refused)
        ),
        tools=tuple(tools),
        tool_choice=tool_choice,
        cache_key=hashlib.sha256(f"{session_id} {agent.label}".encode()).hexdigest()[:32],
        left_out=refused,
        **_how_to_write(model, stop, grammar),
    )
    window = facts.context_window if facts.is_window_told else None
    possible = possible_tokens(request, weight=prompt.weight, window=window)
    return PreparedCall(
        model, session_id, compose, provider, request, prompt, possible, attempt_id, job_id, step
    )


def _how_to_write(model: AgentModel, cues: Sequence[str], grammar: str) -> dict[str, Any]:
    """Return the fields of a request that say how the model writes, as far as the model takes
    them."""
    agent, facts, own = model.agent, model.facts, model.agent.own
    # The texts that the chapter has set, and for a small model the cues at which it leaves its
    # role.
    stops = [*(own.stop if facts.accepts_stop else ()), *(cues if model.is_small else ())]
    fields: dict[str, Any] = {
        "token_parameter": facts.token_parameter,
        "reasoning_effort": agent.reasoning_effort if facts.reasoning_effort else "",
        "streams": facts.streaming,
        "is_background": agent.is_background,
        "retry_waits": agent.retry_waits,
        "extra_body": {"stop": stops} if stops else {},
    }
    if agent.has_small_form:
        fields["extra_body"] |= {**SAMPLING, **({"grammar": grammar} if grammar else {})}
    if facts.accepts_temperature:
        fields["temperature"] = agent.temperature if own.temperature is None else own.temperature
        usual = TOP_P if agent.has_small_form else None
        fields["top_p"] = usual if own.top_p is None else own.top_p
    return fields


def fit_prompt(model: AgentModel, compose: Compose, *, beside: float = 0) -> AssembledPrompt:
    """Compose the request, and fit it into the window without sending it. Raises PromptTooLong if
    the request cannot fit.

    `beside` is the weight of everything that is sent outside of the messages. The weight of the
    result includes this weight.
    """
    weight_per_token = model.weight_per_token
    budget = request_budget(model.agent, model.facts)
    prompt = assemble(
        compose(),
        budget_tokens=budget - math.ceil(beside / weight_per_token),
        weight_per_token=weight_per_token,
    )
    return replace(prompt, weight=prompt.weight + beside)


def weight_of(tools: Sequence[ToolSchema]) -> float:
    return weigh(json.dumps([tool.as_sent() for tool in tools])) if tools else 0.0


def possible_tokens(request: ModelRequest, *, weight: float, window: int | None) -> PossibleTokens:
    """Return the bounds of the tokens that a call can have read and written. `weight` is the weight
    of its request.

    Each token has at least one byte, and a text has at most as many bytes as its weight. So the
    tokens have a bound even if the window is not known and `window` is None. If a server counts
    only the text that it has not read before, or counts nothing, its report is below the lower
    bound.
    """
    schema = json.dumps(request.json_schema) if request.json_schema else ""
    read = math.ceil(weight) + len(schema) + _ADDED_TOKENS
    written = int(request.max_output_tokens * _OVERSHOOT) + _OVERSHOOT_TOKENS
    most = read if window is None else min(window, read)
    return PossibleTokens(most, written, min(most, _least_read(request)))


def told_too_few(usage: Usage | None, possible: PossibleTokens) -> int:
    """Return the reported number of tokens that were read, if the request must have more tokens
    than that. Otherwise return 0."""
    if usage is None or not 0 < usage.input_tokens < possible.least_read:
        return 0
    as_least = replace(usage, input_tokens=possible.least_read)
    return usage.input_tokens if believed(as_least, possible) else 0


def _least_read(request: ModelRequest) -> int:
    words = others = 0
    for message in request.messages:
        text = message.content
        words += len(text.split())
        others += 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return int(max(words * _LEAST_OF_WORDS, others * _LEAST_OF_OTHERS))


def believed(usage: Usage | None, possible: PossibleTokens) -> Usage | None:
    """Return the report if it can be true.

    Returns None if there is no report, or if the call cannot have used so many or so few tokens. If
    only the number of cached tokens is impossible, the report is returned with 0 cached tokens.
    """
    if usage is None:
        return None
    is_read_possible = possible.least_read <= usage.input_tokens <= possible.read
    if not (is_read_possible and 0 <= usage.output_tokens <= possible.written):
        return None
    is_possible = 0 <= usage.cached_tokens <= usage.input_tokens
    return usage if is_possible else replace(usage, cached_tokens=0)
