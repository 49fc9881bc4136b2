"""Plays scenes whose prompts were written beforehand, and says of each reply what a program can
say. Django has to be set up before.

A scene is a starter, in the folder reply_scenes or among the program's own. Its prompts have a file
in reply_scenes/prompts. The replies of a scene are turns of one chapter, so that a prompt has
the earlier replies before it, as in play. No memory is written meanwhile, because a character is
told so short a chapter word for word anyway.
"""

import tomllib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

from pydantic import BaseModel, ConfigDict

from agents.flows.beginning.from_starters import begin_starter
from agents.flows.replies.turns import store_prompt, write_to_end
from agents.flows.replies.warmup import settle_warmup, warm_reply
from agents.prompting.cleaning.reply_rules import (
    Asked,
    broken_rules,
    has_speech,
    says_again,
    shared_terms,
)
from agents.running.database import in_database
from bench.embedded.model import seeded
from sessions.chapter import starters
from sessions.models import Attempt, Event, Session

FOLDER = Path(__file__).parent / "reply_scenes"
FAILED = "failed"


class ScenePrompt(BaseModel):
    """A prompt to the character `to`. `things` are the things that the prompt brings in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    to: str
    prompt: str
    things: tuple[str, ...]


class Scene(BaseModel):
    """A scene. If `is_kept_back` is True, it is not played while something is still tuned."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    starter: starters.Starter
    prompts: tuple[ScenePrompt, ...]
    is_kept_back: bool = False


def all_scenes() -> list[Scene]:
    return [
        Scene(starter=_read_starter(path.name), **tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted((FOLDER / "prompts").glob("*.toml"))
    ]


def _read_starter(file_name: str) -> starters.Starter:
    own = FOLDER / file_name
    return starters.read_starter(own if own.exists() else starters.FOLDER / file_name)


async def play_scenes(
    names: Sequence[str], prompts: int, seeds: int, is_tuning: bool
) -> AsyncIterator[dict[str, Any]]:
    """Play the first `prompts` prompts of each scene, and yield a result for each of them. Without
    names, all scenes are played. With `is_tuning`, those that are kept back are not."""
    for scene in all_scenes():
        is_wanted = not names or scene.starter.name in names
        if is_wanted and not (is_tuning and scene.is_kept_back):
            async for result in play_scene(scene, prompts, seeds):
                yield result


async def play_scene(scene: Scene, prompts: int, seeds: int) -> AsyncIterator[dict[str, Any]]:
    """Play the scene in as many chapters as there are seeds, each prompt in all of them before the
    next one. Before a prompt is sent, the model has read everything before it, as after a Game
    Master's pause."""
    chapters = [await in_database(_begin, scene.starter) for _ in range(seeds)]
    for number, one in enumerate(scene.prompts[:prompts], 1):
        for seed, chapter in enumerate(chapters, 1):
            slot = scene.starter.slot_of(one.to)
            await warm_reply(chapter.pk, slot)
            await settle_warmup(chapter.pk, slot)
            key = f"{scene.starter.name}-{number}" + (f"-{seed}" if seed > 1 else "")
            store = partial(
                store_prompt, chapter.pk, actor=slot, words=one.prompt, submission_key=key
            )
            with seeded(crc32(key.encode()) % 1_000_000):
                await write_to_end(store)
            yield {
                "scene": scene.starter.title,
                "number": number,
                "to": one.to,
                "prompt": one.prompt,
                **await in_database(_result, chapter, key, one),
            }


def _begin(starter: starters.Starter) -> Session:
    with patch("agents.flows.beginning.from_starters.find_starter", lambda name: starter):
        return begin_starter(starter.name)


def _result(chapter: Session, key: str, asked: ScenePrompt) -> dict[str, Any]:
    """Return the reply as it was stored, with its calls and what a program can say of it."""
    attempt = Attempt.objects.get(session=chapter, submission_key=key)
    calls = list(attempt.llm_artifacts.order_by("step"))
    events = attempt.events.filter(role=Event.Role.AGENT)
    reply = "\n\n".join(events.values_list("text", flat=True))
    names = tuple(one.name for one in chapter.characters)
    told = Event.objects.filter(session=chapter, role=Event.Role.AGENT)
    earlier = told.exclude(attempt=attempt).values_list("text", flat=True)
    return {
        "reply": reply,
        "broken": broken_rules(reply, Asked(asked.prompt, names)) if reply else [FAILED],
        "has_speech": has_speech(reply),
        "says_again": any(says_again(reply, one) for one in earlier),
        "names_a_thing": shared_terms(reply, " ".join(asked.things)) > 0,
        "calls": len(calls),
        "first_word_ms": calls[0].first_token_ms if calls else None,
        "whole_ms": sum(one.duration_ms for one in calls),
    }
