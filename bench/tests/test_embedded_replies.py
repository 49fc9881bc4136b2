from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents.llm.providers.base import Message, ModelRequest
from agents.llm.providers.embedded_provider import NAME, EmbeddedProvider
from agents.llm.providers.scripted import ScriptedProvider
from bench.embedded_replies import blind_page, read_page, readable, reply_figures
from bench.played_scenes import FAILED, _sampled, all_scenes, play_scene

CAUGHT = "I stay within the boundaries that the GM has set for me."
GOOD = "I hold up the lamp, and then I count the steps. “A bolt,” I say."
RESULT: dict[str, Any] = {
    "scene": "The Quay",
    "number": 1,
    "seed": 1,
    "to": "Mara",
    "prompt": "The lamp goes out.",
    "reply": GOOD,
    "broken": [],
    "says_again": False,
    "has_speech": True,
    "names_a_thing": True,
    "calls": 1,
    "first_word_ms": 900,
    "whole_ms": 9_000,
}


def played(count: int, seeds: int = 1) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        return [result async for result in play_scene(all_scenes()[0], count, {}, seeds)]

    return async_to_sync(run)()


def test_six_scenes_have_ten_prompts_to_their_own_characters() -> None:
    scenes = all_scenes()
    assert len(scenes) == 6
    assert sum(scene.is_kept_back for scene in scenes) == 2
    for scene in scenes:
        assert len(scene.prompts) == 10
        assert len({scene.starter.slot_of(one.to) for one in scene.prompts}) == 3


@pytest.mark.django_db
def test_what_is_told_of_a_reply_is_of_the_one_that_was_kept(provider: ScriptedProvider) -> None:
    provider.name = NAME
    # The first answer of each prompt is that of the call by which the model reads ahead.
    provider.enqueue("", CAUGHT, GOOD, "", *[CAUGHT] * 4)
    first, second = played(2)
    assert (first["reply"], first["calls"], first["broken"]) == (GOOD, 2, [])
    assert first["has_speech"]
    assert first["names_a_thing"]
    assert second["broken"] == ["names the GM", "says boundaries"]
    assert not second["has_speech"]


@pytest.mark.django_db
def test_each_seed_has_a_chapter_of_its_own(provider: ScriptedProvider) -> None:
    provider.fallback = lambda _request: GOOD
    results = played(2, seeds=2)
    assert [(one["number"], one["seed"]) for one in results] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [one["says_again"] for one in results] == [False, False, True, True]


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
    found = {"broken": [FAILED], "says_again": True, "has_speech": False, "names_a_thing": False}
    bad = {**RESULT, **found, "calls": 2}
    figures = reply_figures([RESULT] * 57 + [bad] * 3)
    assert [one.measured for one in figures] == [3, 3, 57, 57, 3, 0.9, 9.0]
    assert all(one.passed is not False for one in figures)
    assert [one.passed for one in reply_figures([RESULT] * 6 + [bad] * 6)[:4]] == [False] * 4


def test_the_page_has_every_reply() -> None:
    page = readable([RESULT], reply_figures([RESULT]))
    assert f"**1. To Mara:** The lamp goes out.\n\n> {GOOD}" in page


def test_a_blind_page_mixes_the_replies_of_two_runs_to_the_same_prompts() -> None:
    earlier = read_page(readable([RESULT, {**RESULT, "prompt": "Nobody asked this."}], []))
    now = [{**RESULT, "reply": f"NEW-{number}"} for number in range(3)]
    page, key = blind_page(now, earlier)
    parts = page.split("### ")[1:]
    told = {number: "before" if GOOD in part else "now" for number, part in enumerate(parts, 1)}
    assert key == told
    assert sorted(key.values()) == ["before", "now", "now", "now"]
    assert "Nobody asked this." not in page
