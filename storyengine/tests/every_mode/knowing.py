"""Checks that no request has words that its reader did not witness.

The marks of texts tell where a text has gone. Who witnessed an event is what the event's row says;
that the rows are as the user wished is checked where prompts are sent.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import product

from django.db.models import QuerySet

from agents.calling.records.stored_prompts import read_messages
from agents.flows.replies.warmup import _compose_start
from agents.models import LLMArtifact
from agents.modes.registry import compose_for, find_agent, who_answers
from agents.prompting.layers import TIERS
from agents.prompting.sandwich import Subject
from memory.blocks.blocks import counting_deltas
from memory.models import MemoryBlock
from sessions.models import THOUGHT, Attempt, Event, Session
from storyengine.tests.every_mode.scripted_model import (
    SECRET_MARK,
    THOUGHT_MARK,
    marks_in,
)

# A budget in tokens that is so large that no layer is shortened.
ROOM = 1_000_000
# The layers with the latest play and with memory. Whoever has both is told everything.
TELLING = {"RECENT_CONTEXT", "STRUCTURED_MEMORY"}


def check_calls(chapter: Session, calls: Iterable[LLMArtifact]) -> None:
    """Check these calls, during which no other attempt was chosen at an earlier turn."""
    for call in calls:
        sent = [message.content for message in read_messages(call)]
        attempt = call.attempt
        actor = attempt.actor if attempt else None
        secrets = {f"sq{actor}"} if actor else set()
        assert marks_in(sent, SECRET_MARK) <= secrets, call.agent
        if attempt is None:
            # The call of a job, for a memory or a draft. `check_memory` looks at what came of it.
            assert not marks_in(sent, THOUGHT_MARK), call.agent
            assert marks_in(sent) <= known_to(chapter, None, chapter.prompt_index + 1), call.agent
            continue
        before = attempt.turn.number if attempt.turn else chapter.prompt_index + 1
        own = _own(attempt)
        known = known_to(chapter, actor, before)
        assert marks_in(sent) <= known | own, call.agent
        thoughts = thoughts_of(chapter, actor, before) if actor else set()
        assert marks_in(sent, THOUGHT_MARK) <= thoughts | own, call.agent
        # A trial has the request of its source, in which a layer is changed.
        if actor and not attempt.is_trial and _is_told_all(call.agent, actor):
            assert known <= marks_in(sent), call.agent


def check_memory(chapter: Session) -> None:
    """Check that each block tells its readers nothing that they did not witness, and no thought,
    and that a stretch has one block for each set of witnesses, of which the largest comes first."""
    stretches: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for block in counting_deltas(chapter).order_by("to_prompt_index", "created_at", "pk"):
        told = [json.dumps(block.json_payload)]
        assert not marks_in(told, THOUGHT_MARK)
        for slot in block.audience or [None]:
            assert marks_in(told) <= known_to(chapter, slot, block.to_prompt_index + 1)
        stretch = (block.from_prompt_index, block.to_prompt_index)
        stretches.setdefault(stretch, []).append(tuple(block.audience or ()))
    for (first, last), audiences in stretches.items():
        events = _events(chapter, last + 1).filter(prompt_index__gte=first).exclude(kind=THOUGHT)
        sets = {tuple(sorted(one.witnesses)) for one in events}
        # A stretch of thoughts alone has one block, and where no character reads memory, there is
        # one block for the narrator.
        told_to = sorted(sets, key=lambda one: (-len(one), one))
        assert audiences in ([()], told_to) if sets else len(audiences) == 1


def check_tiers(chapter: Session, slots: Sequence[int], turn: int) -> None:
    """Check that what a character would be sent next, in a tier that each turn chooses anew, has
    what the character witnessed and nothing else, and that a model that reads ahead is not sent
    more. The prompt asks for everything that was said. For another attempt at the latest turn, the
    request has nothing of this turn."""
    pairs = list(product(slots, TIERS, (None, chapter.prompt_index)))
    slot, tier, before = pairs[turn % len(pairs)]
    agent = find_agent(who_answers(chapter, slot).agent, slot)
    assert agent is not None
    words = " ".join(chapter.events.values_list("text", flat=True))
    attempt = Attempt(session=chapter, actor=slot, words=words)
    subject = Subject(chapter, slot, before, attempt, budget_tokens=ROOM)
    told = [one.text for layer in compose_for(agent, subject, tier) for one in layer.pieces]
    following = before or chapter.prompt_index + 1
    known = known_to(chapter, slot, following)
    start = [one.text for layer in _compose_start(chapter.pk, slot) for one in layer.pieces]
    assert marks_in(start) <= known_to(chapter, slot, chapter.prompt_index + 1)
    assert marks_in(told) <= known
    assert known <= marks_in(told) or not _is_told_all(agent.name, slot)
    assert marks_in(told, THOUGHT_MARK) <= thoughts_of(chapter, slot, following)


def known_to(chapter: Session, slot: int | None, before: int) -> set[str]:
    """Return the marks of what the character heard before this turn. Without a slot, return those
    of everything that was said."""
    events = _events(chapter, before).exclude(kind=THOUGHT)
    heard = [one.text for one in events if slot is None or slot in one.witnesses]
    rulings = [
        json.dumps(one.json_payload)
        for one in chapter.memory_blocks.filter(type=MemoryBlock.Type.CANON_CORRECTION)
        if slot is None or one.audience is None or slot in one.audience
    ]
    before_it = [
        json.dumps(one.json_payload)
        for one in chapter.memory_blocks.filter(type=MemoryBlock.Type.STORY_SO_FAR)
        if slot is None or slot in (one.audience or ())
    ]
    return marks_in([*heard, *rulings, *before_it])


def thoughts_of(chapter: Session, slot: int, before: int) -> set[str]:
    events = _events(chapter, before).filter(kind=THOUGHT)
    return marks_in((one.text for one in events if slot in one.witnesses), THOUGHT_MARK)


def _events(chapter: Session, before: int) -> "QuerySet[Event]":
    chosen = chapter.turns.filter(number__lt=before).values("chosen")
    return Event.objects.filter(attempt__in=chosen)


def _own(attempt: Attempt) -> set[str]:
    """Return the marks of the attempt's words and of what its own calls wrote."""
    told = [attempt.words, *attempt.llm_artifacts.values_list("raw_output_ref", flat=True)]
    return marks_in(told) | marks_in(told, THOUGHT_MARK)


def _is_told_all(agent: str, actor: int) -> bool:
    found = find_agent(agent, actor)
    return found is not None and {layer.name for layer in found.layers} >= TELLING
