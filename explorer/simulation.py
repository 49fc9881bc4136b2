"""What happens out of the player's sight.

After a move, the people at other places talk, part and learn things. A job works it out beside
play, and the next run takes it as a late result.

The thresholds are those of the specification, section 10.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from agents.calling.answers_by_call import ask_for_call
from agents.calling.calls import call_model
from agents.calling.model_access import tier_of
from agents.flows.late_results import finish_with_result
from agents.models import Job
from agents.modes import compose_for, world_of
from agents.prompting.declarations import Agent
from agents.prompting.layer_sources import own_pieces, prompt_file
from agents.prompting.layers import Layer, Piece
from agents.prompting.own_settings import in_chapter
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.prompting.tools import AnswerTool, ToolArguments
from agents.providers.exceptions import ProviderError
from agents.running.database import in_database
from agents.running.job_kinds import JobKind
from agents.running.results import ask_for_result
from agents.running.watch import Watch
from explorer.learned import Lesson, Relationship, is_known, shorten, ties_of
from explorer.places import WHOLE_ANSWER_TOKENS
from explorer.setup import exploration_of
from explorer.setup_parts import LINE_LIMIT
from memory.fold.folding import fold_chapter
from memory.fold.present import present
from sessions.exceptions import ChapterError
from sessions.models import Attempt, Session
from sessions.names import is_named_in
from sessions.world import taken_before, turns_before
from world.changes import MOVED, SIMULATED
from world.state import Person, World

logger = logging.getLogger(__name__)

SIMULATION = "explorer.simulation"
# Up to this many ticks nothing is worked out, up to the next a summary, and beyond it in full. With
# an open thread that names somebody there, it is in full from the last of them on.
_NOTHING_UNTIL, _SUMMARY_UNTIL, _FULL_FROM_WITH_THREAD = 10, 20, 6
MOST_PLACES_OF_A_MOVE = 2
_MOST_EXCHANGES = 8
_LONGEST_SUMMARY = LINE_LIMIT
_MOST_ENTRIES = 20


@dataclass(frozen=True)
class Unseen:
    """A place whose people are simulated: how many ticks nobody saw them, and how fully."""

    place: str
    people: tuple[Person, ...]
    ticks: int
    is_full: bool
    # The tick until which the time is worked out.
    tick: int = 0

    @property
    def exchanges(self) -> int:
        return max(min(self.ticks // 2, _MOST_EXCHANGES), 1)


def find_unseen(world: World, open_threads: Sequence[str]) -> list[Unseen]:
    """Return the places to simulate after a move, the longest unseen first."""
    found = []
    for place in world.places.values():
        people = tuple(world.at(place.name))
        ticks = world.tick - place.unseen_since
        if len(people) < 2 or any(one.is_player for one in people):
            continue
        is_urgent = ticks >= _FULL_FROM_WITH_THREAD and any(
            _is_named_in(thread, one, world) for thread in open_threads for one in people
        )
        is_full = ticks > _SUMMARY_UNTIL or is_urgent
        if is_full or ticks > _NOTHING_UNTIL:
            found.append(Unseen(place.name, people, ticks, is_full, world.tick))
    found.sort(key=lambda one: -one.ticks)
    return found[:MOST_PLACES_OF_A_MOVE]


def _is_named_in(thread: str, person: Person, world: World) -> bool:
    """Return whether the thread of memory names this person by the name, by an alias, or by a part
    of the name that nobody else has, such as Osk of Osk Brandt."""
    parts = (one for one in person.name.split() if one[:1].isupper())
    named = (name for name in (person.name, *person.aliases, *parts) if is_named_in(thread, name))
    return any(world.find_called(name) == person for name in named)


def ask_for_simulation(attempt: Attempt) -> None:
    """Ask for what happened out of sight, if the attempt moved the player and somebody is unseen
    for long enough."""
    moves = attempt.changes.filter(run_id=attempt.run_id, kind=MOVED, step__gt=0)
    if moves.exists() and _plan(attempt):
        ask_for_result(attempt, SIMULATION, SIMULATED)


def _plan(attempt: Attempt) -> list[Unseen]:
    """Return what the attempt's move leaves to work out. What a simulation of an earlier move works
    out, and no run has taken yet, is not worked out again."""
    told: dict[str, int] = {}
    for job in _waiting(attempt):
        if job.result is not None:
            told |= _places_in(job.result)
        elif job.attempt is not None:
            tick = world_of(job.attempt).tick
            told |= {one.place: tick for one in _unseen_after(job.attempt, told)}
    return _unseen_after(attempt, told)


def _waiting(attempt: Attempt) -> Iterable[Job]:
    """Return the simulations of earlier moves that may still bring something, in order."""
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
    """Return the ticks up to which this result tells of its places. The result may come from a
    file, so its form is not sure."""
    places = result.get("places")
    read = [one for one in places if isinstance(one, dict)] if isinstance(places, list) else []
    return {
        one["place"]: one["tick"]
        for one in read
        if isinstance(one.get("place"), str) and isinstance(one.get("tick"), int)
    }


def _unseen_after(attempt: Attempt, told: Mapping[str, int]) -> list[Unseen]:
    """Return the places to simulate after the attempt. `told` has the ticks up to which earlier
    simulations tell of places."""
    world: World = world_of(attempt)
    places = {
        name: replace(one, unseen_since=max(one.unseen_since, told.get(name, 0)))
        for name, one in world.places.items()
    }
    return find_unseen(replace(world, places=places), _open_threads(attempt))


def _open_threads(attempt: Attempt) -> list[str]:
    """Return the open threads of memory before the attempt's turn."""
    number = attempt.turn.number if attempt.turn else None
    folded = fold_chapter(attempt.session, before=number)
    return [one.text for one in present(folded).open_threads]


