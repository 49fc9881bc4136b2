"""Checks of chapters that are played in a world of places and people.

These are further rules of `chaos.invariants`. They fold the rows of the changes by themselves, and
compare the result with the world that the program reports.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from chaos.follow_ups import chosen_attempts

Rows = dict[str, Any]
# What a secret in the scenario of a mode looks like.
SECRET = re.compile(r"\[secret of (.+?)\]")
# The kind of job that works out what happens out of sight.
SIMULATION = "explorer.simulation"
# A place that nobody saw for more ticks than these is due, if two people are there.
MOST_UNSEEN = 10


def world_is_a_fold(chapter: Rows, _read_at: float) -> Iterator[str]:
    """The world is the one of Tab 1 with the changes of the chosen attempts, each in its order."""
    if not chapter["world"]:
        return
    state = _State(chapter["first_world"])
    for change in _changes_that_count(chapter):
        state.apply(change["kind"], change["payload"])
    told = _State(chapter["world"])
    for name in vars(state):
        if getattr(state, name) != getattr(told, name):
            yield f"{name} is {getattr(told, name)}, and the changes give {getattr(state, name)}"


def nobody_is_double(chapter: Rows, _read_at: float) -> Iterator[str]:
    """No two people and no two places of the world have the same name, articles and case aside. In
    the chosen attempts, nobody joins the cast twice."""
    if not chapter["world"]:
        return
    for kind in ("people", "places"):
        count = Counter(_plain(name) for name in chapter["world"][kind])
        if doubles := [name for name, times in count.items() if times > 1]:
            yield f"{kind} are double: {doubles}"
    joined = Counter(
        _plain(change["payload"]["name"])
        for change in _changes_that_count(chapter)
        if change["kind"] == "person"
    )
    if doubles := [name for name, times in joined.items() if times > 1]:
        yield f"people joined the cast twice: {doubles}"


def secrets_are_kept(chapter: Rows, _read_at: float) -> Iterator[str]:
    """What only one person knows is in no memory. It is in a request only if the request shows this
    person as present, to the narrator of play or to those who work out what happens out of
    sight."""
    for block in chapter["blocks"]:
        if SECRET.search(block["text"]):
            yield f"the block {block['from_prompt_index']} to {block['to_prompt_index']} has one"
    for call in chapter["calls"]:
        for holder in set(SECRET.findall(call["text"])):
            present = call["text"].rsplit("CHARACTERS PRESENT", 1)[-1]
            people = present.rsplit("CHARACTERS:", 1)[-1]
            before = call["text"].split("## WORLD_NOW", 1)[0].split("## OUT_OF_SIGHT", 1)[0]
            if f"- {holder}:" not in people or SECRET.search(before):
                yield f"call {call['call_id']} has the secret of {holder}"


def simulations_are_told(chapter: Rows, _read_at: float) -> Iterator[str]:
    """A job that was done says of each place what happened, or that it was skipped."""
    for job in chapter["jobs"]:
        if job["kind"] != SIMULATION:
            continue
        result = job["result"] or {}
        if job["status"] == "done" and not (result.get("places") or result.get("skipped")):
            yield f"{job['job_id']} is done and tells nothing"
        if job["status"] == "failed":
            yield f"{job['job_id']} failed, instead of skipping a place"


def simulations_were_asked_for(chapter: Rows, _read_at: float) -> Iterator[str]:
    """If the narrator moved the player in a chosen attempt, and afterwards two people are at a
    place that was unseen for long, a job was stored with the attempt.

    A job may tell of fewer places than are due. So after each job the rule counts the ticks of all
    places anew, and it may miss one, but never blames a right chapter. A copy of a chapter has only
    the jobs of its end.
    """
    if not chapter["world"] or chapter["origin_id"]:
        return
    asked = {job["attempt_id"] for job in chapter["jobs"] if job["kind"] == SIMULATION}
    state = _State(chapter["first_world"])
    for attempt_id, attempt in chosen_attempts(chapter).items():
        changes = list(_changes_of(chapter, attempt_id, attempt))
        for change in changes:
            state.apply(change["kind"], change["payload"])
        if attempt_id in asked:
            state.unseen_since = dict.fromkeys(state.places, state.tick)
        elif any(one["kind"] == "world.moved" and one["step"] > 0 for one in changes):
            for place in state.unseen():
                yield f"turn {attempt['number']} left {place} unseen, and no job was stored"


def _changes_that_count(chapter: Rows) -> Iterator[Rows]:
    """Yield the changes of the chosen attempts in the order of the turns."""
    for attempt_id, attempt in chosen_attempts(chapter).items():
        yield from _changes_of(chapter, attempt_id, attempt)


def _changes_of(chapter: Rows, attempt_id: str, attempt: Rows) -> Iterator[Rows]:
    """Yield the changes of the attempt's committed run, and then those of acts."""
    changes = [one for one in chapter["changes"] if one["attempt_id"] == attempt_id]
    for run in (attempt["run_id"], None):
        of_run = [one for one in changes if one["run_id"] == run]
        yield from sorted(of_run, key=lambda one: int(one["position"]))


