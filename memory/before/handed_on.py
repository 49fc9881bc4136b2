"""Makes entries of memory for the next chapter, from the facts that hold at the end of a fold.

The entries have the keys of a delta, so that they are read in the same way. They tell no events,
but only how things stand: canon, open threads, states, ties, things, and where people are.
"""

from collections.abc import Sequence
from typing import Any

from memory.blocks.same_names import key_of
from memory.fold.history import shift_fact
from memory.fold.members import Members
from memory.fold.present import present
from memory.fold.records import Fold
from memory.fold.rulings import Rulings
from sessions.roster import Character

Payload = dict[str, list[Any]]


def what_holds(folded: Fold, roster: Sequence[Character]) -> Payload:
    now = present(folded, roster)
    rulings, cast = Rulings(folded), Members(folded, roster)
    threads = [folded.threads[key_of(one.text)] for one in now.open_threads]
    things = [folded.things[key_of(one.text)] for one in now.items]
    ties = [
        (tie, tie.told[-1])
        for tie in folded.ties.values()
        if rulings.spare(shift_fact(tie, tie.told[-1], rulings, cast).text)
    ]
    return {
        "canon_locks": [one.text for one in now.canon],
        "state_changes": [
            *(
                _state(key, value, notes=one.aside)
                for one in now.state
                for key, value in (_key_and_value(one.text),)
                # A state may also say how a thread was closed.
                if key_of(key) not in folded.threads
            ),
            *(_state(f"{one.name}'s location", one.place) for one in (*now.cast, *now.others)),
        ],
        "relationship_shifts": [
            {
                "between": [cast.displayed(one) for one in tie.people],
                "change": shift.change,
                "evidence": rulings.spared(("", shift.evidence)),
            }
            for tie, shift in ties
        ],
        "items_clues_discovered": [
            {
                "thing": one.name,
                "who_found": cast.displayed(one.finder),
                "why_it_matters": rulings.spared(("", one.why)),
            }
            for one in things
        ],
        "unresolved_threads": [
            {
                "thread": one.text,
                "stakes": rulings.spared(("", one.stakes)),
                "next_likely_trigger": rulings.spared(("", one.trigger)),
            }
            for one in threads
        ],
    }


def _key_and_value(text: str) -> tuple[str, str]:
    """Return the key and the value of a state that is told as "key: value"."""
    key, _, value = text.partition(": ")
    return key, value


def _state(key: str, value: str, notes: str = "") -> dict[str, str]:
    return {"key": key, "before": "", "after": value, "notes": notes}
