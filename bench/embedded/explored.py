"""Plays explorations on the embedded model whose turns were written beforehand, and compares the
world after each turn with the one that the words lead to. Django has to be set up before.

The turns of a scenario are turns of one chapter, so that a turn has the narrator's earlier texts
before it, as in play.
"""

import time
import tomllib
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from pydantic import BaseModel, ConfigDict

from agents.flows.replies.turns import store_prompt, write_to_end
from agents.running.database import in_database
from bench.embedded.model import seeded
from explorer.played_world import WORLD
from explorer.ready import begin_ready
from explorer.without_tools import offered_places
from sessions.chapter.access import get_chapter
from sessions.models import Attempt, Event, Session
from world.state import World

TURNS = Path(__file__).parent / "world_turns.toml"


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


async def explore_all(
    scenarios: int | None, turns: int, seed: int
) -> AsyncIterator[dict[str, Any]]:
    """Play the first turns of the first scenarios, and yield a result for each turn."""
    read = tomllib.loads(TURNS.read_text(encoding="utf-8"))["scenario"]
    for one in read[:scenarios]:
        async for result in explore(ExploredScenario.model_validate(one), turns, seed):
            yield result


async def explore(
    scenario: ExploredScenario, turns: int, seed: int
) -> AsyncIterator[dict[str, Any]]:
    chapter = await in_database(_begin, scenario.name, seed)
    place = (await in_database(_world, chapter)).player_location
    for number, written in enumerate(scenario.turns[:turns], 1):
        place = written.place or place
        turn = written.model_copy(update={"place": place})
        before = await in_database(_world, chapter)
        key = f"{scenario.name}-{number}"
        store = partial(store_prompt, chapter.pk, actor=None, words=turn.words, submission_key=key)
        began = time.perf_counter()
        with seeded(seed + crc32(key.encode()) % 1_000_000):
            await write_to_end(partial(store, given={"to": turn.click} if turn.click else None))
        seconds = time.perf_counter() - began
        result = await in_database(_result, chapter, key, turn, before)
        result["is_pressed"] = await in_database(_is_offered, chapter, turn)
        if result["is_pressed"]:
            # A user presses the "Go to …?" below the turn.
            key += "-go"
            store = partial(store_prompt, chapter.pk, actor=None, words="", submission_key=key)
            with seeded(seed):
                await write_to_end(partial(store, given={"to": turn.place}))
            moved = await in_database(_result, chapter, key, turn, before)
            result |= moved | {"narration": f"{result['narration']}\n\n{moved['narration']}"}
        yield {
            "scenario": scenario.name,
            "number": number,
            "words": turn.words or f"(to {turn.click})",
            "seconds": seconds,
            **result,
        }


def _begin(name: str, seed: int) -> Session:
    chapter = begin_ready(name)
    # Whom a turn may meet is drawn by the chapter's seed.
    Session.objects.filter(pk=chapter.pk).update(seed=uuid.UUID(int=seed))
    return get_chapter(chapter.pk)


def _world(chapter: Session) -> World:
    return WORLD.now(get_chapter(chapter.pk))


def _result(chapter: Session, key: str, turn: ExploredTurn, before: World) -> dict[str, Any]:
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


def _is_offered(chapter: Session, turn: ExploredTurn) -> bool:
    """Return whether the page offers the place to which the words were meant to lead."""
    chapter, world = get_chapter(chapter.pk), _world(chapter)
    return world.player_location != turn.place in offered_places(chapter, world)


def what_is_wrong(world: World, turn: ExploredTurn, tick_before: int) -> list[str]:
    """Return what the world has otherwise than the turn says, in words."""
    wrong = []
    if world.player_location != (turn.place):
        wrong.append(f"the player is at {world.player_location}")
    known = {one.name for one in world.people.values() if one.is_discovered}
    wrong += [f"{name} is not discovered" for name in turn.met if name not in known]
    # The player's words take one tick.
    if turn.waits and world.tick <= tick_before + 1:
        wrong.append("no time passed")
    return wrong