class Happened(ToolArguments):
    description: str = Field(min_length=1, max_length=LINE_LIMIT)
    witnesses: list[str] = Field(max_length=_MOST_ENTRIES)


class Movement(ToolArguments):
    character: str = Field(min_length=1)
    destination: str = Field(min_length=1)


class SimulationReport(ToolArguments):
    events: list[Happened] = Field(default=[], max_length=_MOST_ENTRIES)
    movements: list[Movement] = Field(default=[], max_length=_MOST_ENTRIES)
    learned: list[Lesson] = Field(default=[], max_length=_MOST_ENTRIES)
    relationships: list[Relationship] = Field(default=[], max_length=_MOST_ENTRIES)


REPORT = AnswerTool(
    "reportSimulation", "Reports what happened in the conversation.", SimulationReport
)


def _agent(name: str, title: str, prompt: str, temperature: float) -> Agent:
    return Agent(
        None,
        name,
        title,
        "o4-mini",
        output_tokens=WHOLE_ANSWER_TOKENS,
        reasoning_tokens=2_000,
        temperature=temperature,
        layers=(
            LayerDeclaration("SYSTEM", prompt_file(prompt), role="system", has_heading=False),
            LayerDeclaration("OUT_OF_SIGHT", own_pieces("OUT_OF_SIGHT")),
            LayerDeclaration("CONVERSATION", own_pieces("CONVERSATION")),
        ),
        reasoning_effort="low",
        is_background=True,
        retry_waits=(1, 2, 4),
    )


SUMMARY_AGENT = _agent("explorer.summary", "What happened meanwhile", "explorer.summary", 0.7)
DIALOGUE_AGENT = _agent("explorer.dialogue", "Talk out of sight", "explorer.dialogue", 0.9)
REPORT_AGENT = _agent("explorer.report", "Report of the talk", "explorer.report", 0.1)


async def simulate(job: Job, watch: Watch) -> None:
    """Work out what happened at each place. A place that fails is skipped, and the result says
    so."""
    attempt, world, unseen = await in_database(_read, job)
    places: list[dict[str, Any]] = []
    skipped: list[str] = []
    for one in unseen:
        try:
            places.append(await _simulate(job, attempt, world, one))
        except (ProviderError, ChapterError) as error:
            logger.warning("job %s: a place is skipped: %s", job.pk, type(error).__name__)
            skipped.append(one.place)
    result = {"places": places, "skipped": skipped}
    shorten(result, [part for one in places for part in one.values() if isinstance(part, list)])
    await in_database(finish_with_result, job, result)


def _read(job: Job) -> tuple[Attempt, World, list[Unseen]]:
    assert job.attempt is not None, "A simulation is asked for by an attempt."
    attempt = Attempt.objects.select_related("session", "turn").get(pk=job.attempt.pk)
    world: World = world_of(attempt)
    return attempt, world, _plan(attempt)


