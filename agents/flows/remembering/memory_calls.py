"""When memory is far behind, asks the GM to accept the calls that it needs to catch up.

Memory is far behind after an import, or after summaries that failed for a long time. When the GM
has accepted the calls, one of them is made after each prompt. The calls that are left at the end of
the chapter are made when it ends.
"""

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from django.conf import settings

from agents.calling.estimating import CallsEstimate, estimate_calls
from agents.calling.model_access import model_of
from agents.calling.prepared_calls import fit_prompt
from agents.exceptions import ModelNotReady, PromptTooLong
from agents.flows.remembering.summarizing import CHUNK, compose_summary
from agents.models import LLMArtifact
from agents.modes.declaration import Stage
from agents.modes.registry import has_stage
from agents.prompting.agent import in_chapter
from agents.prompting.budget import (
    TOKENS_PER_MESSAGE,
    input_budget,
    output_limit,
)
from agents.prompting.declarations import CONTEXT_SUMMARY
from agents.prompting.layers import weigh
from memory.blocks.stretches import (
    Audience,
    Stretch,
    audiences_of,
    calls_to_accept,
    count_calls,
    due_stretches,
    stretches_to_accept,
    told_to,
)
from sessions.exceptions import ChapterError
from sessions.models import Session
from sessions.record.chosen_events import chosen_events

# For an estimate, the transcripts of at most this many stretches are weighed. They are spread
# evenly over the missing stretches.
_SAMPLES = 5
# The calls for memory among this many latest calls give the usual duration of a call.
_CALLS_LOOKED_AT = 100
# The weight (see agents.prompting.budget) that agent 8 writes in a delta, and the weight that a
# delta adds to memory in later requests. Both numbers were measured in the long chapter of
# testing/long_memory.py.
_DELTA_WEIGHT, _GROWTH_WEIGHT = 2_100.0, 1_060.0


@dataclass(frozen=True)
class MemoryBehind:
    """The memory that is missing, and the calls that the GM has not accepted yet.

    The prompts `first` to `last` are missing in memory. `latest` is the stretch after these prompts
    if only the end of the chapter needs this stretch. `estimate` is None if the model's window is
    not known or too small. `seconds` is the usual duration of one call, or None if this model has
    made no such call lately.
    """

    first: int
    last: int
    latest: Stretch | None
    calls: int
    estimate: CallsEstimate | None
    seconds: int | None

    @property
    def sentence(self) -> str:
        said = f"Prompts {self.first:,}-{self.last:,} are not in memory yet"
        if self.latest is None:
            return f"{said}."
        first, last = self.latest.first, self.latest.last
        latest = f"{first:,}-{last:,}" if first < last else f"{last:,}"
        return f"{said}, and to end the chapter they are written down with the latest, {latest}."

    @property
    def all_seconds(self) -> int | None:
        return None if self.seconds is None else self.calls * self.seconds


class CallsNotAccepted(ChapterError):
    """Memory is far behind, and the GM has not accepted the calls that memory needs to catch up."""

    title = "Memory is far behind"

    def __init__(self, behind: MemoryBehind) -> None:
        self.behind = behind
        about = ""
        if expected := behind.estimate:
            tokens = f"{expected.about_input:,} tokens in and {expected.about_output:,} out"
            about = f" to {expected.model}, about {tokens}"
        super().__init__(
            f"{behind.sentence} That takes {behind.calls:,} calls{about}. None was made and "
            "nothing was changed: accept them first."
        )


def find_memory_behind(chapter: Session, *, is_ending: bool) -> MemoryBehind | None:
    """Return the missing memory, or None if it needs no calls that the GM has to accept."""
    stretches = stretches_to_accept(chapter, is_ending=is_ending)
    if not stretches or not has_stage(chapter.mode, Stage.MEMORY):
        return None
    try:
        estimate = _estimate(chapter, stretches)
    except (ModelNotReady, PromptTooLong):
        estimate = None
    in_play = due_stretches(chapter, is_ending=False)
    latest = None if stretches[-1] in in_play else stretches[-1]
    last = stretches[-1].last if latest is None else latest.first - 1
    calls = count_calls(chapter, stretches)
    return MemoryBehind(
        stretches[0].first, last, latest, calls, estimate, _seconds_of_a_call(chapter)
    )


