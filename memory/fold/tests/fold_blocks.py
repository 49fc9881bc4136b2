"""Memory blocks of a short chapter, for tests of the fold."""

from typing import Any

from memory.canon.ruling_payloads import correction_payload
from memory.fold.records import Block

LOCK: dict[str, Any] = {
    "memory_type": "world_chapter_lock",
    "world": {
        "genre": "ghost story",
        "tone": "quiet dread",
        "rules_of_reality": ["the sea takes one name a winter"],
        "safety_or_boundaries": ["no cruelty to children"],
    },
    "chapter": {
        "premise": "the light went out",
        "location": "the quay of Harl",
        "environment": ["ice"],
        "open_mysteries": ["who put it out?"],
    },
    "agents": [
        {"slot": 1, "color": "red", "name": "Mara Venn"},
        {"slot": 2, "color": "orange", "name": "Tom"},
    ],
    "canon_locks": ["the keeper drowned"],
}
DELTA: dict[str, Any] = {
    "memory_type": "turn_delta",
    "location_updates": {"where": "the ferry", "notable_environment_changes": ["fog lifts"]},
    "major_events": [
        {
            "event": "Three knocks under the hull",
            "cause": "",
            "effect": "Tom steps back",
            "participants": ["Tom", "Mara", "the boatman"],
        }
    ],
    "character_actions": [],
    "state_changes": [{"key": "lamp", "before": "lit", "after": "dark", "notes": "no oil"}],
    "relationship_shifts": [
        {"between": ["Mara", "Tom"], "change": "distrust", "evidence": "she turned away"}
    ],
    "items_clues_discovered": [
        {"thing": "wet list", "who_found": "Mara", "why_it_matters": "names her sister"}
    ],
    "unresolved_threads": [
        {"thread": "who knocks?", "stakes": "the ferry", "next_likely_trigger": "next knock"}
    ],
    "canon_locks": ["three knocks are the keeper's sign"],
    "contradictions_or_questions": ["memory says the keeper drowned, but he knocks"],
}


def lock(payload: Any = LOCK) -> Block:
    return Block("world_chapter_lock", 0, 0, payload)


def delta(number: int = 1, **payload: Any) -> Block:
    return Block("turn_delta", 7 * number - 6, 7 * number, payload)


def correction(after: int = 7, /, **said: str) -> Block:
    return Block("canon_correction", after, after, correction_payload(**said))
