"""Makes figures from the records of a played session."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from bench.harness import Figure
from bench.session.play import CHUNK, PROBE_MODEL, TARGET_WORDS, PlayedSession, PromptTiming
from bench.session.prompts import prompt_figures
from sessions.language.words import count_words

CHARACTER_AGENTS = range(1, 8)


def session_figures(played: PlayedSession, calls: Sequence[dict[str, Any]]) -> list[Figure]:
    calls = [call for call in calls if call["model"] != PROBE_MODEL]
    pairs = 0 if played.session.is_made_up else len(played.session.pairs)
    return [
        _replies_stored(played),
        _deltas_tile(played),
        _chapter_words(played),
        *prompt_figures(character_prompts(calls), pairs=pairs),
        *_latencies(played.timings),
        _calls_per_reply(played, calls),
        _first_token(played),
    ]


def character_prompts(calls: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of the requests to characters, in the order in which they were sent."""
    return [
        str(call["prompt"])
        for call in calls
        if call["agent"] in CHARACTER_AGENTS and call["model"] != PROBE_MODEL
    ]


def _replies_stored(played: PlayedSession) -> Figure:
    events = played.chapter["events"]
    told = {e["prompt_index"]: e["text"] for e in events if e["role"] == "agent"}
    asked = {e["prompt_index"]: e["text"] for e in events if e["role"] == "user"}
    pairs = played.session.pairs
    exact = sum(
        told.get(number) == pair.reply and asked.get(number) == pair.beat
        for number, pair in enumerate(pairs, 1)
    )
    # An event too many counts as a wrong one.
    exact -= max(0, len(events) - 2 * len(pairs))
    return Figure.all_of("Prompts and replies stored word for word", exact, len(pairs))


def _deltas_tile(played: PlayedSession) -> Figure:
    ranges = sorted(
        (block["from_prompt_index"], block["to_prompt_index"])
        for block in played.chapter["memory_blocks"]
        if block["type"] == "turn_delta"
    )
    covered = [number for first, last in ranges for number in range(first, last + 1)]
    prompts = len(played.session.pairs)
    wanted = -(-prompts // CHUNK)
    name, shown = "Memory deltas, and the prompts they cover", f"{len(ranges)} deltas"
    target = f"{wanted} deltas, 1-{prompts} without gap or overlap"
    is_right = covered == list(range(1, prompts + 1)) and len(ranges) == wanted
    return Figure(name, len(ranges), f"{shown}, {len(covered)} prompts", target, is_right)


def _chapter_words(played: PlayedSession) -> Figure:
    words = count_words(played.chapter["narrative_drafts"][-1]["chapter_text"])
    target, is_right = f"{TARGET_WORDS:,}, give or take 10 %", abs(words / TARGET_WORDS - 1) <= 0.1
    return Figure("Words of the chapter", words, f"{words:,}", target, is_right)


def _latencies(timings: Sequence[PromptTiming]) -> list[Figure]:
    sevenths = [t.latency for t in timings if t.prompt_index % CHUNK == 0]
    others = [t.latency for t in timings if t.prompt_index % CHUNK]
    if not sevenths:
        return []
    name = "Median latency of every seventh prompt over that of the others"
    detail = f" ({median(sevenths) * 1_000:.0f} / {median(others) * 1_000:.0f} ms)"
    ratio = median(sevenths) / median(others)
    return [Figure.at_most(name, ratio, 1.05, "{:.3f}", detail)]


def _calls_per_reply(played: PlayedSession, calls: Sequence[dict[str, Any]]) -> Figure:
    kinds = {agent: sum(call["agent"] == agent for call in calls) for agent in (0, 8, 9)}
    told = ", ".join(f"agent {agent}: {count}" for agent, count in kinds.items())
    ratio, detail = len(calls) / len(played.session.pairs), f" ({len(calls)} calls; {told})"
    return Figure.at_most("Model calls per reply, all agents", ratio, 1.2, "{:.3f}", detail)


def _first_token(played: PlayedSession) -> Figure:
    through = _median_of(t.first_token for t in played.timings)
    direct = _median_of(t.model_first_token for t in played.timings)
    shown = f"{through - direct:.1f} ms ({through:.1f} - {direct:.1f})"
    return Figure("Time to the first token that the program adds", through - direct, shown)


def _median_of(seconds: Iterable[float | None]) -> float:
    """Return the median of the measured times, in milliseconds."""
    return median(one for one in seconds if one is not None) * 1_000
