"""Memory has at most so many tokens of a request as STORYENGINE_MEMORY_TOKENS says, even in a large
window."""

import pytest
from pytest_django import Settings

from agents.prompting.fitting import AssembledPrompt, assemble
from agents.prompting.layers import Piece
from agents.prompting.sandwich import Subject, compose
from agents.prompting.sent_layers import SentLayer
from agents.tests.declared import AGENTS
from agents.tests.replies import turn_delta, world_lock
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from testing.session_data import beat_text

pytestmark = pytest.mark.django_db

BUDGET = 100_000
STRETCHES = 100
# The limit that the program has unless the environment names another one.
LIMIT = 16_000
# A character's request shows the last prompts word for word, and memory leaves out their events.
NEWEST = 7 * (STRETCHES - 2)
CANON = "No bell rings at sea."


@pytest.fixture
def chapter() -> Session:
    """A chapter whose memory has about 25,000 tokens."""
    chapter = make_active_chapter(agent_names={"1": "Mara", "2": "Tom"})
    add_lock(chapter, world_lock() | {"canon_locks": [CANON]})
    for number in range(STRETCHES):
        first = 7 * number + 1
        events = [{"event": beat_text(at)} for at in range(first, first + 7)]
        add_delta(chapter, first, first + 6, turn_delta(first, first + 6, major_events=events))
    chapter.prompt_index = chapter.last_summarized_prompt_index = 7 * STRETCHES
    chapter.save()
    return chapter


def prompt_of(number: int, chapter: Session) -> AssembledPrompt:
    agent = AGENTS[number]
    slot = number if agent.is_character else None
    own = {"USER_PROMPT": [Piece("The stairs are wet.")]}
    subject = Subject(chapter, slot, budget_tokens=BUDGET, own_pieces=own)
    layers = compose(agent.layers, subject, "full")
    return assemble(layers, budget_tokens=BUDGET, weight_per_token=3)


def memory_of(prompt: AssembledPrompt) -> SentLayer:
    [layer] = [one for one in prompt.layers if one.name.startswith("STRUCTURED_MEMORY")]
    return layer


@pytest.mark.parametrize("number", [1, 8, 9])
def test_a_large_window_has_no_more_of_memory(chapter: Session, number: int) -> None:
    layer = memory_of(prompt_of(number, chapter))
    assert 0.8 * LIMIT < layer.tokens <= LIMIT
    # The oldest events are left out, and their record names them. Canon stays.
    assert CANON in layer.text
    assert beat_text(1) not in layer.text
    assert beat_text(NEWEST) in layer.text
    assert layer.left_out[0].startswith("Prompts 1-7: ")


@pytest.mark.parametrize("number", [1, 8, 9])
def test_with_a_larger_limit_all_of_memory_is_told(
    chapter: Session, number: int, settings: Settings
) -> None:
    settings.MEMORY_TOKENS = BUDGET
    layer = memory_of(prompt_of(number, chapter))
    assert layer.tokens > 1.2 * LIMIT
    assert layer.left_out == ()
    assert all(beat_text(at) in layer.text for at in range(1, NEWEST + 1))
