"""Tests of the second mode's stretches of memory, which a tool call or an act ends early."""

from typing import Any

import pytest

from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import answer_in_form
from sessions.models import Session
from storyengine.api.tests.calling import address, call
from storyengine.tests.playing_the_lighthouse import act, played
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse
from storyengine.tests.test_second_mode_around_play import work_on_all

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]


@pytest.fixture(autouse=True)
def _answers(provider: ScriptedProvider) -> None:
    provider.fallback = answer_in_form


def remembered(chapter: Session) -> list[tuple[int, int]]:
    """Work on all jobs, and return the prompts of each delta."""
    work_on_all()
    document: Any = call("GET", address(chapter)).json()
    blocks = [one for one in document["memory_blocks"] if one["type"] == "turn_delta"]
    assert document["last_summarized_prompt_index"] == max(
        (one["to_prompt_index"] for one in blocks), default=0
    )
    return [(one["from_prompt_index"], one["to_prompt_index"]) for one in blocks]


def test_a_tool_call_ends_a_stretch(chapter: Session, provider: ScriptedProvider) -> None:
    played(chapter)
    assert remembered(chapter) == []
    provider.enqueue(says("native", "I feel it.", ("feel", {})), "It blows.")
    played(chapter)
    assert remembered(chapter) == [(1, 2)]
    played(chapter)
    assert remembered(chapter) == [(1, 2)]


def test_an_act_ends_the_stretch_of_the_turn_that_it_follows(chapter: Session) -> None:
    played(chapter)
    played(chapter)
    assert act(chapter, litres=1).status_code == 201
    played(chapter)
    assert remembered(chapter) == [(1, 2)]
