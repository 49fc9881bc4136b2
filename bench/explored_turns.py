"""Plays explorations on the embedded model whose turns were written beforehand, and compares the
world after each turn with the one that the words lead to.

This is a program of its own, because it needs Django's settings: python -m bench.explored_turns
JSON, an object with the options of `bench.embedded_worlds`. It prints one JSON object for each
turn. While the model starts, it prints the model's messages for people. The turns of a scenario are
turns of one chapter, so that a turn has the narrator's earlier texts before it, as in play.
"""

import asyncio
import json
import os
import sys
import time
import tomllib
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from zlib import crc32

import django
from pydantic import BaseModel, ConfigDict

from bench.embedded_jobs import wait_for_model
from testing.program import ROOT

if TYPE_CHECKING:
    from sessions.models import Session
    from world.state import World

TURNS = ROOT / "bench" / "world_turns.toml"


class ExploredTurn(BaseModel):
    """The player's words, or the place that the player clicks, and what is true in the world
    afterwards: where the player is ("" for the place of the turn before), who has been met, and
    whether time has passed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: str = ""
    click: str = ""
    place: str = ""
    met: tuple[str, ...] = ()
    waits: bool = False


class ExploredScenario(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    turns: tuple[ExploredTurn, ...]


def all_scenarios(file: Path = TURNS) -> list[ExploredScenario]:
    read = tomllib.loads(file.read_text(encoding="utf-8"))["scenario"]
    return [ExploredScenario.model_validate(one) for one in read]


async def play(options: Mapping[str, Any]) -> None:
    scenarios = all_scenarios(Path(options["turns_file"]))
    for scenario in scenarios[: options["scenarios"]]:
        async for result in explore(scenario, options):
            print(json.dumps(result), flush=True)


async def explore(
    scenario: ExploredScenario, options: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """Play the first turns of the scenario, and yield a result for each."""
    from agents.flows.replies.turns import store_prompt, write_to_end
    from agents.running.database import in_database

    seed = options["seed"]
    chapter = await in_database(_begin, scenario.name, options["scenario_file"], seed)
    place = (await in_database(_world, chapter)).player_location
    for number, written in enumerate(scenario.turns[: options["turns"]], 1):
        place = written.place or place
        turn = written.model_copy(update={"place": place})
        before = await in_database(_world, chapter)
        key = f"{scenario.name}-{number}"
        store = partial(store_prompt, chapter.pk, actor=None, words=turn.words, submission_key=key)
        began = time.perf_counter()
        with _seeded(seed + crc32(key.encode()) % 1_000_000):
            await write_to_end(partial(store, given={"to": turn.click} if turn.click else None))
        seconds = time.perf_counter() - began
        result = await in_database(_result, chapter, key, turn, before)
        result["is_pressed"] = await in_database(_is_offered, chapter, turn)
        if result["is_pressed"]:
            # A user presses the "Go to …?" below the turn.
            press = partial(
                store_prompt, chapter.pk, actor=None, words="", given={"to": turn.place}
            )
            with _seeded(seed):
                await write_to_end(partial(press, submission_key=f"{key}-go"))
            moved = await in_database(_result, chapter, f"{key}-go", turn, before)
            result |= moved | {"narration": f"{result['narration']}\n\n{moved['narration']}"}
        yield {
            "scenario": scenario.name,
            "number": number,
            "words": turn.words or f"(to {turn.click})",
            "seconds": seconds,
            **result,
        }


def _begin(name: str, file: str, seed: int) -> "Session":
    from agents.flows.beginning.locking import lock_without_a_model
    from explorer.ready import begin_ready
    from explorer.scenario_file import begin_from
    from sessions.models import Session

    if file:
        chapter = begin_from(Path(file).read_bytes())
        assert chapter is not None, f"{file} is no scenario."
        lock_without_a_model(chapter.pk)
    else:
        chapter = begin_ready(name)
    # Whom a turn may meet is drawn by the chapter's seed.
    Session.objects.filter(pk=chapter.pk).update(seed=uuid.UUID(int=seed))
    return Session.objects.get(pk=chapter.pk)


def _world(chapter: "Session") -> "World":
    from explorer.played_world import WORLD
    from sessions.chapter.access import get_chapter

    return WORLD.now(get_chapter(chapter.pk))


@contextmanager
def _seeded(first: int) -> Iterator[None]:
    from agents.llm.providers.embedded_provider import EmbeddedProvider

    seeds, own = count(first), EmbeddedProvider.extra_fields

    def fields(provider: EmbeddedProvider, request: Any) -> dict[str, Any]:
        return {**own(provider, request), "seed": next(seeds)}

    with patch.object(EmbeddedProvider, "extra_fields", fields):
        yield


def _result(chapter: "Session", key: str, turn: ExploredTurn, before: "World") -> dict[str, Any]:
    from sessions.models import Attempt, Event

    attempt = Attempt.objects.get(session_id=chapter.pk, submission_key=key)
    told = attempt.events.filter(role=Event.Role.AGENT).values_list("text", flat=True)
    world = _world(chapter)
    place, here = world.player_location, [one.name for one in world.present()]
    return {
        "status": attempt.status,
        "narration": "\n\n".join(told),
        "wrong": what_is_wrong(world, turn, before.tick),
        "here": here,
        "kept": [fact.content for one in world.people.values() for fact in one.kept],
        "place": place,
        "given": " ".join((turn.words, world.places[place].description, *here)),
        "model_calls": attempt.llm_artifacts.count(),
    }


def _is_offered(chapter: "Session", turn: ExploredTurn) -> bool:
    """Return whether the page offers the place to which the words were meant to lead."""
    from explorer.without_tools import offered_places
    from sessions.chapter.access import get_chapter

    chapter, world = get_chapter(chapter.pk), _world(chapter)
    return world.player_location != turn.place in offered_places(chapter, world)


def what_is_wrong(world: "World", turn: ExploredTurn, tick_before: int) -> list[str]:
    """Return what the world has otherwise than the turn says, in words. An empty list means that
    the world is right."""
    wrong = []
    if world.player_location != (turn.place):
        wrong.append(f"the player is at {world.player_location}")
    known = {one.name for one in world.people.values() if one.is_discovered}
    wrong += [f"{name} is not discovered" for name in turn.met if name not in known]
    # The player's words take one tick.
    if turn.waits and world.tick <= tick_before + 1:
        wrong.append("no time passed")
    return wrong


def main(options: dict[str, Any]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    wait_for_model()
    asyncio.run(play(options))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
