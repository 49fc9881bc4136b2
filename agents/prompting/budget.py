"""Estimates the tokens of a text without a tokenizer. The estimates of a model's tokens are
corrected by the numbers of tokens that its server reports."""

import math
import time

from django.db.models import F, Sum

from agents.llm.facts.model_facts import ModelFacts
from agents.llm.providers.base import Usage
from agents.models import TokenCalibration
from agents.prompting.agent import Agent

# The weight per token that is assumed until a model reports its use of tokens. The number is low,
# because the first estimates of tokens should be too high rather than too low.
DEFAULT_WEIGHT_PER_TOKEN = 3.0
# The tokens of the role markers and separators that a chat template adds to each message.
TOKENS_PER_MESSAGE = 8
# Each new report multiplies the influence of older reports by this number. So a few calls are
# enough to correct the estimate.
_KEPT = 0.75
# A report of fewer tokens than this fraction of the estimate is doubtful: many servers count only
# the text that they have not read before. If _ENOUGH_DOUBTFUL doubtful reports in a row agree
# within the fraction _AGREE, they are believed, because then the texts have changed.
_DOUBTFUL, _AGREE, _ENOUGH_DOUBTFUL = 0.8, 0.1, 3
# No text has a higher weight per token. A server whose report would mean a higher weight has not
# counted all tokens.
_MOST_WEIGHT_PER_TOKEN = 12.0
# A server that cuts a request to its window reports about as many tokens as the window has. A
# window is a power of two from this one on.
_LEAST_WINDOW, _NEAR_WINDOW, _CUT = 2_048, 0.01, 0.95
# A report within this fraction of the known weight per token is not stored.
_SAME = 0.01
# The weight per token for each model and agent, with the time in seconds when this process computed
# or read it.
_weight_per_token: dict[tuple[str, str], tuple[float, float]] = {}
# The weights per token of the latest doubtful reports.
_doubted: dict[tuple[str, str], list[float]] = {}
# A process uses the number that it has for this many seconds, although other processes may have
# stored a newer one. The shorter time applies at the end of a reply, so that a newer number is read
# before the next prompt comes.
_HELD_SECONDS = 600.0
FRESH_SECONDS = 60.0


def read_weight_per_token(model: str, agent: str, *, held_seconds: float = _HELD_SECONDS) -> float:
    """Return the weight per token of this agent's requests to this model.

    Before the agent's first call, the result is the weight per token of all agents' requests. A
    number that this process computed or read within the last `held_seconds` is used again.
    """
    known = _held(model, agent, held_seconds)
    if known is None:
        known = _read_weight_per_token(model, agent)
        _hold(model, agent, known)
    return min(max(known, 1.0), 6.0)


def calibrate(model: str, agent: str, weight: float, usage: Usage) -> None:
    """Correct the weight per token by the number of input tokens that a server reported for a
    request of this weight.

    A report of too few tokens changes nothing, because a request that was estimated by it would be
    longer than the window. A report of far more tokens than expected counts alone.
    """
    tokens = usage.input_tokens
    if tokens <= 0 or weight <= 0 or weight > tokens * _MOST_WEIGHT_PER_TOKEN:
        return
    held = _held(model, agent, FRESH_SECONDS)
    if held is not None and abs(weight / tokens - held) < held * _SAME:
        _doubted.pop((model, agent), None)
        return
    expected = weight / _read_weight_per_token(model, agent)
    row = TokenCalibration.objects.filter(model=model, agent=agent).first()
    own = row.weight / row.tokens if row and row.tokens else math.inf
    is_sound = own <= _MOST_WEIGHT_PER_TOKEN
    if was_cut(tokens, expected) or (is_sound and _is_doubtful(model, agent, weight / tokens, own)):
        return
    row = row or TokenCalibration(model=model, agent=agent)
    kept = _KEPT if is_sound and _DOUBTFUL <= own * tokens / weight <= 1 / _DOUBTFUL else 0
    row.weight = row.weight * kept + weight
    row.tokens = row.tokens * kept + tokens
    # Another process may have stored the first row of this agent meanwhile.
    TokenCalibration.objects.update_or_create(
        model=model, agent=agent, defaults={"weight": row.weight, "tokens": row.tokens}
    )
    _hold(model, agent, row.weight / row.tokens)


def was_cut(tokens: int, expected: float) -> bool:
    """Return whether a server that reports these tokens has probably cut the request to its window,
    because the window has about as many tokens and the request was expected to have more."""
    if tokens < _LEAST_WINDOW * (1 - _NEAR_WINDOW) or tokens > expected * _CUT:
        return False
    window: int = 2 ** round(math.log2(tokens))
    return abs(tokens - window) <= window * _NEAR_WINDOW


def _is_doubtful(model: str, agent: str, reported: float, known: float) -> bool:
    """Return whether a report has far fewer tokens than the agent's weight per token lets expect,
    and the reports before it do not agree with it."""
    if known >= reported * _DOUBTFUL:
        _doubted.pop((model, agent), None)
        return False
    before = _doubted.pop((model, agent), [])
    agreeing = [one for one in before if abs(one - reported) <= reported * _AGREE]
    if len(agreeing) + 1 < _ENOUGH_DOUBTFUL or len(agreeing) < len(before):
        _doubted[model, agent] = [*agreeing, reported]
        return True
    return False


def _read_weight_per_token(model: str, agent: str) -> float:
    calibrations = TokenCalibration.objects.filter(
        model=model, tokens__gt=0, weight__lte=F("tokens") * _MOST_WEIGHT_PER_TOKEN
    )
    own = calibrations.filter(agent=agent)
    sums = (own or calibrations).aggregate(weight=Sum("weight"), tokens=Sum("tokens"))
    return sums["weight"] / sums["tokens"] if sums["tokens"] else DEFAULT_WEIGHT_PER_TOKEN


def _held(model: str, agent: str, seconds: float) -> float | None:
    known, since = _weight_per_token.get((model, agent), (0.0, -math.inf))
    return known if time.monotonic() - since < seconds else None


def _hold(model: str, agent: str, weight_per_token: float) -> None:
    _weight_per_token[model, agent] = (weight_per_token, time.monotonic())


def output_limit(agent: Agent, facts: ModelFacts) -> int:
    """Return the limit of the tokens that the agent may write, hidden reasoning included.

    The result is at most half of the window. A limit that the chapter has set replaces the limits
    of the agent and of its kind.
    """
    wanted = agent.text_tokens + (agent.reasoning_tokens if facts.reasons else 0)
    tighter = 0
    if agent.own.output_tokens:
        tighter = wanted
    elif agent.is_character:
        tighter = round(facts.character_output * agent.length_factor)
    elif agent.is_narrator:
        tighter = facts.narrator_output
    return min(wanted, tighter or wanted, facts.max_output, facts.context_window // 2)


def input_budget(facts: ModelFacts, reserved_output: int) -> int:
    """Return the limit of tokens of a request: the model's window without the tokens reserved for
    the answer and without a margin."""
    margin = 64 + facts.context_window // 25
    return facts.context_window - reserved_output - margin


def request_budget(agent: Agent, facts: ModelFacts) -> int:
    """Return the limit of tokens of a request of this agent: the room that the window leaves, but
    at most `Agent.most_read`."""
    budget = input_budget(facts, output_limit(agent, facts))
    return min(budget, agent.most_read or budget)
