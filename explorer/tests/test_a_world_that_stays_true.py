"""A scripted exploration of 25 turns, with four places, waits, returns, a lock-in, two hidden
people and three deltas. At every turn the narrator is told all that holds, and nothing else."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling.model_access import substitute_provider
from agents.llm.providers.base import ModelRequest, ToolCall
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.tests.replies import turn_delta
from explorer.learned import MOST_LESSONS
from explorer.tests.playing import begin, calls, discover, move, play, wait, world_of
from storyengine.api.tests.calling import RunJobs
from world.state import World

pytestmark = pytest.mark.django_db(transaction=True)

INN, LANDING, MILL, BOATHOUSE = "The Ferry Inn", "The Landing", "The Mill", "The Boathouse"


def person(name: str, place: str, secret: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{name} of the river.",
        "goals": f"{name} wants peace.",
        "location": place,
        "knowledge": [{"content": secret}],
        "relationships": [{"name": "Edda Linn", "description": f"{name} watches her."}],
        **more,
    }


PEOPLE = [
    person("Osk Brandt", INN, "Osk mended the skiff by candle."),
    person("Ib", INN, "His father took the ferry tonight."),
    person("Runa Vass", MILL, "The chain was cut half through."),
    person("Per Holm", MILL, "He struck out the tenth name."),
    person("Marta Quill", LANDING, "Three strokes answered her bell.", is_discovered=False),
    person("The stranger", BOATHOUSE, "The stranger left by the rope.", is_discovered=False),
]
SETUP = {
    "title": "The Last Ferry",
    "description": "A river inn on the night when the ferry does not come back.",
    "narrative_time": "Dusk",
    "places": [{"name": name} for name in (INN, LANDING, MILL, BOATHOUSE)],
    "people": PEOPLE,
    "starting_place": INN,
    "persona": {"name": "Edda Linn"},
}
LOCKED = {"person": "Per Holm", "condition": "locked into the flour store"}
# What the narrator calls at each turn, in its steps.
TURNS: list[list[tuple[str, dict[str, Any]]]] = [
    [],
    [("note", {"what": "The lantern", "holder": "You", "state": "lit"})],
    [("note", {"person": "You", "condition": "has promised Ib to be back by midnight"})],
    [],
    [move(MILL, time="Late evening")],
    [("note", LOCKED)],
    [("note", {"what": "The mill key", "holder": "Edda Linn"})],
    [],
    [move(LANDING, time="Night")],
    [discover("Marta Quill")],
    [],
    [wait("Towards midnight", 12)],
    [move(INN, time="Midnight")],
    [("note", {"what": "The lantern", "place": INN, "state": "out"})],
    [("personGoes", {"name": "Ib", "to": BOATHOUSE})],
    [],
    [move(BOATHOUSE, time="After midnight")],
    [discover("The stranger")],
    [("note", {"what": "The mill key", "holder": "The stranger"})],
    [],
    [move(MILL, "The stranger", time="Before dawn")],
    [("note", {**LOCKED, "over": True})],
    [wait("Dawn", 30)],
    [],
    [move(INN, time="Morning")],
]


# What agent 8 says of each stretch that everybody has learned.
TRIFLES = (
    ("A spoon lies on the table", "Wet wool smells", "The rope has frayed", "Soup was salted"),
    ("Bells carry far over water", "Candles drip eastwards", "Somebody coughed twice"),
    ("Tar sticks to every sleeve", "Gulls sleep standing", "Boots squeak on planks"),
)


@dataclass
class River(ScriptedProvider):
    """A model that narrates by TURNS and has every place live."""

    narrated: list[ModelRequest] = field(default_factory=list)
    lived: list[str] = field(default_factory=list)
    deltas: int = 0

    def _next_script(self, request: ModelRequest) -> Script:
        tools = {tool.name for tool in request.tools}
        if "moveToLocation" in tools:
            self.narrated.append(request)
            return self.queue.popleft()
        asked = request.messages[-1].content
        if "tellMeanwhile" in tools:
            place = re.findall(r"^PLACE: (.*)$", asked, re.MULTILINE)[0]
            self.lived.append(place)
            told = json.dumps({"told": f"At {place} somebody swept the floor."})
            return Script("", tool_calls=(ToolCall("m", "tellMeanwhile", told),))
        if "reportSimulation" in tools:
            return Script("", tool_calls=(ToolCall("r", "reportSimulation", "{}"),))
        if "turn_delta" in request.messages[0].content:
            self.deltas += 1
            return Script(json.dumps(turn_delta() | self._delta()))
        return Script("They spoke of the weather.")

    def _delta(self) -> dict[str, Any]:
        """Teach everybody trifles, as a model would, and get everybody's place wrong."""
        names = [one["name"] for one in PEOPLE]
        trifles = [
            {"who": name, "what": f"{trifle}.", "at": []}
            for name in names
            for trifle in TRIFLES[self.deltas - 1]
        ]
        moved = {"where": "Nowhere", "notable_environment_changes": [], "at": []}
        silent = {"intent": "", "result": ""}
        deeds = [
            {"agent_slot": 0, "name": name, "did": "waits at the churchyard", **silent, "at": []}
            for name in names
        ]
        return {"learned": trifles, "location_updates": moved, "character_actions": deeds}


