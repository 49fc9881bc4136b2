"""Checks the numbers of the prompts that the entries of a delta come from.

Agent 8 writes the numbers beside each entry (`at`). A number is dropped if the delta's audience did
not witness such a prompt in the stretch. A wrong number never makes a delta unusable, and the
record of the call keeps what the model wrote.
"""

from collections.abc import Collection
from typing import Any

from memory.fold.prompt_numbers import AT, BESIDE_TEXTS, numbers_in

# The parts of a delta whose entries have numbers. `location_updates` is one entry, not a list.
_ENTRIES = (
    "location_updates",
    "major_events",
    "character_actions",
    "state_changes",
    "relationship_shifts",
    "items_clues_discovered",
    "unresolved_threads",
)


def with_checked_sources(payload: dict[str, Any], prompts: Collection[int]) -> dict[str, Any]:
    """Return a delta's payload with only those numbers that are among these prompts.

    An entry without such a number comes from anywhere in the stretch, and has no `at`.
    """
    checked = dict(payload)
    for part in _ENTRIES:
        entries = payload.get(part)
        if isinstance(entries, list):
            checked[part] = [_checked(entry, prompts) for entry in entries]
        elif part in payload:
            checked[part] = _checked(entries, prompts)
    for texts, beside in BESIDE_TEXTS.items():
        numbers = checked.pop(beside, None)
        count = len(payload[texts]) if isinstance(payload.get(texts), list) else 0
        if isinstance(numbers, list) and len(numbers) == count:
            kept = [next(iter(_known(one, prompts)), 0) for one in numbers]
            checked |= {beside: kept} if any(kept) else {}
    return checked


def _checked(entry: Any, prompts: Collection[int]) -> Any:
    if not isinstance(entry, dict) or AT not in entry:
        return entry
    rest = {key: value for key, value in entry.items() if key != AT}
    known = _known(entry[AT], prompts)
    return rest | {AT: known} if known else rest


def _known(value: Any, prompts: Collection[int]) -> list[int]:
    return [number for number in numbers_in(value) if number in prompts]
