"""Tests of how a chapter is divided into scenes so that each scene fits into one call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from agents.flows.telling.narrating import plan_build
from agents.flows.telling.scenes import NarratorLimits, plan_scenes, transcript_weights
from agents.flows.telling.tests.narrations import make_ended_chapter


@given(
    prompts=st.integers(1, 60),
    target=st.integers(100, 5_000),
    words_per_call=st.integers(200, 6_000),
    tokens=st.integers(1, 900),
    room=st.integers(200, 90_000),
)
def test_scenes_tile_the_prompts_and_fit_a_call(
    prompts: int, target: int, words_per_call: int, tokens: int, room: int
) -> None:
    chunks = [(first, min(first + 6, prompts)) for first in range(1, prompts + 1, 7)]
    scenes = plan_scenes(chunks, [tokens] * prompts, target, NarratorLimits(room, words_per_call))
    covered = [n for scene in scenes for n in range(scene.first, scene.last + 1)]
    assert covered == list(range(1, prompts + 1))
    assert abs(sum(scene.target_words for scene in scenes) - target) <= len(scenes)
    for scene in scenes:
        if scene.first != scene.last:
            assert scene.target_words <= words_per_call
            assert tokens * (scene.last - scene.first + 1) <= room


@given(
    sizes=st.lists(st.sampled_from([0, 0, 300]), min_size=1, max_size=60),
    target=st.integers(100, 5_000),
    words_per_call=st.integers(200, 6_000),
    room=st.integers(200, 9_000),
)
def test_thoughts_alone_are_no_scene_of_their_own(
    sizes: list[int], target: int, words_per_call: int, room: int
) -> None:
    prompts = len(sizes)
    chunks = [(first, min(first + 6, prompts)) for first in range(1, prompts + 1, 7)]
    scenes = plan_scenes(chunks, sizes, target, NarratorLimits(room, words_per_call))
    covered = [n for scene in scenes for n in range(scene.first, scene.last + 1)]
    assert covered == list(range(1, prompts + 1))
    told = [list(filter(None, sizes[scene.first - 1 : scene.last])) for scene in scenes]
    assert all(told) or (not any(sizes) and len(scenes) == 1)
    assert abs(sum(scene.target_words for scene in scenes) - target) <= len(scenes)
    for scene, spoken in zip(scenes, told, strict=True):
        if len(spoken) > 1:
            assert scene.target_words <= words_per_call
            assert sum(spoken) <= room


@pytest.mark.django_db
def test_a_reasoning_model_with_a_small_window_keeps_room_for_prose(settings: Settings) -> None:
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = "http://localhost:9/v1"
    settings.MODEL = "qwen3:14b"
    settings.MODEL_BY_AGENT = {}
    settings.CONTEXT_WINDOW = 8_192
    chapter = make_ended_chapter(14)
    weights = transcript_weights(chapter, 14)
    assert len(plan_build(chapter, weights, 2_000)) == 2
