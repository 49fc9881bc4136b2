"""What a character would be sent now, without sending it: nothing is stored and nothing spent."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from agents.budget import input_budget, output_limit, read_weight_per_token
from agents.call_records import CallRecord, shared_with_call_before
from agents.calls import fit_prompt
from agents.characters import agent_of, compose_reply
from agents.exceptions import PromptTooLong
from agents.layers import AssembledPrompt, Layer, assemble
from agents.model_access import known_facts, model_name
from agents.prompt_parts import PromptPart, characters_of, split_prompt
from sessions.exceptions import InvalidInput
from sessions.limits import PROMPT_CHAR_LIMIT
from sessions.models import Session, Turn
from sessions.text import clean_text

# Tokens that no prompt has: with so many, nothing of it is trimmed.
_ROOM_FOR_ALL = 10**9


@dataclass(frozen=True)
class DryRun:
    """A prompt that could be sent now; `too_long` says why it could not be."""

    model: str
    budget_tokens: int
    parts: list[PromptPart]
    characters: int
    too_long: str
    # None where this character was not called before.
    shared: int | None
    previous: CallRecord | None

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def look_ahead(chapter: Session, *, agent_slot: int, user_text: str) -> DryRun:
    """The prompt that these words would make; neither consent nor rate nor budget is asked.

    One that cannot fit comes untrimmed, with the reason. Raises InvalidInput for a slot that is
    not in the chapter and for words that could not be sent.
    """
    if agent_slot not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {agent_slot} in this chapter. Nothing was sent.")
    text = clean_text(user_text, limit=PROMPT_CHAR_LIMIT, label="The prompt")
    turn = Turn(session=chapter, agent_slot=agent_slot, user_text=text)
    agent, facts = agent_of(turn), known_facts(agent_slot)
    model = model_name(agent_slot)
    layers = compose_reply(turn)
    too_long = ""
    try:
        prompt = fit_prompt(agent, facts, lambda: layers)
    except PromptTooLong as error:
        prompt, too_long = _untrimmed(layers, agent_slot), str(error)
    messages = [asdict(message) for message in prompt.messages]
    shared, previous = shared_with_call_before(chapter, agent_slot, messages)
    return DryRun(
        model=model,
        budget_tokens=input_budget(facts, output_limit(agent, facts)),
        parts=split_prompt(messages, [asdict(record) for record in prompt.records]),
        characters=characters_of(messages),
        too_long=too_long,
        shared=shared,
        previous=previous,
    )


def _untrimmed(layers: Sequence[Layer], agent_slot: int) -> AssembledPrompt:
    return assemble(
        layers,
        budget_tokens=_ROOM_FOR_ALL,
        weight_per_token=read_weight_per_token(model_name(agent_slot), agent_slot),
    )
