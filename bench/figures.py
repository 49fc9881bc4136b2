"""Makes figures from the records of a run."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from bench.figure import Figure
from bench.prompt_figures import prompt_figures
from bench.replay import PROBE_MODEL, TARGET_WORDS, PlayedSession, PromptTiming
from sessions.words import count_words

CHARACTER_AGENTS = range(1, 8)
CHUNK = 7
# The engine's delay may be at most this many times the delay of the bare relay. The delay of the
# relay shows how fast the machine is.
RELAY_FACTOR = 2.5


def session_figures(played: PlayedSession, calls: Sequence[dict[str, Any]]) -> list[Figure]:
    calls = [call for call in calls if call["model"] != PROBE_MODEL]
    return [
        _replies_stored(played),
        _deltas_tile(played),
        _chapter_words(played),
        *_characters_sent(played, calls),
        *_latencies(played.timings),
        _calls_per_reply(played, calls),
        *_first_tokens(played),
    ]


def page_figures(seconds: dict[int, list[float]], queries: dict[int, int]) -> list[Figure]:
    """Return the figures of Tab 2. `seconds` maps the number of events of a chapter to the times
    that its page took, and `queries` maps the number of events to the number of SQL queries."""
    times = {events: median(taken) * 1_000 for events, taken in seconds.items()}
    shown = ", ".join(f"{value:.1f} ms at {events:,}" for events, value in times.items())
    counted = ", ".join(f"{count} at {events:,}" for events, count in queries.items())
    return [
        Figure(
            "Tab 2, full window: time of the page by number of events",
            max(times.values()),
            shown,
            "under 50 ms",
            max(times.values()) < 50,
        ),
        Figure(
            "Tab 2, full window: SQL queries by number of events",
            max(queries.values()),
            counted,
            "equal",
            len(set(queries.values())) == 1,
        ),
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
    return Figure(
        "Prompts and replies stored word for word",
        exact,
        f"{exact} of {len(pairs)}",
        "all, and no others",
        exact == len(pairs) and len(events) == 2 * len(pairs),
    )


def _deltas_tile(played: PlayedSession) -> Figure:
    ranges = sorted(
        (block["from_prompt_index"], block["to_prompt_index"])
        for block in played.chapter["memory_blocks"]
        if block["type"] == "turn_delta"
    )
    covered = [number for first, last in ranges for number in range(first, last + 1)]
    prompts = len(played.session.pairs)
    wanted = -(-prompts // CHUNK)
    return Figure(
        "Memory deltas, and the prompts they cover",
        len(ranges),
        f"{len(ranges)} deltas, {len(covered)} prompts",
        f"{wanted} deltas, 1-{prompts} without gap or overlap",
        covered == list(range(1, prompts + 1)) and len(ranges) == wanted,
    )


def _chapter_words(played: PlayedSession) -> Figure:
    words = count_words(played.chapter["narrative_drafts"][-1]["chapter_text"])
    return Figure(
        "Words of the chapter",
        words,
        f"{words:,}",
        f"{TARGET_WORDS:,}, give or take 10 %",
        abs(words - TARGET_WORDS) <= TARGET_WORDS // 10,
    )


def character_prompts(calls: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of the requests to characters, in the order in which they were sent."""
    return [
        str(call["prompt"])
        for call in calls
        if call["agent"] in CHARACTER_AGENTS and call["model"] != PROBE_MODEL
    ]


def _characters_sent(played: PlayedSession, calls: Sequence[dict[str, Any]]) -> list[Figure]:
    prompts = character_prompts(calls)
    total, full = sum(map(len, prompts)), _full_history(played, len(prompts[0]))
    return [
        *prompt_figures(
            prompts, pairs=0 if played.session.is_made_up else len(played.session.pairs)
        ),
        Figure(
            "- over the whole transcript each time, without memory",
            total / full,
            f"{total / full:.2f}",
        ),
    ]


def _full_history(played: PlayedSession, first_prompt: int) -> int:
    """Return the number of characters that all requests to characters would have together, if each
    request had all earlier turns instead of memory."""
    names = played.session.roster
    total = history = 0
    fixed = first_prompt - len(played.session.pairs[0].beat)
    for number, pair in enumerate(played.session.pairs, 1):
        total += fixed + history + len(pair.beat)
        labels = len(f"{number}) ") + len(f"{names[pair.slot - 1]}: ") + 4
        history += len(pair.beat) + len(pair.reply) + labels
    return total


def _latencies(timings: Sequence[PromptTiming]) -> list[Figure]:
    clean = [timing for timing in timings if not timing.is_disturbed]
    sevenths = [t.latency for t in clean if t.prompt_index % CHUNK == 0]
    others = [t.latency for t in clean if t.prompt_index % CHUNK]
    if not sevenths:
        return []
    ratio = median(sevenths) / median(others)
    return [
        Figure(
            "Median latency of every seventh prompt over that of the others",
            ratio,
            f"{ratio:.3f} ({median(sevenths) * 1_000:.0f} / {median(others) * 1_000:.0f} ms)",
            "at most 1.05",
            ratio <= 1.05,
        )
    ]


def _calls_per_reply(played: PlayedSession, calls: Sequence[dict[str, Any]]) -> Figure:
    ratio = len(calls) / len(played.session.pairs)
    kinds = {agent: sum(call["agent"] == agent for call in calls) for agent in (0, 8, 9)}
    detail = ", ".join(f"agent {agent}: {count}" for agent, count in kinds.items())
    return Figure(
        "Model calls per reply, all agents",
        ratio,
        f"{ratio:.3f} ({len(calls)} calls; {detail})",
        "at most 1.2",
        ratio <= 1.2,
    )


def _first_tokens(played: PlayedSession) -> list[Figure]:
    through = _median_of(t.first_token for t in played.timings)
    direct = _median_of(t.model_first_token for t in played.timings)
    relayed = _median_of(t.relay_first_token for t in played.timings)
    added, by_relay = through - direct, relayed - direct
    stored = played.stored_first
    return [
        Figure(
            "Time to the first token that the program adds, median",
            added,
            f"{added:.1f} ms ({through:.1f} - {direct:.1f} ms)",
            f"at most {RELAY_FACTOR} times what a relay with one row adds",
            added <= RELAY_FACTOR * by_relay,
        ),
        Figure(
            "- that a bare Django relay with one row and two commits adds, in turns with it",
            by_relay,
            f"{by_relay:.1f} ms",
        ),
        Figure(
            "Prompt stored before its first token arrived",
            sum(stored),
            f"{sum(stored)} of {len(stored)} looks",
            "always",
            all(stored),
        ),
    ]


def _median_of(seconds: Iterable[float | None]) -> float:
    """Return the median of the measured times, in milliseconds."""
    return median(one for one in seconds if one is not None) * 1_000