async def _simulate(job: Job, attempt: Attempt, world: World, one: Unseen) -> dict[str, Any]:
    result: dict[str, Any] = {"place": one.place, "tick": world.tick}
    chapter = attempt.session
    about = {"OUT_OF_SIGHT": [Piece(_told(chapter, world, one))]}
    if not one.is_full:
        summary = in_chapter(SUMMARY_AGENT, chapter)
        reply = await call_model(
            summary, job.session_id, _composing(summary, attempt, about), job_id=job.pk
        )
        text = " ".join(reply.text.split())[:_LONGEST_SUMMARY]
        witnesses = [person.name for person in one.people]
        return result | {"events": [_event(text, one, witnesses)]}
    dialogue, reporter = in_chapter(DIALOGUE_AGENT, chapter), in_chapter(REPORT_AGENT, chapter)
    talk = await call_model(
        dialogue, job.session_id, _composing(dialogue, attempt, about), job_id=job.pk
    )
    heard = about | {"CONVERSATION": [Piece(talk.text)]}
    report = await ask_for_call(
        reporter,
        job.session_id,
        _composing(reporter, attempt, heard),
        REPORT,
        job_id=job.pk,
    )
    return result | _kept(report, world, one)


def _composing(agent: Agent, attempt: Attempt, pieces: dict[str, list[Piece]]) -> Any:
    def compose() -> list[Layer]:
        subject = Subject(attempt.session, attempt=attempt, own_pieces=pieces)
        return compose_for(agent, subject, tier_of(agent))

    return compose


def _told(chapter: Session, world: World, one: Unseen) -> str:
    """Return what the simulation is told: who is there, with what they know, and nobody else."""
    others = ", ".join(name for name in world.places if name != one.place) or "None yet"
    return "\n".join(
        [
            f"PLACE: {one.place}",
            f"TIME: {world.narrative_time or 'Unknown'}",
            f"TIME THAT PASSED: {one.ticks} ticks",
            f"EXCHANGES: {one.exchanges}",
            "CHARACTERS:",
            *_people(one),
            f"AVAILABLE LOCATIONS: {others}",
            f"SCENARIO: {exploration_of(chapter).description}",
        ]
    )


def _people(one: Unseen) -> Iterator[str]:
    for person in one.people:
        yield f"- {person.name}: {' '.join(person.description.split())}"
        if person.goals:
            yield f"    Goal: {' '.join(person.goals.split())}"
        if person.knowledge:
            yield f"    Knows: {'; '.join(known.content for known in person.knowledge[-5:])}"
        for name, text in person.relationships.items():
            yield f"    To {name}: {text}"


def _event(text: str, one: Unseen, witnesses: Sequence[str]) -> dict[str, Any]:
    return {
        "description": text,
        "location": one.place,
        "witnesses": list(witnesses),
        "is_learned": True,
        "tick": one.tick,
    }


def _kept(report: SimulationReport, world: World, one: Unseen) -> dict[str, Any]:
    """Return what the report says of people who are at the place, and of places that exist."""

    def name_of(name: str) -> str:
        person = world.find_called(name, one.people)
        return person.name if person is not None and person in one.people else ""

    events = []
    for event in report.events:
        witnesses = list(dict.fromkeys(filter(None, map(name_of, event.witnesses))))
        if witnesses:
            events.append(_event(event.description, one, witnesses))
    movements = []
    for move in report.movements:
        to, who = world.find_place(move.destination), name_of(move.character)
        if who and to is not None and to.name != one.place:
            movements.append({"who": who, "to": to.name})
    ties = ties_of(report.relationships, who=name_of, others=name_of)
    told = [event["description"] for event in events]
    learned = [
        {"who": who, "content": lesson.what, "source": lesson.source, "tick": world.tick}
        | {"from": name_of(lesson.from_whom)}
        for lesson in report.learned
        # A lesson that only repeats an event would stand there twice.
        if (who := name_of(lesson.who)) and not is_known(lesson.what, told)
    ]
    return {"events": events, "movements": movements, "learned": learned, "relationships": ties}


SIMULATION_JOB = JobKind(run=simulate)
