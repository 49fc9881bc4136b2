"""Finds the places that the player has not seen for so long that a simulation has to work out what
happened there, and decides how full this simulation is.

The thresholds are those of the specification, section 10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.models import Job
from explorer.played_world import WORLD
from memory.fold.folding import fold_chapter
from memory.fold.present import present
from sessions.language.mentions import is_named_in
from sessions.models import Attempt, Change
from sessions.play.played_world import taken_before, turns_before
from world.changes import SIMULATED
from world.state import Person, World

SIMULATION = "explorer.simulation"
# The limits in ticks. Up to the first limit, nothing is worked out. Up to the second limit, a
# summary is worked out, and beyond it a full simulation. If an open thread names somebody at the
# place, the simulation is full from the third limit on.
NOTHING_UNTIL, _SUMMARY_UNTIL, _FULL_FROM_WITH_THREAD = 10, 20, 6
MOST_PLACES_OF_A_MOVE = 2
_MOST_EXCHANGES = 8
# Simulations that were worked out, by `Unseen.key`.
WorkedOut = dict[tuple[str, int, tuple[str, ...]], dict[str, Any]]


@dataclass(frozen=True)
class Unseen:
    """A place whose people are simulated: for how many ticks they were unseen, and whether the
    simulation is full. The simulation reaches until the tick `until`."""

    place: str
    people: tuple[Person, ...]
    ticks: int
    is_full: bool
    until: int

    @property
    def key(self) -> tuple[str, int, tuple[str, ...]]:
        """Another attempt at the same turn takes the simulation of this attempt if it has the same
        key: the place, the time and the people."""
        return self.place, self.until, tuple(sorted(one.name for one in self.people))

    @property
    def exchanges(self) -> int:
        return max(min(self.ticks // 2, _MOST_EXCHANGES), 1)


def find_unseen(world: World, open_threads: Sequence[str]) -> list[Unseen]:
    """Return the places to simulate: those with a talk first, and the longest unseen first."""
    found = []
    for place in world.places:
        one = unseen_at(world, place)
        if one is None or place == world.player_location:
            continue
        is_urgent = one.ticks >= _FULL_FROM_WITH_THREAD and any(
            names_person(thread, person, world) for thread in open_threads for person in one.people
        )
        # Somebody who is alone talks to nobody.
        is_full = len(one.people) > 1 and (one.ticks > _SUMMARY_UNTIL or is_urgent)
        if is_full or one.ticks > NOTHING_UNTIL:
            found.append(replace(one, is_full=is_full))
    # People who are alone somewhere must not keep two others from talking for turns on end.
    found.sort(key=lambda one: (not one.is_full, -one.ticks))
    return found[:MOST_PLACES_OF_A_MOVE]


def unseen_at(world: World, place: str) -> Unseen | None:
    """Return this place with its unseen people, for a summary, or None if nobody is there. The time
    counts from the latest arrival of these people."""
    people = tuple(one for one in world.at(place) if not one.is_player)
    if not people:
        return None
    since = max(world.places[place].unseen_since, *(one.arrived_at for one in people))
    return Unseen(place, people, world.tick - since, is_full=False, until=world.tick)


def names_person(text: str, person: Person, world: World) -> bool:
    """Return whether the text names this person by the name, by an alias, or by a part of the name
    that nobody else has, such as Osk of Osk Brandt."""
    parts = (one for one in person.name.split() if one[:1].isupper())
    named = (name for name in (person.name, *person.aliases, *parts) if is_named_in(text, name))
    return any(world.find_called(name) == person for name in named)


def plan(attempt: Attempt, world: World) -> list[Unseen]:
    """Return the places to simulate after the attempt with this world. The time that a simulation
    for an earlier attempt covers is not simulated again, even if no run has taken its result
    yet."""
    return find_unseen(seen_until(world, told_until(attempt)), _open_threads(attempt))


def told_until(attempt: Attempt) -> dict[str, int]:
    """For each place in the simulations for earlier attempts that no run has taken yet, return the
    last tick that they tell of."""
    told: dict[str, int] = {}
    for job in _waiting(attempt):
        if job.result is not None:
            told |= _places_in(job.result)
        elif job.attempt is not None:
            earlier = seen_until(WORLD.of(job.attempt), told)
            unseen = find_unseen(earlier, _open_threads(job.attempt))
            told |= {one.place: one.until for one in unseen}
    return told


def _waiting(attempt: Attempt) -> Iterable[Job]:
    """Return the simulations for earlier attempts that may still bring a result, in order."""
    jobs = Job.objects.filter(
        session_id=attempt.session_id,
        kind=SIMULATION,
        attempt__in=turns_before(attempt).order_by().values("chosen"),
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING, Job.Status.DONE),
    )
    taken = taken_before(attempt).order_by().values("result")
    waiting = jobs.exclude(pk__in=taken).order_by("to_prompt_index")
    return waiting.select_related("attempt__session", "attempt__turn")


def _places_in(result: Mapping[str, Any]) -> dict[str, int]:
    """For each place of this result, return the last tick that the result tells of."""
    return {one["place"]: one["tick"] for one in _entries_of(result)}


def _entries_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entry of each place in the result. The result may come from a file, so its form is
    not certain."""
    places = result.get("places")
    read = [one for one in places if isinstance(one, dict)] if isinstance(places, list) else []
    return [
        one
        for one in read
        if isinstance(one.get("place"), str) and isinstance(one.get("tick"), int)
    ]


def worked_out_before(attempt: Attempt) -> WorkedOut:
    """Return the simulations that were worked out for other attempts at the same turn, by
    `Unseen.key`."""
    if attempt.turn is None:
        return {}
    others = Attempt.objects.filter(turn=attempt.turn).exclude(pk=attempt.pk)
    jobs = Job.objects.filter(attempt__in=others, kind=SIMULATION, result__isnull=False)
    changes = Change.objects.filter(attempt__in=others, kind=SIMULATED, step__gt=0)
    results = [*jobs.values_list("result", flat=True), *changes.values_list("payload", flat=True)]
    return {
        (entry["place"], entry["tick"], tuple(sorted(entry["people"]))): entry
        for result in results
        for entry in _entries_of(result or {})
        if _are_names(entry.get("people"))
    }


def _are_names(people: object) -> bool:
    return isinstance(people, list) and all(isinstance(one, str) for one in people)


def seen_until(world: World, told: Mapping[str, int]) -> World:
    """Return the world with each of these places seen until its tick."""
    places = {
        name: replace(one, unseen_since=max(one.unseen_since, told.get(name, 0)))
        for name, one in world.places.items()
    }
    return replace(world, places=places)


def _open_threads(attempt: Attempt) -> list[str]:
    """Return the open threads of memory before the attempt's turn."""
    number = attempt.turn.number if attempt.turn else None
    folded = fold_chapter(attempt.session, before=number)
    return [one.text for one in present(folded).open_threads]