def _plain(name: str) -> str:
    return " ".join(word for word in name.casefold().split() if word not in ("a", "an", "the"))


class _State:
    """What the rules compare of a world: who is where and known, what everybody has learned, the
    places and the clock. `unseen_since` has for each place the tick at which the player was last
    there, or up to which a simulation has told of it."""

    def __init__(self, world: Rows) -> None:
        self.tick: int = world["tick"]
        self.time: str = world["narrative_time"]
        places = world["places"]
        self.places: set[str] = set(places)
        self.unseen_since: dict[str, int] = {
            name: place.get("unseen_since", 0) for name, place in places.items()
        }
        people = world["people"]
        self.at: dict[str, str] = {name: one["location"] for name, one in people.items()}
        self.met: set[str] = {name for name, one in people.items() if one["is_discovered"]}
        self.knows: dict[str, set[str]] = {
            name: {known["content"] for known in one["knowledge"]} for name, one in people.items()
        }
        self.player: str = next(name for name, one in people.items() if one["is_player"])

    def apply(self, kind: str, payload: Rows) -> None:
        match kind.removeprefix("world."):
            case "time":
                self._pass(payload)
            case "place":
                self.places.add(payload["name"])
                self.unseen_since.setdefault(payload["name"], self.tick)
            case "moved":
                self._move(payload)
            case "met":
                self._meet(payload)
            case "remembered":
                self._take(payload)
            case "simulated":
                for one in payload["places"]:
                    self._take(one)
                    if self.unseen_since.get(one["place"], one["tick"]) < one["tick"]:
                        self.unseen_since[one["place"]] = one["tick"]

    def unseen(self) -> list[str]:
        """Return the places that are due, if a move ends now."""
        return [
            place
            for place, since in self.unseen_since.items()
            if self.tick - since > MOST_UNSEEN
            and self.at[self.player] != place
            and list(self.at.values()).count(place) > 1
        ]

    def _move(self, payload: Rows) -> None:
        seen = {*(self.at[name] for name in payload["who"]), payload["to"]}
        self.at |= dict.fromkeys(payload["who"], payload["to"])
        self._pass(payload)
        if self.player in payload["who"]:
            self.unseen_since |= dict.fromkeys(seen & self.places, self.tick)

    def _pass(self, payload: Rows) -> None:
        self.tick += payload.get("ticks", 0)
        self.time = payload.get("narrative_time") or self.time

    def _meet(self, payload: Rows) -> None:
        name = payload["name"]
        if name not in self.at:
            self.at[name], self.knows[name] = payload["location"], set()
        self.met.add(name)

    def _take(self, told: Rows) -> None:
        for event in told.get("events", ()):
            if event.get("is_learned"):
                for name in event["witnesses"]:
                    self._learn(name, event["description"])
        for lesson in told.get("learned", ()):
            self._learn(lesson["who"], lesson["content"])
        for one in told.get("movements", ()):
            if self.at.get(one["who"]) == told["place"] != self.at[self.player]:
                self.at[one["who"]] = one["to"]

    def _learn(self, name: str, content: str) -> None:
        if name in self.knows:
            self.knows[name].add(content)


def mark_of(text: str) -> str:
    """Return the text if it has a secret, and otherwise "". Most texts have none, and are long."""
    return text if SECRET.search(text) else ""


def as_rows(world: Any) -> Rows | None:
    """Return a world as JSON if it has places and people, or None for another one."""
    has_places = hasattr(world, "places") and hasattr(world, "people")
    rows: Rows | None = json.loads(json.dumps(_plain_data(world))) if has_places else None
    return rows


def _plain_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_data(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain_data(one) for one in value]
    if hasattr(value, "__dict__"):
        return _plain_data(vars(value))
    return value
