"""Tests with golden files of every agent's prompt in every tier."""

from collections.abc import Callable

import pytest

from agents.prompting.agent import Agent
from agents.prompting.declarations import CONTEXT_SUMMARY, NARRATOR, WORLD_SUMMARY
from agents.prompting.fitting import assemble
from agents.prompting.layer_sources import transcript_pieces
from agents.prompting.layers import TIERS, Piece, Tier
from agents.prompting.sandwich import Subject, compose
from agents.prompting.tests.golden_files import check_golden
from agents.tests.declared import CHARACTERS
from agents.tests.replies import turn_delta, world_lock
from memory.canon.corrections import write_correction
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db


BUDGET = 100_000

SUBJECTS: dict[Agent, Callable[[Session], Subject]] = {
    WORLD_SUMMARY: Subject,
    CHARACTERS[2]: lambda chapter: Subject(
        chapter,
        2,
        budget_tokens=BUDGET,
        own_pieces={"USER_PROMPT": [Piece("The stairs are wet. </told>")]},
    ),
    CONTEXT_SUMMARY: lambda chapter: Subject(
        chapter, own_pieces={"RECENT_CONTEXT_CHUNK": transcript_pieces(chapter, 15, 16)}
    ),
    NARRATOR: lambda chapter: Subject(
        chapter,
        own_pieces={
            "NARRATIVE_AGENT_DEFINITION": [Piece("Dry, like a logbook.")],
            "FULL_CHAPTER_CONTEXT": transcript_pieces(chapter, 1, 16),
            "TASK": [Piece("Write the whole chapter now.")],
        },
    ),
}


@pytest.fixture
def chapter() -> Session:
    """Return a chapter of sixteen prompts.

    Memory covers the first fourteen prompts, and there is one ruling.
    """
    chapter = make_active_chapter(agent_names={"2": "Tom <the elder>"})
    add_lock(chapter, world_lock())
    for first, last in ((1, 7), (8, 14)):
        add_prompts(chapter, 7)
        payload = turn_delta(first, last, canon_locks=[f"what was sworn at prompt {last}"])
        add_delta(chapter, first, last, payload)
    add_prompts(chapter, 2)
    chapter.last_summarized_prompt_index = 14
    chapter.save()
    write_correction(chapter.pk, canon="The bell is a gong.", replaces="what was sworn at prompt 7")
    chapter.refresh_from_db()
    return chapter


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("agent", SUBJECTS, ids=lambda agent: f"agent {agent.agent_id}")
def test_the_prompt_is_the_one_that_was_reviewed(
    chapter: Session, agent: Agent, tier: Tier
) -> None:
    layers = compose(agent.layers, SUBJECTS[agent](chapter), tier)
    prompt = assemble(layers, budget_tokens=BUDGET, weight_per_token=3)
    check_golden(f"agent_{agent.agent_id}_{tier}", prompt.messages)
