"""Functions that read a chapter in the engine: its world, its memory, its prompts, and everything
that a copy must keep."""

import json
import uuid
from collections.abc import Collection
from typing import Any

from agents.flows.remembering.summarizing import CHUNK
from agents.flows.replies.composing import compose_reply
from agents.llm.providers.base import ModelRequest
from agents.modes.registry import agent_of, compose_for, find_agent
from agents.prompting.layers import Layer, Tier
from agents.prompting.sandwich import Subject
from agents.running.results import waiting_results
from agents.tests.replies import turn_delta
from memory.blocks.blocks import counting_blocks
from memory.blocks.stretches import Stretch
from memory.models import MemoryBlock
from sessions.models import Attempt, Event, Session
from sessions.record.chosen_events import committed_attempts
from sessions.record.transcript import chosen_entries
from storyengine.tests.chapter_machine.expected import MARK, key_of, marks_of, thoughts_in
from storyengine.tests.lighthouse.state import WORLD, Light

# A budget in tokens that is so large that no layer of a request is shortened.
ROOM = 1_000_000


def parrot(request: ModelRequest) -> str:
    """Answer as a memory agent does, and repeat every mark of the request in the delta."""
    sent = " ".join(message.content for message in request.messages)
    assert CHUNK in sent, "Only memory calls a model here."
    marks = sorted(set(MARK.findall(sent)))
    tens = [marks[at : at + 10] for at in range(0, len(marks), 10)]
    sworn = [f"somebody spoke of {' and '.join(some)}" for some in tens]
    thoughts = sorted(thoughts_in([sent]))
    return json.dumps(
        turn_delta(canon_locks=sworn + thoughts, major_events=[], unresolved_threads=[])
    )


def read_chapter(session_id: uuid.UUID) -> Session:
    return Session.objects.get(pk=session_id)


def light_now(session_id: uuid.UUID) -> Light:
    return WORLD.now(read_chapter(session_id))


def told_in(layers: Collection[Layer]) -> str:
    return " ".join(piece.text for layer in layers for piece in layer.pieces)


def told_to_keeper(chapter: Session, slot: int, tier: Tier, *, before: int | None = None) -> str:
    """Return the text of all layers that a request to this character would have."""
    keeper = find_agent("lighthouse.keeper")
    assert keeper is not None
    subject = Subject(chapter, slot, before, budget_tokens=ROOM)
    return told_in(compose_for(keeper, subject, tier))


def told_to_narrator(chapter: Session, tier: Tier) -> str:
    narrator = find_agent("narrator")
    assert narrator is not None
    return told_in(compose_for(narrator, Subject(chapter, budget_tokens=ROOM), tier))


def told_for(attempt: Attempt, tier: Tier) -> str:
    """Return the text of all layers of this attempt's request except the attempt's own words."""
    before = attempt.turn.number if attempt.turn else None
    subject = Subject(attempt.session, attempt.actor, before, attempt, budget_tokens=ROOM)
    return told_in(compose_for(agent_of(attempt), subject, tier))


def sent_for(attempt: Attempt) -> str:
    """Return the request of this attempt as the engine composes it for its model."""
    return told_in(compose_reply(attempt))


def waiting_levels(session_id: uuid.UUID) -> list[int]:
    """Return the level of each late result that the next prompt would take."""
    following = Attempt(session=read_chapter(session_id))
    return [one.payload["level"] for one in waiting_results(following)]


def counting_stretches(session_id: uuid.UUID) -> dict[Stretch, list[tuple[int, ...]]]:
    """Return the stretches whose deltas belong to chosen attempts. The value of each stretch is the
    list of its deltas' audiences.

    This function reads the rows itself, because its result is compared with the functions that
    decide which deltas count.
    """
    chosen = dict(read_chapter(session_id).turns.values_list("number", "chosen"))
    deltas = MemoryBlock.objects.filter(
        session=session_id, type=MemoryBlock.Type.TURN_DELTA
    ).order_by("to_prompt_index", "created_at", "pk")
    stretches: dict[Stretch, list[tuple[int, ...]]] = {}
    for one in deltas:
        if chosen.get(one.to_prompt_index) == one.attempt_id:
            stretch = Stretch(one.from_prompt_index, one.to_prompt_index)
            stretches.setdefault(stretch, []).append(tuple(one.audience or ()))
    return stretches


def rows_by_replies(session_id: uuid.UUID) -> dict[str, Attempt]:
    """Return the committed attempts, oldest first. The keys are the texts of their replies."""
    rows: dict[str, Attempt] = {}
    for one in committed_attempts(session_id).select_related("turn"):
        said = one.events.exclude(role=Event.Role.USER).order_by("position")
        key = key_of([event.text for event in said])
        assert key not in rows, key
        rows[key] = one
    return rows


def reads(session_id: uuid.UUID, *, until: int) -> dict[str, Any]:
    """Return everything of a chapter up to a turn, except ids. The result for a copy that ends with
    this turn must be the same."""
    chapter = read_chapter(session_id)
    names = {row.pk: replies for replies, row in rows_by_replies(session_id).items()}
    blocks = chapter.memory_blocks.filter(to_prompt_index__lte=until)
    return {
        "record": [
            one.rendered for one in chosen_entries(chapter, to_prompt=until, with_thoughts=True)
        ],
        "events": [
            [one.kind, one.text, one.agent_slot, one.witnesses, names[one.attempt_id]]
            for one in chapter.events.filter(prompt_index__lte=until).order_by(
                "prompt_index", "attempt__committed_at", "attempt", "position"
            )
        ],
        "blocks": [
            [
                one.type,
                one.from_prompt_index,
                one.to_prompt_index,
                one.told_until,
                one.audience,
                one.json_payload,
                names[one.attempt_id] if one.attempt_id else None,
            ]
            for one in blocks.order_by("created_at", "pk")
        ],
        "memory": [
            [one.type, one.to_prompt_index, one.audience, one.json_payload]
            for one in counting_blocks(chapter)
            if one.to_prompt_index <= until
        ],
        "seed": chapter.seed,
        "chunk": chapter.chunk_size_prompts,
    }


def marks_in(text: str) -> set[str]:
    return marks_of([text])


def thoughts_stored_in_memory(session_id: uuid.UUID) -> set[str]:
    """Return the marks of thoughts in memory blocks. There should be none."""
    blocks = MemoryBlock.objects.filter(session=session_id).values_list("json_payload", flat=True)
    return thoughts_in([json.dumps(one) for one in blocks])
