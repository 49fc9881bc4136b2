"""Makes up the fake model server's answers to the agents of an exploration.

The narrator does what the player's words ask for in brackets, one tool call for each step, and then
tells the rest of the words back:

    I go down. [go the landing; Late evening; Osk] [meet Marta Quill; A tall woman] [tell Osk nods.]

`[go place; time; people]` moves, `[wait time; ticks]` lets time pass, `[meet name; introduction]`
discovers, and `[tell text]` puts this text at the end of the reply. So the answer to a request
depends on the request alone, however often it is sent. With `[perhaps]` among the words, every
other reply does nothing of it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ACTION = re.compile(r"\[(go|wait|meet|tell) ([^\]]*)\]")
_KNOWN_PLACE = re.compile(r'^(place-\d+)\. "([^"]*)"', re.MULTILINE)
_PERSON = re.compile(r"^- (.+?):", re.MULTILINE)
_AVAILABLE = re.compile(r"^AVAILABLE LOCATIONS: (.*)$", re.MULTILINE)
_THERE = re.compile(
    r"^What those who were there have learned already:\n((?:- .*\n?)+)", re.MULTILINE
)
_WORDS = "## PLAYERS_WORDS\n"
_PERHAPS = "[perhaps]"
_SURE = 0.9


@dataclass(frozen=True)
class ModelAnswer:
    """The answer to a call: a text, and tool calls as the chat protocol has them."""

    text: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()


def answer_to(body: Mapping[str, Any], *, acts: bool = True) -> ModelAnswer | None:
    """Return the answer of an agent of an exploration, or None for another agent's request.

    Without `acts`, a reply to words with `[perhaps]` does nothing.
    """
    tools = {str(one["function"]["name"]) for one in body.get("tools") or ()}
    messages = [str(one.get("content") or "") for one in body["messages"]]
    if "resolveLocation" in tools:
        return _which_place(messages[-1])
    if "reportSimulation" in tools:
        return _report("\n".join(messages))
    if "tellMeanwhile" in tools:
        return called(("tellMeanwhile", {"told": "Somebody put wood on the fire."}))
    asked = next((one for one in reversed(messages) if _WORDS in one), "")
    if not asked:
        return _out_of_sight("\n".join(messages))
    done = sum(one["role"] == "tool" for one in body["messages"])
    words = asked.rsplit(_WORDS, 1)[1]
    if _PERHAPS in words and not (acts or done):
        words = _ACTION.sub("", words)
    return _narrate(words, done, has_tools="moveToLocation" in tools)


def lessons_in(prompt: str, number: str) -> dict[str, Any]:
    """Return what the memory of an exploration has beside its own keys: everybody who was there
    learns something. Return nothing for the memory of another chapter."""
    there = _THERE.search(prompt)
    people = _PERSON.findall(there[1]) if there else []
    if "relationships:" not in prompt or not people:
        return {}
    lessons = [
        {"who": who, "what": f"Somebody spoke at prompt {number}.", "source": "told", "from": ""}
        for who in people
    ]
    ties = [{"who": people[0], "name": people[-1], "description": f"They met at {number}."}]
    return {"learned": lessons, "relationships": ties}


def called(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> ModelAnswer:
    """Return an answer with these tool calls: the names of the tools, each with its arguments."""
    return ModelAnswer(
        text,
        tuple(
            {
                "id": f"call-{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(calls)
        ),
    )


def _narrate(words: str, done: int, *, has_tools: bool) -> ModelAnswer:
    actions = [(name, told.strip()) for name, told in _ACTION.findall(words)]
    calls = [one for one in actions if one[0] != "tell"]
    if has_tools and done < len(calls):
        return called(_call_of(*calls[done]))
    spoken = " ".join(_ACTION.sub("", words).replace(_PERHAPS, "").split())
    ends = [told for name, told in actions if name == "tell"]
    return ModelAnswer("\n\n".join([f"So it goes: {spoken}", "The water is louder now.", *ends]))


def _call_of(action: str, told: str) -> tuple[str, dict[str, Any]]:
    parts = [one.strip() for one in told.split(";")]
    name, second, *rest = [*parts, "", ""][: max(len(parts), 2)]
    if action == "go":
        people = [one.strip() for one in (rest[0] if rest else "").split(",") if one.strip()]
        time = second or "Later"
        return "moveToLocation", {
            "destination": name,
            "narrativeTime": time,
            "accompaniedBy": people,
        }
    if action == "wait":
        return "advanceTime", {"narrativeTime": name, "ticks": int(second or 1)}
    introduction = second or "Somebody."
    return "discoverCharacter", {
        "characterName": name,
        "introduction": introduction,
        "goals": "To be seen.",
    }


def _which_place(asked: str) -> ModelAnswer:
    """Say that a place is meant if the description has the last word of its name."""
    destination = asked.rsplit("LOCATION_DESCRIPTION", 1)[1].strip()
    for place_id, name in _KNOWN_PLACE.findall(asked):
        if name.casefold().split()[-1] in destination.casefold().split():
            found = {"matchedClusterId": place_id, "canonicalName": name, "confidence": _SURE}
            return called(("resolveLocation", found))
    new = {"canonicalName": destination.title()[:40], "confidence": _SURE}
    return called(("resolveLocation", new))


def _report(asked: str) -> ModelAnswer:
    people = list(dict.fromkeys(_PERSON.findall(asked.split("CHARACTERS:", 1)[-1])))
    if len(people) < 2:
        return called(("reportSimulation", {}))
    first, second = people[:2]
    places = _AVAILABLE.findall(asked)
    goes = [{"character": second, "destination": places[0].split(", ")[-1]}] if places else []
    report = {
        "events": [
            {"description": f"{first} quarrels with {second}.", "witnesses": [first, second]}
        ],
        "movements": goes,
        "learned": [
            {"who": second, "what": f"{first} is afraid.", "source": "told", "from": first}
        ],
        "relationships": [{"who": first, "name": second, "description": "They have quarrelled."}],
    }
    return called(("reportSimulation", report))


def _out_of_sight(asked: str) -> ModelAnswer | None:
    """Answer the agents that write a talk or its summary."""
    if "EXCHANGES: " not in asked:
        return None
    people = list(dict.fromkeys(_PERSON.findall(asked.split("CHARACTERS:", 1)[-1])))
    told: Sequence[str] = [f'{one.upper()}: "The river is rising."' for one in people]
    return ModelAnswer("\n".join(told))
