"""A thought is told only to its thinker, and only in the recent context.

When a person appears, the prompts of all characters name the person.
"""

import pytest
from pytest_django import Settings

from agents.flows.remembering.summarizing import compose_summary
from agents.flows.replies.composing import compose_reply
from agents.modes.registry import find_agent
from agents.prompting.agent import Agent
from agents.prompting.declarations import CONTEXT_SUMMARY, NARRATOR
from agents.prompting.layers import TIERS, Tier
from agents.prompting.sandwich import Subject, compose
from agents.tests.replies import turn_delta, world_lock
from memory.blocks.stretches import Stretch, audiences_in
from memory.tests.factories import add_delta, add_lock
from sessions.models import FIRST_NUMBER_IN_PLAY, PERSON, THOUGHT, Attempt, Session
from sessions.play.attempts import open_prompt, open_reroll
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.play.played_world import NewChange, store_changes
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db

JON = FIRST_NUMBER_IN_PLAY
SECRET = "The lamp was mine."
CHARACTERS = {slot: agent for slot in (1, 2, 3) if (agent := find_agent("character", slot))}
AGENTS: list[Agent] = [*CHARACTERS.values(), CONTEXT_SUMMARY, NARRATOR]


@pytest.fixture
def chapter(settings: Settings) -> Session:
    settings.LLM, settings.MODEL = "openai", "gpt-4o"
    chapter = make_active_chapter()
    add_lock(chapter, world_lock())
    return chapter


def prompt_of(chapter: Session, agent: Agent, tier: Tier = "full") -> str:
    slot = agent.agent_id if agent.is_character else None
    audience = (1, 2, 3) if agent is CONTEXT_SUMMARY else None
    subject = Subject(chapter, slot, audience=audience, budget_tokens=100_000)
    layers = compose(agent.layers, subject, tier)
    return "\n".join(piece.text for layer in layers for piece in layer.pieces)


def play(chapter: Session, *outcome: NewEvent, people: tuple[str, ...] = ()) -> Attempt:
    key = str(chapter.prompt_index)
    attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key=key).attempt
    store_changes(attempt, [NewChange(PERSON, {"name": name}) for name in people])
    commit_attempt(attempt, outcome or "I go.")
    chapter.refresh_from_db()
    return attempt


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda one: str(one.agent_id))
def test_a_thought_reaches_its_thinker_alone(chapter: Session, agent: Agent, tier: Tier) -> None:
    play(chapter, NewEvent("I go.", 1), NewEvent(SECRET, 2, kind=THOUGHT))
    assert (SECRET in prompt_of(chapter, agent, tier)) == (agent is CHARACTERS[2])


def test_its_thinker_forgets_it_with_its_recent_context(chapter: Session) -> None:
    play(chapter, NewEvent("I go.", 1), NewEvent(SECRET, 2, kind=THOUGHT))
    add_prompts(chapter, 20)
    add_delta(chapter, 1, 7, turn_delta(1, 7))
    chapter.last_summarized_prompt_index = 7
    chapter.save()
    assert SECRET not in prompt_of(chapter, CHARACTERS[2])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda one: str(one.agent_id))
def test_all_are_told_of_who_appeared(chapter: Session, agent: Agent, tier: Tier) -> None:
    play(chapter, people=("Old Jon",))
    assert "Old Jon" in prompt_of(chapter, agent, tier)


def test_a_step_that_brings_somebody_shows_in_the_next_prompt(chapter: Session) -> None:
    play(chapter)
    attempt = open_prompt(chapter.pk, actor=1, words="Who?", submission_key="k").attempt

    def prompt() -> str:
        return "\n".join(piece.text for layer in compose_reply(attempt) for piece in layer.pieces)

    assert "Old Jon" not in prompt()
    store_changes(attempt, [NewChange(PERSON, {"name": "Old Jon"})])
    assert "Old Jon" in prompt()


def test_another_attempt_is_told_of_nobody_who_appeared_in_the_first(chapter: Session) -> None:
    play(chapter, people=("Old Jon",))
    assert "Old Jon" in prompt_of(chapter, CHARACTERS[1])
    reroll = open_reroll(chapter.pk, submission_key="r").attempt
    told = "\n".join(piece.text for layer in compose_reply(reroll) for piece in layer.pieces)
    assert "Old Jon" not in told


def test_memory_is_written_with_the_people_of_its_attempt(chapter: Session) -> None:
    first = play(chapter, people=("Old Jon",))
    reroll = open_reroll(chapter.pk, submission_key="r").attempt
    store_changes(reroll, [NewChange(PERSON, {"name": "Ann"})])
    commit_attempt(reroll, "I stay.")
    chapter.refresh_from_db()
    for attempt, there, absent in ((first, "Old Jon", "Ann"), (reroll, "Ann", "Old Jon")):
        stretch = Stretch(1, 1)
        [audience] = audiences_in(chapter, stretch, last_attempt=attempt.pk)
        layers = compose_summary(chapter, stretch, audience, last_attempt=attempt.pk)
        told = "\n".join(piece.text for layer in layers for piece in layer.pieces)
        assert there in told
        assert absent not in told


def test_who_appears_is_a_reader_of_what_follows_and_of_nothing_before(chapter: Session) -> None:
    play(chapter)
    play(chapter, people=("Old Jon",))
    assert list(audiences_in(chapter, Stretch(1, 2))) == [(1, 2, 3, JON), (1, 2, 3)]
