"""Agent 8 reads each fact once, whether the lock, a delta or the chunk has it."""

import re
from collections import Counter
from typing import Any

import pytest

from agents.prompting.fitting import assemble
from agents.prompting.layer_sources import transcript_pieces
from agents.prompting.layers import TIERS, Tier
from agents.prompting.sandwich import Subject, compose
from agents.tests.declared import AGENTS
from agents.tests.replies import turn_delta, world_lock
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import add_turn, make_active_chapter

pytestmark = pytest.mark.django_db

BUDGET = 100_000
_MARK = re.compile(r"\bmark-[a-z]+-\d+\b")


def mark(field: str, number: int) -> str:
    return f"mark-{field}-{number}"


def marked_delta(number: int) -> dict[str, Any]:
    """Return a delta with a mark in every field but names and places, which several lines may
    have. The thread of the stretch before is closed, and the lamp changes."""

    def said(field: str) -> str:
        return mark(field, number)

    return turn_delta(
        7 * number - 6,
        7 * number,
        location_updates={"where": "", "notable_environment_changes": [said("around")]},
        major_events=[
            {"event": said("event"), "cause": said("cause"), "effect": said("effect")},
        ],
        character_actions=[
            {
                "agent_slot": 1,
                "name": "Mara",
                "did": said("did"),
                "intent": said("intent"),
                "result": said("result"),
            }
        ],
        state_changes=[
            {"key": "lamp", "before": "", "after": said("lamp"), "notes": said("notes")},
            {"key": mark("thread", number - 1), "after": "resolved", "notes": said("end")},
        ],
        relationship_shifts=[
            {"between": ["Mara", "Tom"], "change": said("change"), "evidence": said("evidence")}
        ],
        items_clues_discovered=[{"thing": said("thing"), "why_it_matters": said("why")}],
        unresolved_threads=[{"thread": said("thread"), "stakes": said("stakes")}],
        canon_locks=[said("canon")],
        contradictions_or_questions=[said("question")],
    )


@pytest.fixture
def chapter() -> Session:
    """A chapter with a marked lock, three marked deltas, and seven marked turns after them."""
    chapter = make_active_chapter(agent_names={"1": "Mara", "2": "Tom"})
    lock = world_lock()
    lock["world"] |= {"genre": mark("genre", 0), "rules_of_reality": [mark("rule", 0)]}
    lock["chapter"] |= {"premise": mark("premise", 0), "open_mysteries": [mark("mystery", 0)]}
    add_lock(chapter, lock | {"canon_locks": [mark("canon", 0)]})
    for number in range(1, 29):
        add_turn(chapter, number, words=mark("beat", number), reply=mark("reply", number))
    for number in (1, 2, 3):
        add_delta(chapter, 7 * number - 6, 7 * number, marked_delta(number))
    chapter.prompt_index, chapter.last_summarized_prompt_index = 28, 21
    chapter.save()
    return chapter


@pytest.mark.parametrize("tier", TIERS)
def test_each_fact_stands_once_in_the_request(chapter: Session, tier: Tier) -> None:
    chunk = {"RECENT_CONTEXT_CHUNK": transcript_pieces(chapter, 22, 28)}
    subject = Subject(chapter, budget_tokens=BUDGET, own_pieces=chunk)
    layers = compose(AGENTS[8].layers, subject, tier)
    prompt = assemble(layers, budget_tokens=BUDGET, weight_per_token=3)
    told = Counter(_MARK.findall("\n".join(message.content for message in prompt.messages)))
    assert {name: count for name, count in told.items() if count > 1} == {}
    deltas = [marked_delta(number) for number in (1, 2, 3)]
    assert set(_MARK.findall(str(deltas))) <= set(told)
    chunk_marks = {mark(field, at) for field in ("beat", "reply") for at in range(22, 29)}
    assert chunk_marks <= set(told)
    assert not {mark("beat", 21), mark("reply", 21)} & set(told)
