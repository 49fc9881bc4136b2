from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents.llm.providers.base import Message, ModelRequest
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.llm.providers.scripted import ScriptedProvider
from bench.embedded_replies import PROMPTS, readable, reply_figures
from bench.played_scenes import FAILED, _sampled, all_scenes, play_scene

CAUGHT = "I stay within the boundaries that the GM has set for me."
GOOD = "I hold up the lamp, and then I count the steps. “A bolt,” I say."
RESULT: dict[str, Any] = {
    "scene": "The Quay",
    "number": 1,
    "to": "Mara",
    "prompt": "The lamp goes out.",
    "reply": GOOD,
    "broken": [],
    "has_speech": True,
    "names_a_thing": True,
    "calls": 1,
    "first_word_ms": 900,
    "whole_ms": 9_000,
}


def played(count: int) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        return [result async for result in play_scene(all_scenes()[0], count, {})]

    return async_to_sync(run)()


def test_six_scenes_have_ten_prompts_to_their_own_characters() -> None:
    scenes = all_scenes()
    assert len(scenes) == 6
    assert sum(scene.is_kept_back for scene in scenes) == 2
    for scene in scenes:
        assert len(scene.prompts) == PROMPTS
        assert len({scene.starter.slot_of(one.to) for one in scene.prompts}) == 3


@pytest.mark.django_db
def test_what_is_told_of_a_reply_is_of_the_one_that_was_kept(provider: ScriptedProvider) -> None:
    provider.name = EmbeddedProvider.__module__.rpartition(".")[2]
    # The first answer of each prompt is that of the call by which the model reads ahead.
    provider.enqueue("", CAUGHT, GOOD, "", CAUGHT, CAUGHT)
    first, second = played(2)
    assert (first["reply"], first["calls"], first["broken"]) == (GOOD, 2, [])
    assert first["has_speech"]
    assert first["names_a_thing"]
    assert second["broken"] == ["names the GM", "says boundaries"]
    assert not second["has_speech"]


def test_the_calls_of_a_prompt_have_the_same_seeds_in_each_run() -> None:
    provider = EmbeddedProvider(base_url="http://127.0.0.1:1")
    request = ModelRequest("model", (Message("user", "Go on."),), max_output_tokens=9)

    def two_calls(key: str) -> list[dict[str, Any]]:
        with _sampled(key, {"min_p": 0.1}):
            return [provider.extra_fields(request) for _ in range(2)]

    first, second = two_calls("quay-1")
    assert first["seed"] != second["seed"]
    assert two_calls("quay-1") == [first, second]
    assert two_calls("quay-2")[0]["seed"] not in (first["seed"], second["seed"])
    assert first["min_p"] == 0.1
    own = provider.extra_fields(request)
    assert "seed" not in own
    assert own.items() <= {**first, "min_p": own["min_p"]}.items()


def test_the_figures_count_what_was_found() -> None:
    bad = {**RESULT, "broken": [FAILED], "has_speech": False, "names_a_thing": False, "calls": 2}
    figures = reply_figures([RESULT] * 57 + [bad] * 3)
    assert [one.measured for one in figures] == [3, 57, 57, 3, 0.9, 9.0]
    assert all(one.passed is not False for one in figures)
    assert [one.passed for one in reply_figures([RESULT] * 6 + [bad] * 6)[:3]] == [False] * 3


def test_the_page_has_every_reply() -> None:
    page = readable([RESULT], reply_figures([RESULT]))
    assert f"**1. To Mara:** The lamp goes out.\n\n> {GOOD}" in page
