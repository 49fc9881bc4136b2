"""Agent 8 of the fold test: writes exact deltas.

It tells only what the request has: it finds the marks of turns in the request, and writes down the
changes whose sentences stand there.
"""

import re
from typing import Any

from testing.told_story import Change, Kind, Story, Turn

_MARK = re.compile(r"\bM\d{4}x\d{5}\b")


class ExactAgent:
    """`written` has the mark of the turn and the key of the subject of each change that a delta
    tells."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.written: set[tuple[str, str]] = set()

    def reply(self, prompt: str) -> str:
        """Return the character's reply for the last message of a request."""
        return self.story.book[_MARK.findall(prompt)[-1]].reply

    def delta(self, prompt: str) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Return the delta for the last message of a request, and the witnesses of its turns."""
        chunk = prompt.split("## RECENT_CONTEXT_CHUNK")[-1]
        turns = [self.story.book[mark] for mark in dict.fromkeys(_MARK.findall(chunk))]
        told = [
            (turn, change) for turn in turns for change in turn.changes if change.sentence in chunk
        ]
        scenes = [one for one in told if one[1].subject.kind is Kind.SCENE]
        states = [one for one in told if one[1].subject.kind not in (Kind.SCENE, Kind.THREAD)]
        # A delta has one place of the scene, and says only how a thread stands at the end.
        threads = list(
            {one[1].subject: one for one in told if one[1].subject.kind is Kind.THREAD}.values()
        )
        # A stretch may have been told already, with another attempt at its last turn.
        marks = {turn.mark for turn in turns}
        self.written -= {one for one in self.written if one[0] in marks}
        for turn, change in (*scenes[-1:], *threads, *states):
            self.written.add((turn.mark, change.subject.key))
        last = turns[-1].number
        # Every second delta closes threads by a state, and the others by the thread's own name.
        by_state = [one for one in threads if one[1].value != "open" and last % 2]
        delta = {
            "memory_type": "turn_delta",
            "range": {
                "from_marker": str(turns[0].number),
                "to_marker": str(last),
                "prompt_count_in_chunk": len(turns),
            },
            "location_updates": {
                "where": scenes[-1][1].value if scenes else "",
                "notable_environment_changes": [],
                "at": [turn.number for turn, _ in scenes[-1:]],
            },
            "major_events": [_event(turn) for turn in turns],
            # Whoever acts in a delta that names a place was there. So nobody acts in it, because
            # the people of the story are elsewhere.
            "character_actions": [] if scenes else [self._deed(turn) for turn in turns],
            "state_changes": [
                *(self._state(turn, change) for turn, change in states),
                *(_closed_by_state(turn, change) for turn, change in by_state),
            ],
            "relationship_shifts": [],
            "items_clues_discovered": [],
            "unresolved_threads": [_thread(*one) for one in threads if one not in by_state],
            "canon_locks": [],
            "contradictions_or_questions": [],
        }
        return delta, turns[0].witnesses

    def _state(self, turn: Turn, change: Change) -> dict[str, Any]:
        """Return the entry of a change. Some entries say the value before, as far as all witnesses
        know it, and some have a note."""
        before = self.story.known(turn.witnesses, until=turn.number - 1, with_rulings=False)
        says_before = turn.number % 3 and change.subject in before
        return {
            "key": change.subject.key,
            "before": before[change.subject].now if says_before else "",
            "after": change.value,
            "notes": "" if turn.number % 4 else f"seen at {turn.mark}",
            "at": [turn.number],
        }

    def _deed(self, turn: Turn) -> dict[str, Any]:
        return {
            "agent_slot": turn.actor,
            "name": self.story.name_of(turn.actor),
            "did": f"spoke by {turn.reply_mark}",
            "intent": f"to hide {turn.intent_mark}",
            "result": "",
            "at": [turn.number],
        }


def _event(turn: Turn) -> dict[str, Any]:
    return {
        "event": f"The wind turned at {turn.mark}",
        "cause": "",
        "effect": "",
        "participants": [],
        "at": [turn.number],
    }


def _closed_by_state(turn: Turn, change: Change) -> dict[str, Any]:
    return {
        "key": change.subject.key,
        "before": "open",
        "after": "resolved",
        "notes": change.value,
        "at": [turn.number],
    }


def _thread(turn: Turn, change: Change) -> dict[str, Any]:
    is_open = change.value == "open"
    return {
        "thread": change.subject.key if is_open else f"Resolved: {change.subject.key}",
        "stakes": "trust" if is_open else change.value,
        "next_likely_trigger": "",
        "at": [turn.number],
    }
