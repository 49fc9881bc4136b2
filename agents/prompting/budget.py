"""How many tokens a text will cost: estimated without a tokenizer, calibrated by reported usage."""

import math
import time
from typing import TYPE_CHECKING

from django.db.models import Sum

from agents.facts.model_facts import ModelFacts
from agents.models import TokenCalibration
from agents.providers.base import Usage

if TYPE_CHECKING:
    from agents.prompting.declarations import Agent

# Weighted characters per token before a model has reported any usage: low, so that the first
# estimates are too high rather than too low.
DEFAULT_WEIGHT_PER_TOKEN = 3.0
# Role markers and separators that a chat template adds to each message.
TOKENS_PER_MESSAGE = 8
# A new report counts for a quarter, so that a few calls settle the estimate.
_KEPT = 0.75
# A report that differs by less from what is known teaches nothing that is worth a write.
_SAME = 0.01
# As this process last learned or read it, for each model and agent, and when that was.
_weight_per_token: dict[tuple[str, str], tuple[float, float]] = {}
# For so long it goes by that, though another process learns too; when a reply ends, so that the
# next prompt need not ask, for less.
_HELD_SECONDS = 600.0
_FRESH_SECONDS = 60.0


def weigh(text: str) -> float:
    """Characters, weighted by how many tokens they tend to cost: English prose counts one each."""
    if text.isascii():
        return len(text)
    plain = len(text.encode("ascii", "ignore"))
    # Beyond the basic plane a character is two units of UTF-16; counting them so is not a loop.
    rare = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
    return plain + 3 * (len(text) - plain - rare) + 8 * rare


def read_weight_per_token(model: str, agent: str, *, held_seconds: float = _HELD_SECONDS) -> float:
    """As this agent's prompts have shown; before its first call, as the other agents' have.

    What this process learned or read within `held_seconds` is not asked for again.
    """
    known = _held(model, agent, held_seconds)
    if known is None:
        known = _read_weight_per_token(model, agent)
        _hold(model, agent, known)
    return min(max(known, 1.0), 6.0)


def read_weight_ahead(model: str, agent: str) -> None:
    """Before the prompt that is to be fitted with it is there."""
    read_weight_per_token(model, agent, held_seconds=_FRESH_SECONDS)


def calibrate(model: str, agent: str, weight: float, usage: Usage) -> None:
    """Learn from the input tokens that a call reported."""
    if usage.input_tokens <= 0 or weight <= 0:
        return
    held = _held(model, agent, _FRESH_SECONDS)
    if held is not None and abs(weight / usage.input_tokens - held) < held * _SAME:
        return
    known, is_new = TokenCalibration.objects.get_or_create(
        model=model,
        agent=agent,
        defaults={"weight": weight, "tokens": usage.input_tokens},
    )
    if not is_new:
        known.weight = known.weight * _KEPT + weight
        known.tokens = known.tokens * _KEPT + usage.input_tokens
        known.save()
    _hold(model, agent, known.weight / known.tokens)


def _read_weight_per_token(model: str, agent: str) -> float:
    calibrations = TokenCalibration.objects.filter(model=model, tokens__gt=0)
    own = calibrations.filter(agent=agent)
    sums = (own or calibrations).aggregate(weight=Sum("weight"), tokens=Sum("tokens"))
    return sums["weight"] / sums["tokens"] if sums["tokens"] else DEFAULT_WEIGHT_PER_TOKEN


def _held(model: str, agent: str, seconds: float) -> float | None:
    known, since = _weight_per_token.get((model, agent), (0.0, -math.inf))
    return known if time.monotonic() - since < seconds else None


def _hold(model: str, agent: str, weight_per_token: float) -> None:
    _weight_per_token[model, agent] = (weight_per_token, time.monotonic())


def output_limit(agent: "Agent", facts: ModelFacts) -> int:
    """Tokens the agent may write, hidden reasoning included; never over half the window."""
    wanted = agent.output_tokens + (agent.reasoning_tokens if facts.reasons else 0)
    tighter = 0
    if agent.is_character:
        tighter = facts.character_output
    elif agent.is_narrator:
        tighter = facts.narrator_output
    return min(wanted, tighter or wanted, facts.max_output, facts.context_window // 2)


def input_budget(facts: ModelFacts, reserved_output: int) -> int:
    """Tokens a prompt may have: the window without the output and a safety margin."""
    margin = 64 + facts.context_window // 25
    return facts.context_window - reserved_output - margin
