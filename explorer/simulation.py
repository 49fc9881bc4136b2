"""Works out what happens out of the player's sight.

After a move or a long wait, the people at other places talk, part and learn things. A job works it
out beside play, and the next run takes it as a late result.
"""

import logging
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from agents.calling.answers_by_call import ask_for_call
from agents.calling.calls import Reply, call_model
from agents.calling.model_access import model_of
from agents.calling.prepared_calls import Compose
from agents.flows.remembering.late_results import finish_with_result
from agents.llm.providers.failures.call_errors import ModelDeclined, ProviderError
from agents.models import Job
from agents.modes.registry import compose_for
from agents.prompting.agent import Agent, in_chapter
from agents.prompting.cleaning.declining import is_refusal
from agents.prompting.layer_sources import own_pieces, prompt_file
from agents.prompting.layers import Layer, Piece
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.prompting.tools import AnswerTool, ToolArguments
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch
from agents.running.results import ask_for_result
from explorer.learned import Lesson, Relationship, is_known, shorten, ties_of
from explorer.out_of_sight import out_of_sight, told_out_of_sight
from explorer.places import WHOLE_ANSWER_TOKENS
from explorer.played_world import WORLD
from explorer.setup_parts import LINE_LIMIT
from explorer.stretch import ToldStretch, told_stretch
from explorer.unseen import NOTHING_UNTIL, SIMULATION, Unseen, plan, worked_out_before
from sessions.exceptions import ChapterError
from sessions.models import Attempt
from world.changes import MOVED, SIMULATED, TIME
from world.state import World

logger = logging.getLogger(__name__)

_LONGEST_SUMMARY = LINE_LIMIT
_MOST_ENTRIES = 20


def ask_for_simulation(attempt: Attempt) -> None:
    """Ask for a simulation of what happened out of sight, if the attempt moved the player or let
    much time pass, and somebody is unseen for long enough."""
    world = WORLD.of(attempt)
    if _passes_time(attempt, world) and plan(attempt, world):
        ask_for_result(attempt, SIMULATION, SIMULATED)


def _passes_time(attempt: Attempt, world: World) -> bool:
    """Return whether the player has moved in the attempt's run, or has waited so long that somebody
    counts as unseen."""
    player = world.player
    of_run = attempt.changes.filter(run_id=attempt.run_id, kind__in=(MOVED, TIME))
    return any(
        (player is not None and player.name in payload["who"])
        if kind == MOVED
        else payload["ticks"] > NOTHING_UNTIL
        for kind, payload in of_run.values_list("kind", "payload")
    )


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
            LayerDeclaration("OUT_OF_SIGHT", out_of_sight),
            LayerDeclaration("CONVERSATION", own_pieces("CONVERSATION")),
        ),
        occasion="In the background, after you left people or waited, and when you come back",
        reasoning_effort="low",
        is_background=True,
        retry_waits=(1, 2, 4),
    )


SUMMARY_AGENT = _agent("explorer.summary", "What happened meanwhile", "explorer.summary", 0.7)
DIALOGUE_AGENT = _agent("explorer.dialogue", "Talk out of sight", "explorer.dialogue", 0.9)
REPORT_AGENT = _agent("explorer.report", "Report of the talk", "explorer.report", 0.1)


async def simulate(job: Job, watch: Watch) -> None:
    """Work out what happened at each place. If the call for a place fails, the place is skipped,
    and the result says so."""
    attempt, played, unseen = await in_database(_read, job)
    before = await in_database(worked_out_before, attempt)
    places: list[dict[str, Any]] = []
    skipped: list[str] = []
    for one in unseen:
        if one.key in before:
            places.append(before[one.key])
            continue
        try:
            places.append(await _simulate(job, attempt, played, one))
        except (ProviderError, ChapterError) as error:
            logger.warning("job %s: a place is skipped: %s", job.pk, type(error).__name__)
            skipped.append(one.place)
    result = {"places": places, "skipped": skipped}
    shorten(result, [part for one in places for part in one.values() if isinstance(part, list)])
    await in_database(finish_with_result, job, result)


def _read(job: Job) -> tuple[Attempt, ToldStretch, list[Unseen]]:
    assert job.attempt is not None, "A simulation is asked for by an attempt."
    attempt = Attempt.objects.select_related("session", "turn").get(pk=job.attempt.pk)
    played = told_stretch(attempt, 1)
    return attempt, played, plan(attempt, played.world)


async def _simulate(job: Job, attempt: Attempt, played: ToldStretch, one: Unseen) -> dict[str, Any]:
    result = entry_of(one, played.world.narrative_time)
    chapter = attempt.session
    told = await in_database(told_out_of_sight, attempt, played, one)
    about = {"OUT_OF_SIGHT": [Piece(told)]}
    summary = in_chapter(SUMMARY_AGENT, chapter)
    # A full simulation is a talk, which would take a small model minutes to write.
    if not one.is_full or model_of(summary).is_small:
        told_there = await _tell(job, summary, _composing(summary, attempt, about))
        return result | {"events": [summed_up(told_there, one)]}
    dialogue, reporter = in_chapter(DIALOGUE_AGENT, chapter), in_chapter(REPORT_AGENT, chapter)
    talk = await _tell(job, dialogue, _composing(dialogue, attempt, about))
    heard = about | {"CONVERSATION": [Piece(talk)]}
    report = await ask_for_call(
        reporter,
        job.session_id,
        _composing(reporter, attempt, heard),
        REPORT,
        job_id=job.pk,
    )
    return result | _kept(report, played.world, one)


async def _tell(job: Job, agent: Agent, compose: Compose) -> str:
    """Return the agent's answer. Raises ModelDeclined for a refusal, because the answer becomes a
    part of the world."""
    is_small = model_of(agent).is_small

    def check(reply: Reply) -> None:
        if is_refusal(reply.text, of_small_model=is_small):
            raise ModelDeclined("The model declined as a program does, so nothing of it was taken.")

    reply = await call_model(
        agent, job.session_id, compose, validate=check, is_prose=True, job_id=job.pk
    )
    return reply.text


def _composing(agent: Agent, attempt: Attempt, pieces: dict[str, list[Piece]]) -> Any:
    def compose() -> list[Layer]:
        subject = Subject(attempt.session, attempt=attempt, own_pieces=pieces)
        return compose_for(agent, subject, model_of(agent).tier)

    return compose


def entry_of(one: Unseen, time: str) -> dict[str, Any]:
    """Return the entry of a place in the change SIMULATED, without the events at the place."""
    people = [person.name for person in one.people]
    return {"place": one.place, "tick": one.until, "until": time, "people": people}


def summed_up(text: str, one: Unseen) -> dict[str, Any]:
    """Return the event that a summary tells. Everybody at the place knows of this event."""
    told = " ".join(text.split())[:_LONGEST_SUMMARY]
    return _event(told, one, [person.name for person in one.people])


def _event(text: str, one: Unseen, witnesses: Sequence[str]) -> dict[str, Any]:
    return {
        "description": text,
        "location": one.place,
        "witnesses": list(witnesses),
        "is_learned": True,
        "tick": one.until,
    }


def _kept(report: SimulationReport, world: World, one: Unseen) -> dict[str, Any]:
    """Return the parts of the report about people who are at the place, and about places that
    exist."""

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
        # A lesson that only repeats an event is left out, because the witnesses know the event
        # already.
        if (who := name_of(lesson.who)) and not is_known(lesson.what, told)
    ]
    return {"events": events, "movements": movements, "learned": learned, "relationships": ties}


SIMULATION_JOB = JobKind(run=simulate)
