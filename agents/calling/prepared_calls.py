"""Composes calls of models, and fits them into the windows of their models. Nothing is sent."""

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
from agents.calling.reported_usage import PossibleTokens, possible_tokens
from agents.calling.servers.refused_fields import refused_fields, takes_json_object
from agents.calling.spending import check_price
from agents.llm.providers.base import ModelRequest, Provider, ToolSchema
from agents.prompting.budget import output_limit, request_budget
from agents.prompting.fitting import AssembledPrompt, assemble
from agents.prompting.forms.object_forms import form_for
from agents.prompting.layers import Layer
from agents.prompting.small_forms import SAMPLING, TOP_P
from agents.prompting.weighing import weigh

# A function that composes the layers of a request. It is called where the ORM may be used.
Compose = Callable[[], Sequence[Layer]]


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
    # The attempt or the job for which the call is made. The record of the call names it.
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
    words at which a small model is stopped, and `grammar` is that of an agent in its small form.
    `tools` are the tools for a model whose server accepts
    tools, and `tool_choice` says whether its answer must be a tool call. Raises PromptTooLong,
    ModelNotReady, ConsentMissing, or another ChapterError that `compose` raises. The caller must
    call `let_through` before it sends the call.
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
    agent, facts, own, stops = model.agent, model.facts, model.agent.own, _stops(model, cues)
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


def _stops(model: AgentModel, cues: Sequence[str]) -> list[str]:
    """Return the texts at which the model is stopped: the stop sequences that the chapter has set,
    and for a small model also the cues at which it leaves its role."""
    own = model.agent.own.stop if model.facts.accepts_stop else ()
    return [*own, *(cues if model.is_small else ())]


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
