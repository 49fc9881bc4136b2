"""Invented memory of a very long chapter. It is always the same, and as varied as real memory.

Each delta covers seven prompts. It has some events, an action of a character and changes of state.
Every second delta has a discovery, and every third delta makes a fact canon. Each delta opens a
thread, and most threads end three deltas later. A delta has about 2,000 characters of JSON, as many
as a delta of the embedded model.
"""

from typing import Any

from testing.session_data import reply_text

ROSTER = ("Ashwin", "Berrin", "Calla", "Dorrit", "Edda", "Fenwick", "Gisla")
CHUNK = 7
CANON_EVERY = 3
THREAD_LASTS = 3
# One thread in this many is never closed.
LOOSE_END_EVERY = 12

_PLACES = ("the harbour", "the customs house", "the drowned chapel", "the ferry", "the rope walk")
_STATES = ("tide", "lantern", "north door", "ledger", "crew", "weather", "ferry's rope", "bell")


def delta_payload(chunk: int) -> dict[str, Any]:
    """Return the delta of the prompts 7 * chunk + 1 to 7 * chunk + 7. `chunk` counts from 0."""
    first, name, other = chunk * CHUNK + 1, ROSTER[chunk % 7], ROSTER[(chunk * 3 + 1) % 7]
    return {
        "memory_type": "turn_delta",
        "range": {
            "from_marker": str(first),
            "to_marker": str(first + CHUNK - 1),
            "prompt_count_in_chunk": CHUNK,
        },
        "location_updates": {
            "where": _PLACES[chunk // 4 % len(_PLACES)],
            "notable_environment_changes": [_phrase(chunk, 6)],
        },
        "major_events": [_event(chunk * 5 + at) for at in range(3 + chunk % 3)],
        "character_actions": [
            {
                "agent_slot": chunk % 7 + 1,
                "name": name,
                "did": _phrase(chunk + 40, 7),
                "intent": _phrase(chunk + 50, 4),
                "result": "unknown" if chunk % 2 else _phrase(chunk + 60, 5),
            }
        ],
        "state_changes": [
            _state(chunk, _STATES[chunk % len(_STATES)]),
            _state(chunk + 30, f"{name}'s {_STATES[chunk // 7 % len(_STATES)]}"),
            *_closed_threads(chunk),
        ],
        "relationship_shifts": [_tie(chunk, name, other)] if chunk % 2 and name != other else [],
        "items_clues_discovered": [_discovery(chunk, other)] if chunk % 2 == 0 else [],
        "unresolved_threads": [
            {
                "thread": thread_of(chunk),
                "stakes": _phrase(chunk + 80, 5),
                "next_likely_trigger": _phrase(chunk + 90, 4),
            }
        ],
        "canon_locks": [canon_of(chunk)] if chunk % CANON_EVERY == 0 else [],
        "contradictions_or_questions": [],
    }


def canon_of(chunk: int) -> str:
    return f"{ROSTER[chunk % 7]} knows since bell {chunk + 1} {_phrase(chunk + 100, 6)}"


def thread_of(chunk: int) -> str:
    return f"who was it that at bell {chunk + 1} {_phrase(chunk + 110, 6)}?"


def _closed_threads(chunk: int) -> list[dict[str, str]]:
    opened = chunk - THREAD_LASTS
    if opened < 0 or opened % LOOSE_END_EVERY == 0:
        return []
    ended = {"before": "open", "after": "resolved", "notes": _phrase(opened + 120, 5)}
    return [{"key": thread_of(opened), **ended}]


def _event(number: int) -> dict[str, Any]:
    return {
        "event": f"{ROSTER[number % 7]} and {ROSTER[(number + 2) % 7]}: {_phrase(number, 8)}",
        "cause": _phrase(number + 10, 5) if number % 2 else "",
        "effect": _phrase(number + 20, 6) if number % 3 else "",
        "participants": [ROSTER[number % 7], ROSTER[(number + 2) % 7]],
    }


def _state(number: int, key: str) -> dict[str, str]:
    return {"key": key, "before": "", "after": _phrase(number + 70, 5), "notes": ""}


def _tie(chunk: int, one: str, other: str) -> dict[str, Any]:
    return {
        "between": [one, other],
        "change": _phrase(chunk + 130, 4),
        "evidence": _phrase(chunk + 140, 5),
    }


def _discovery(chunk: int, finder: str) -> dict[str, str]:
    return {
        "thing": f"{_phrase(chunk + 150, 3)} of bell {chunk + 1}",
        "who_found": finder,
        "why_it_matters": _phrase(chunk + 160, 6),
    }


def _phrase(number: int, words: int) -> str:
    return reply_text(number * 5 + words, words + 1).removeprefix("I ").rstrip(".")