def check_calls_accepted(chapter: Session, *, is_ending: bool) -> None:
    """Raise CallsNotAccepted if the GM has to accept calls before memory can be written."""
    if behind := find_memory_behind(chapter, is_ending=is_ending):
        raise CallsNotAccepted(behind)


def accept_memory_calls(chapter: Session, *, is_ending: bool) -> None:
    """Store that the GM accepts the calls that memory needs. If no calls have to be accepted,
    nothing is stored."""
    if calls := calls_to_accept(chapter, is_ending=is_ending):
        chapter.accepted_calls = calls
        Session.objects.filter(pk=chapter.pk).update(accepted_calls=calls)


def _seconds_of_a_call(chapter: Session) -> int | None:
    """Return the median duration, in seconds, of the latest calls for memory by the present model.
    Returns None if the model made no such call."""
    latest = LLMArtifact.objects.order_by("-created_at").values_list(
        "agent", "model", "error", "duration_ms"
    )[:_CALLS_LOOKED_AT]
    agent = in_chapter(CONTEXT_SUMMARY, chapter)
    alike = (agent.name, model_of(agent).name, "")
    took = [milliseconds for *kind, milliseconds in latest if tuple(kind) == alike]
    return round(statistics.median(took) / 1_000) if took else None


def _estimate(chapter: Session, stretches: list[Stretch]) -> CallsEstimate:
    """Estimate the calls from the transcripts of some stretches and from the growth of memory.

    Only the longest request is composed, because the requests differ only by their transcripts and
    their memory. Memory grows with each delta until it reaches its limit of tokens, or until the
    window is full.
    """
    agent = in_chapter(CONTEXT_SUMMARY, chapter)
    model = model_of(agent).when_ready()
    facts, weight_per_token = model.facts, model.weight_per_token
    audiences = audiences_of(chapter, stretches)
    # A stretch that has only thoughts has no audience and needs no call.
    told = [stretch for stretch, found in zip(stretches, audiences, strict=True) if found]
    sizes = {
        (stretch, audience): weight / weight_per_token
        for stretch in told[:: math.ceil(len(told) / _SAMPLES)]
        for audience, weight in _told_weights(chapter, stretch).items()
    }
    longest = max(sizes, key=lambda call: sizes[call])
    prompt = fit_prompt(model, partial(compose_summary, chapter, *longest))
    tokens = {layer.name: layer.tokens for layer in prompt.layers}
    [memory] = [layer for layer in agent.layers if layer.is_memory]
    known, chunk = tokens.get(memory.name, 0), tokens[CHUNK]
    beside = sum(tokens.values()) + TOKENS_PER_MESSAGE * len(tokens) - known - chunk
    room = input_budget(facts, output_limit(agent, facts)) - beside - chunk
    most = min(settings.MEMORY_TOKENS, room)
    calls, growth = count_calls(chapter, stretches), _GROWTH_WEIGHT / weight_per_token
    read = calls * (beside + sum(min(size, chunk) for size in sizes.values()) / len(sizes))
    read += sum(max(known, min(most, known + at * growth)) for at in range(calls))
    written = calls * _DELTA_WEIGHT / weight_per_token
    return estimate_calls(chapter, model, calls=calls, read=round(read), written=round(written))


def _told_weights(chapter: Session, stretch: Stretch) -> dict[Audience, float]:
    """Return, for each audience, the weight of the events in the request for this audience. Makes
    one query."""
    events = chosen_events(chapter, from_prompt=stretch.first, to_prompt=stretch.last)
    weights: dict[Audience, float] = defaultdict(float)
    for text, witnesses in events.values_list("text", "witnesses"):
        weights[told_to(chapter, witnesses)] += weigh(text)
    return weights
