"""Tests of the names of layers in words."""

import re

from agents.modes.registry import all_agents
from sessions.layer_words import layer_in_words


def test_pages_name_layers_in_words() -> None:
    assert layer_in_words("STRUCTURED_MEMORY") == "the memory"
    assert layer_in_words("WORLD_NOW") == "world now"
    names = {layer.name for agent in all_agents() for layer in agent.layers}
    assert "RECENT_CONTEXT" in names
    for name in names:
        assert re.fullmatch(r"[a-z ]+", layer_in_words(name)), name
