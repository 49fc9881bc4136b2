"""What a character is told, in the order that the specification fixes."""

import uuid
from dataclasses import replace

from agents.calling.model_access import known_facts, model_name
from agents.prompting.budget import input_budget, output_limit, read_weight_ahead
from agents.prompting.declarations import CHARACTERS, Agent
from agents.prompting.layers import Layer, Piece
from agents.prompting.sandwich import Subject, compose
from sessions.access import get_chapter
from sessions.models import Attempt, Session


def agent_of(attempt: Attempt) -> Agent:
    assert attempt.actor is not None, "A character's attempt has an actor."
    return CHARACTERS[attempt.actor]


def others_cues(attempt: Attempt) -> list[str]:
    """Where a small model leaves its part: at another character's name, or a heading."""
    others = (one for one in attempt.session.characters if one.slot != attempt.actor)
    return [*(f"\n{one.name}:" for one in others), "\n## "]


def compose_reply(attempt: Attempt) -> list[Layer]:
    """The layers for the attempt's request: what came before its turn, and its words."""
    before = attempt.turn.number if attempt.turn else None
    words = {"USER_PROMPT": [Piece(attempt.words)]}
    return _compose(Subject(attempt.session, attempt.actor, before, given=words))


def compose_start(session_id: uuid.UUID, agent_slot: int) -> list[Layer]:
    """All of the next prompt to this character but the GM's words, to warm a cache with."""
    return _compose(Subject(get_chapter(session_id), agent_slot))


def read_ahead(chapter: Session) -> None:
    """Have what the next prompt carries at hand: a GM who has sent a prompt waits for it."""
    agent = CHARACTERS[chapter.next_agent_slot]
    _compose(Subject(chapter, chapter.next_agent_slot))
    read_weight_ahead(model_name(agent), agent.name)


def _compose(subject: Subject) -> list[Layer]:
    assert subject.slot is not None, "A character's prompt has a character."
    agent = CHARACTERS[subject.slot]
    facts = known_facts(agent)
    budget = input_budget(facts, output_limit(agent, facts))
    return compose(agent.layers, replace(subject, budget_tokens=budget), facts.tier)
