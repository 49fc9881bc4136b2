"""Plays explorations whose turns were written beforehand, and compares the world after each turn
with the one that the words lead to.

The turns stand in bench/world_turns.toml. Those of a scenario are turns of one chapter, so that a
turn has the narrator's earlier texts before it, as in play.
"""

import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch
from zlib import crc32

from pydantic import BaseModel, ConfigDict

from agents.calling.tool_steps import CallRun, ToolWriting
from agents.flows.replies import store_prompt, write_to_end
from agents.modes import world_now
from agents.prompting.tools import ToolForm
from agents.providers.base import ModelRequest
from agents.providers.embedded import EmbeddedProvider
from agents.running.database import in_database
from explorer.ready import begin_ready
from sessions.models import Attempt, Event, Session
from testing.program import ROOT
from world.names import normalized
from world.state import World

TURNS = ROOT / "bench" / "world_turns.toml"
# How a call ends that was not in the form of its tool, or named no tool.
_NOT_RUN = "It was not run"


class ExploredTurn(BaseModel):
    """The player's words, and what is true in the world afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: str
    place: str
    met: tuple[str, ...] = ()
    waits: bool = False
    new_person: bool = False


class ExploredScenario(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    turns: tuple[ExploredTurn, ...]


@dataclass(frozen=True)
class _Before:
    tick: int
    people: frozenset[str]


def all_scenarios() -> list[ExploredScenario]:
    read = tomllib.loads(TURNS.read_text(encoding="utf-8"))["scenario"]
    return [ExploredScenario.model_validate(one) for one in read]


async def explore(
    scenario: ExploredScenario, turns: int, form: ToolForm
) -> AsyncIterator[dict[str, Any]]:
    """Play the first `turns` turns, with tool calls in this form, and yield a result for each."""
    chapter = await in_database(begin_ready, scenario.name)
    for number, turn in enumerate(scenario.turns[:turns], 1):
        before = await in_database(_before, chapter)
        key = f"{scenario.name}-{number}"
        store = partial(store_prompt, chapter.pk, actor=None, words=turn.words, submission_key=key)
        runs: list[CallRun] = []
        with _in_form(form), _seeded(key), _noted(runs):
            await write_to_end(store)
        yield {
            "form": form,
            "scenario": scenario.name,
            "number": number,
            "words": turn.words,
            **await in_database(_result, chapter, key, turn, before, runs),
        }


@contextmanager
def _in_form(form: ToolForm) -> Iterator[None]:
    with patch("agents.calling.tool_steps.tool_form_for", lambda *_: form):
        yield


@contextmanager
def _seeded(key: str) -> Iterator[None]:
    seeds = count(crc32(key.encode()) % 1_000_000)
    own = EmbeddedProvider.extra_fields

    def fields(provider: EmbeddedProvider, request: ModelRequest) -> dict[str, Any]:
        return {**own(provider, request), "seed": next(seeds)}

    with patch.object(EmbeddedProvider, "extra_fields", fields):
        yield


@contextmanager
def _noted(runs: list[CallRun]) -> Iterator[None]:
    own = ToolWriting._run_all

    async def run_all(writing: ToolWriting, *arguments: Any) -> tuple[CallRun, ...]:
        came = await own(writing, *arguments)
        runs.extend(came)
        return came

    with patch.object(ToolWriting, "_run_all", run_all):
        yield


def _before(chapter: Session) -> _Before:
    world: World = world_now(chapter)
    return _Before(world.tick, frozenset(world.people))


def _result(
    chapter: Session, key: str, turn: ExploredTurn, before: _Before, runs: list[CallRun]
) -> dict[str, Any]:
    attempt = Attempt.objects.get(session=chapter, submission_key=key)
    made = list(attempt.llm_artifacts.order_by("pk"))
    told = attempt.events.filter(role=Event.Role.AGENT).values_list("text", flat=True)
    world: World = world_now(Session.objects.get(pk=chapter.pk))
    return {
        "status": attempt.status,
        "narration": "\n\n".join(told),
        "calls": [f"{run.call.name} {run.call.arguments} -> {run.sentence}" for run in runs],
        "valid": sum(not run.sentence.startswith(_NOT_RUN) for run in runs),
        "wrong": what_is_wrong(world, turn, before.tick, before.people),
        "model_calls": len(made),
        "ms": sum(one.duration_ms or 0 for one in made),
    }


def what_is_wrong(
    world: World, turn: ExploredTurn, tick_before: int, people_before: frozenset[str]
) -> list[str]:
    """Return what the world has otherwise than the turn says, in words. An empty list means that
    the world is right."""
    wrong = []
    if normalized(world.player_location) != normalized(turn.place):
        wrong.append(f"the player is at {world.player_location}")
    met = {one.name for one in world.people.values() if one.is_discovered}
    wrong += [f"{name} is not discovered" for name in turn.met if name not in met]
    new = set(world.people) - people_before
    if turn.new_person != bool(new):
        wrong.append(f"new people: {', '.join(sorted(new)) or 'nobody'}")
    # The player's words take one tick.
    if turn.waits and world.tick <= tick_before + 1:
        wrong.append("no time passed")
    return wrong
