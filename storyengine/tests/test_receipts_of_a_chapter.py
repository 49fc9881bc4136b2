"""A session of 84 turns is told by scenes, and its receipts are read from the API."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from agents.flows.telling.narrating import request_build
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from memory.tests.played_stories import CAST, INVENTIONS, PlayedStory, make_story, retell
from sessions.models import Session, State
from sessions.tests.factories import add_turn, make_active_chapter

pytestmark = pytest.mark.django_db

TURNS = 84


@pytest.fixture
def _small_window(settings: Settings) -> None:
    """Set a window in which the narrator writes the chapter by scenes."""
    settings.LLM = "openai"
    settings.MODEL = "a-model-nobody-knows"
    settings.MODEL_BY_AGENT = {}
    settings.CONTEXT_WINDOW = 16_000
    settings.MAX_OUTPUT = 2_000


def play(story: PlayedStory) -> Session:
    """Store the story as a chapter that has ended."""
    names = {str(slot): name for slot, name in enumerate(CAST, 1)}
    chapter = make_active_chapter(
        agent_names=names,
        state=State.ENDED,
        prompt_index=TURNS,
        last_summarized_prompt_index=TURNS,
        target_words=3_000,
    )
    for number, (beat, reply) in enumerate(zip(story.beats, story.replies, strict=True), 1):
        slot = CAST.index(story.speaker(number)) + 1
        add_turn(chapter, number, words=beat, reply=reply, actor=slot)
    for first in range(1, TURNS, 7):
        events = [{"event": beat} for beat in story.beats[first - 1 : first + 6]]
        add_delta(chapter, first, first + 6, turn_delta(first, first + 6, major_events=events))
    return chapter


def narrator_of(story: PlayedStory, told: dict[str, int]) -> Callable[[ModelRequest], str]:
    """Return a narrator who retells the turns of its request, and who invents two paragraphs in
    each scene until all inventions are told. It notes in `told` the turn of each paragraph, which
    is 0 for an invention."""
    paragraphs = retell(story)
    waiting = list(INVENTIONS)

    def narrate(request: ModelRequest) -> str:
        asked = request.messages[-1].content
        scene = [pair for pair in paragraphs if story.beats[pair[1] - 1] in transcript_of(asked)]
        for place in (len(scene) // 3, len(scene) // 2):
            if waiting:
                scene.insert(place, (waiting.pop(), 0))
        told.update(scene)
        return "\n\n".join(text for text, _ in scene)

    return narrate


def transcript_of(prompt: str) -> str:
    return prompt.partition("## FULL_CHAPTER_CONTEXT")[2].partition("\n\n## ")[0]


@pytest.mark.usefixtures("_small_window")
def test_the_paragraphs_of_a_session_lead_to_their_turns_and_inventions_are_marked(
    client: Client, provider: ScriptedProvider, run_jobs: Callable[[], int]
) -> None:
    story, told = make_story(TURNS), dict[str, int]()
    chapter = play(story)
    provider.fallback = narrator_of(story, told)
    request_build(chapter.pk)
    run_jobs()
    draft = chapter.narrative_drafts.get()
    path = f"/api/session/{chapter.pk}/drafts/{draft.pk}/receipts"
    receipts: dict[str, Any] = client.get(path).json()
    assert len(receipts["scenes"]) > 3
    paragraphs = [one for scene in receipts["scenes"] for one in scene["paragraphs"]]
    assert {one["text"] for one in paragraphs} >= set(INVENTIONS)
    true = [(one, told[one["text"]]) for one in paragraphs]
    right = sum(one["prompts"] == [turn] for one, turn in true if turn)
    assert right >= 0.95 * sum(bool(turn) for _, turn in true)
    marked = {one["text"] for one in paragraphs if one["confidence"] == "invented"}
    assert marked >= set(INVENTIONS)
    assert [scene["prompts_not_told"] for scene in receipts["scenes"]] == [[]] * len(
        receipts["scenes"]
    )
