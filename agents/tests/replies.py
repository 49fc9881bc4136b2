"""Replies for the scripted provider. Each reply has the form that its agent is asked for."""

import json
import re
from typing import Any

from agents.llm.providers.base import ModelRequest
from sessions.roster import COLORS


def world_lock(names: list[str] | None = None) -> dict[str, Any]:
    names = names or ["Agent Red", "Agent Orange", "Agent Yellow"]
    return {
        "memory_type": "world_chapter_lock",
        "world": {
            "genre": "gothic",
            "tone": "quiet",
            "themes": ["loss"],
            "rules_of_reality": ["the sea takes one name a year"],
            "factions_or_powers": [],
            "key_lore": [],
            "safety_or_boundaries": [],
        },
        "chapter": {
            "premise": "the lamp is dark",
            "location": "the quay",
            "time": "night",
            "environment": [],
            "active_threats": [],
            "open_mysteries": [],
            "chapter_goals": [],
        },
        "agents": [
            {"slot": slot, "color": COLORS[slot - 1], "name": name}
            for slot, name in enumerate(names, start=1)
        ],
        "canon_locks": ["CANON-0"],
        "assumptions": [],
    }


def turn_delta(first: int = 1, last: int = 7, **changes: Any) -> dict[str, Any]:
    return {
        "memory_type": "turn_delta",
        "range": {
            "from_marker": str(first),
            "to_marker": str(last),
            "prompt_count_in_chunk": last - first + 1,
        },
        "location_updates": {"where": "the quay", "notable_environment_changes": []},
        "major_events": [{"event": f"EVENT-{last}", "cause": "", "effect": "", "participants": []}],
        "character_actions": [],
        "state_changes": [],
        "relationship_shifts": [],
        "items_clues_discovered": [],
        "unresolved_threads": [
            {"thread": f"THREAD-{last}", "stakes": "", "next_likely_trigger": ""}
        ],
        "canon_locks": [f"CANON-{last}"],
        "contradictions_or_questions": [],
        **changes,
    }


def answer_in_form(request: ModelRequest) -> str:
    """Return a plausible answer to this request, in the form that its agent is asked for."""
    system, prompt = request.messages[0].content, request.messages[-1].content
    if "world_chapter_lock" in system:
        names = re.findall(r"^\d: \w+: (.+)$", prompt, re.MULTILINE)
        return json.dumps(world_lock(names))
    if "turn_delta" in system:
        chunk = prompt.split("## RECENT_CONTEXT_CHUNK")[-1]
        prompts = [int(number) for number in re.findall(r"^(\d+)\) ", chunk, re.MULTILINE)]
        return json.dumps(turn_delta(prompts[0], prompts[-1]))
    if "prose" in system:
        return "The lamp was dark, and nobody said so. " * 40
    return f"I answer number {len(prompt)}."
