"""Composes the request that a character would be sent now, without storing or sending it."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from agents.calling.model_access import AgentModel
from agents.calling.prepared_calls import fit_prompt
from agents.calling.records.call_records import CallRecord, agent_label, shared_with_latest_call
from agents.calling.tool_steps import with_tools
from agents.exceptions import PromptTooLong
from agents.flows.replies.composing import ReplyRequest, answer_to, writer_of
from agents.llm.facts.hosted_models import Price
from agents.llm.facts.prices import FREE
from agents.modes.fields import given_to_store
from agents.prompting.budget import output_limit, request_budget
from agents.prompting.fitting import AssembledPrompt, assemble
from agents.prompting.layers import Layer, Tier
from agents.prompting.sent_layers import SentLayer, characters_of
from sessions.exceptions import WrongState
from sessions.language.text import clean_text
from sessions.limits import PROMPT_CHAR_LIMIT
from sessions.models import Session
from sessions.play.attempts import check_cast

# A budget in tokens that is large enough for every request without trimming.
_ROOM_FOR_ALL = 10**9


@dataclass(frozen=True)
class DryRun:
    """The request that would be sent now. If the request is too long to be sent, `too_long` says
    why.

    `output_limit` is the limit of the tokens that the model may write, hidden reasoning included.
    `price` is None if the price is not known.
    """

    agent: str
    model: str
    tier: Tier | Literal["small"]
    budget_tokens: int
    layers: Sequence[SentLayer]
    characters: int
    too_long: str
    # The number of characters at the start that this request and the agent's latest request have in
    # common. None if there was no earlier request.
    shared_characters: int | None
    previous: CallRecord | None
    output_limit: int
    price: Price | None

    @property
    def tokens(self) -> int:
        return sum(layer.tokens for layer in self.layers)

    @property
    def is_free(self) -> bool:
        return self.price == FREE

    @property
    def dollars(self) -> Decimal | None:
        """The price of the request's tokens if the server has none of them in its cache. None if
        the price is not known."""
        return None if self.price is None else self.price.of({"input": self.tokens})

    @property
    def most_dollars(self) -> Decimal | None:
        """The price if the reply is as long as the model may write. None if the price is not
        known."""
        if self.price is None:
            return None
        return self.price.of({"input": self.tokens, "output": self.output_limit})


def look_ahead(
    chapter: Session,
    *,
    agent_slot: int | None,
    user_text: str,
    witnesses: Sequence[int] | None = None,
    given: dict[str, Any] | None = None,
) -> DryRun:
    """Compose the request for these words, without checking consent, rates and budget.

    If the request cannot fit, it is returned untrimmed with the reason. Raises WrongState if the
    chapter is not in play. Raises InvalidInput for a slot that is not in the chapter, and
    InvalidInput or TooLong for words that cannot be stored.
    """
    if not chapter.is_playable:
        raise WrongState("This chapter is not in play, so no character would be sent anything.")
    text = clean_text(user_text, limit=PROMPT_CHAR_LIMIT, label="The prompt")
    attempt = answer_to(chapter, agent_slot, text)
    check_cast(chapter, attempt.actor, witnesses)
    attempt.given = given_to_store(chapter.pk, given)
    model = writer_of(attempt).as_known()
    agent, facts = model.agent, model.facts
    limit = output_limit(agent, facts)
    layers = with_tools(agent, ReplyRequest(attempt, model).layers())
    too_long = ""
    try:
        prompt = fit_prompt(model, lambda: layers)
    except PromptTooLong as error:
        prompt, too_long = _untrimmed(layers, model), str(error)
    shared, previous = shared_with_latest_call(chapter, agent, prompt.messages)
    return DryRun(
        agent=agent_label(chapter, agent.name, agent.agent_id),
        model=model.name,
        tier="small" if agent.has_small_form else facts.tier,
        budget_tokens=request_budget(agent, facts),
        layers=prompt.layers,
        characters=characters_of(prompt.messages),
        too_long=too_long,
        shared_characters=shared,
        previous=previous,
        output_limit=limit,
        price=model.price,
    )


def _untrimmed(layers: Sequence[Layer], model: AgentModel) -> AssembledPrompt:
    return assemble(
        layers,
        budget_tokens=_ROOM_FOR_ALL,
        weight_per_token=model.weight_per_token,
    )
