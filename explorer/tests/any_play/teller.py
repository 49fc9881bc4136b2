"""A scripted model for explorations that are played at random. It answers every agent of a chapter:
the narrator by a plan, and the others so that something always changes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from agents.llm.providers.base import ModelRequest, ToolCall
from agents.llm.providers.failures.call_errors import ProviderUnreachable
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.tests.replies import answer_in_form, turn_delta

_KNOWN_PLACE = re.compile(r'^(place-\d+)\. "([^"]*)"', re.MULTILINE)
_LINE = re.compile(r"^(CURRENT LOCATION: .*|TIME: .*)$", re.MULTILINE)


@dataclass
class Teller(ScriptedProvider):
    """The queue has the narrator's steps. `people` are the names of those who learn something, and
    `means` has the answers to the question which place is meant."""

    people: tuple[str, ...] = ()
    means: dict[str, tuple[str, float]] = field(default_factory=dict)
    told: list[dict[str, str]] = field(default_factory=list)
    numbers: count = field(default_factory=count)  # type: ignore[type-arg]  # it cannot be indexed

    def _next_script(self, request: ModelRequest) -> Script:
        tools = {tool.name for tool in request.tools}
        if "moveToLocation" in tools:
            self.told.append(_world_in(request))
            return self.queue.popleft()
        if "resolveLocation" in tools:
            return self._which_place(request)
        if "tellMeanwhile" in tools:
            # Without an answer nothing happened, as the other tests of a return have it otherwise.
            return Script(error=ProviderUnreachable("gone"))
        if "reportSimulation" in tools:
            return self._report(request)
        if "turn_delta" in request.messages[0].content:
            return Script(self._delta(request))
        return Script(f"They talk about the weather, time {next(self.numbers)}.")

    def _which_place(self, request: ModelRequest) -> Script:
        asked = request.messages[-1].content
        destination = asked.rsplit("LOCATION_DESCRIPTION", 1)[1].strip()
        place, confidence = self.means[destination]
        by_name = {name: place_id for place_id, name in _KNOWN_PLACE.findall(asked)}
        return called(
            "resolveLocation",
            {
                "matchedClusterId": by_name.get(place),
                "canonicalName": place,
                "confidence": confidence,
            },
        )

    def _report(self, request: ModelRequest) -> Script:
        """Report that everybody goes to the first place that is named, and what they saw."""
        asked = request.messages[1].content
        names = re.findall(r"^- (.*?):", asked, re.MULTILINE)
        [places] = re.findall(r"^AVAILABLE LOCATIONS: (.*)$", asked, re.MULTILINE)
        number = next(self.numbers)
        lesson = {"who": names[-1], "what": f"Secret {number}.", "source": "told", "from": names[0]}
        return called(
            "reportSimulation",
            {
                "events": [{"description": f"Quarrel {number}.", "witnesses": names}],
                "movements": [
                    {"character": names[number % len(names)], "destination": places.split(", ")[0]}
                ],
                "learned": [lesson],
                "relationships": [
                    {"who": names[0], "name": names[1], "description": f"Feeling {number}."}
                ],
            },
        )

    def _delta(self, request: ModelRequest) -> str:
        number = next(self.numbers)
        who, other = (self.people[(number + by) % len(self.people)] for by in (0, 1))
        delta: dict[str, Any] = json.loads(answer_in_form(request))
        added = {
            "learned": [
                {"who": name, "what": f"Fact {number}.", "source": "told", "from": other}
                for name in self.people
            ],
            "relationships": [{"who": who, "name": other, "description": f"Bond {number}."}],
        }
        return json.dumps(turn_delta() | delta | added)


def called(name: str, arguments: Mapping[str, Any]) -> Script:
    return Script("", tool_calls=(ToolCall("answer", name, json.dumps(arguments)),))


def _world_in(request: ModelRequest) -> dict[str, str]:
    """Return what the narrator's request says of the place and of the time."""
    [asked] = [one.content for one in request.messages if "CURRENT LOCATION:" in one.content]
    lines = (line.split(": ", 1) for line in _LINE.findall(asked))
    return {name: value for name, value in lines}
