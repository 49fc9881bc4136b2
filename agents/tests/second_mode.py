"""A second way to play, in which only a narrator answers.

The mode is declared in the same way as in an app of its own.
"""

import sys
from types import ModuleType
from typing import Any

import pytest
from django.urls import get_resolver
from pytest_django import Settings

from agents.modes.declaration import AddedLayer, Mode, Play, Stage
from agents.modes.registry import load_modes
from agents.prompting.agent import Agent
from agents.prompting.layer_sources import own_pieces, world_text
from agents.prompting.layers import Piece
from agents.prompting.sandwich import LayerDeclaration
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer

NARRATOR = Agent(
    None,
    "voyager.narrator",
    "Narrator of what is seen",
    "gpt-4o",
    output_tokens=500,
    reasoning_tokens=1_000,
    temperature=0.5,
    layers=(
        LayerDeclaration("WORLD_TEXT", world_text, role="system"),
        LayerDeclaration("USER_PROMPT", own_pieces("USER_PROMPT")),
    ),
)


def answers(chapter: Session, actor: int | None) -> Writer:
    return Writer(None, NARRATOR.name)


def words_of(attempt: Attempt) -> dict[str, list[Piece]]:
    return {"USER_PROMPT": [Piece(attempt.words)]}


VOYAGER = Mode(
    name="voyager",
    title="Voyager",
    sentence="You look around in a world that a narrator tells.",
    agents=(NARRATOR,),
    play=Play(answers=answers, own_pieces=words_of),
    stages=frozenset({Stage.SET_UP, Stage.PLAY, Stage.MEMORY}),
)


def added(
    name: str = "WHAT_IS_NEAR", *, agent: str = "memory", before: str = "FORMAT"
) -> AddedLayer:
    return AddedLayer(agent, before, LayerDeclaration(name, world_text))


def install(monkeypatch: pytest.MonkeyPatch, settings: Settings, **modes: Any) -> None:
    """Add these apps to the setting MODES, each with its MODE in a module named `mode`."""
    # The process keeps the addresses that it reads first, so they must be those of all modes.
    assert get_resolver().url_patterns
    for app, mode in modes.items():
        module = ModuleType(f"{app}.mode")
        module.MODE = mode  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, app, ModuleType(app))
        monkeypatch.setitem(sys.modules, f"{app}.mode", module)
    # An earlier test may have declared other modes in apps with the same names.
    load_modes.cache_clear()
    settings.MODES = ["gamemaster", *modes]