def test_at_every_turn_the_narrator_is_told_all_that_holds(
    settings: Settings, run_jobs: RunJobs
) -> None:
    settings.LLM = "scripted"
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 10_000
    model = River()
    with substitute_provider(model):
        chapter = begin(SETUP)
        for number, called in enumerate(TURNS, 1):
            model.queue.clear()
            if called:
                model.enqueue(calls("", *called))
            model.enqueue(f"Turn {number} is told.")
            model.narrated.clear()
            play(chapter, f"I do what turn {number} asks.")
            # What a turn has changed stands in the last request of this turn.
            check_request(model.narrated[-1].messages, world_of(chapter))
            run_jobs()
        world = world_of(chapter)

    assert model.deltas == len(TRIFLES)
    # Each place that was left for long has lived.
    assert {MILL, INN, BOATHOUSE} <= set(model.lived) | {one.location for one in world.happenings}
    assert world.people["Edda Linn"].location == INN
    assert world.people["Ib"].location == BOATHOUSE
    assert not world.people["Per Holm"].conditions
    key = world.things["The mill key"]
    assert (key.holder, world.place_of(key)) == ("The stranger", MILL)
    assert world.things["The lantern"].place == INN
    nobody_learned_what_they_did_not_witness(world)


def check_request(messages: Any, world: World) -> None:
    asked = "\n".join(one.content for one in messages if one.role in ("system", "user"))
    assert f"CURRENT LOCATION: {world.player_location}\n" in f"{asked}\n"
    for one in world.present():
        setup = next(some for some in PEOPLE if some["name"] == one.name)
        told = asked.split(f"\n- {one.name}", 1)[1].split("\n- ", 1)[0]
        assert setup["knowledge"][0]["content"] in told
        assert setup["goals"] in told
        assert setup["relationships"][0]["description"] in told
        for condition in one.conditions:
            assert condition.text in told
    absent = [one for one in world.people.values() if one not in world.present()]
    for one in absent:
        if not one.is_player:
            secret = next(some for some in PEOPLE if some["name"] == one.name)["knowledge"]
            assert secret[0]["content"] not in asked
    # No request says where somebody is but the world's own lines.
    assert not re.search(r"churchyard</(where|now|location)>|<where>|<location>", asked)
    for one in world.elsewhere():
        [line] = [line for line in asked.split("\n") if f"- {one.seen_at}: " in line]
        assert one.name in line
        assert all(condition.text in line for condition in one.conditions)


def nobody_learned_what_they_did_not_witness(world: World) -> None:
    first, second, third = (set(some) for some in TRIFLES)
    learned = {
        name: {known.content.rstrip(".") for known in one.came_to_know}
        for name, one in world.people.items()
    }
    assert len(learned["Osk Brandt"] & first) == MOST_LESSONS
    # The player met Marta Quill in the second stretch, and the stranger in the third.
    assert not learned["Marta Quill"] & (first | third)
    assert learned["Marta Quill"] & second
    assert not learned["The stranger"] & (first | second)
    assert learned["The stranger"] & third
