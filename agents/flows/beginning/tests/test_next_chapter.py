"""What the agents of a chapter are told of the chapter before it."""

import json
from collections.abc import Callable

import pytest

from agents.flows.beginning.locking import request_lock
from agents.flows.replies.composing import compose_start
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta, world_lock
from memory.models import MemoryBlock
from memory.tests.factories import add_delta, add_lock
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, save_setup
from sessions.chapter.stories import begin_next_chapter
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

NAMES = ["Mara", "Tom", "Ilse"]


@pytest.fixture
def chapter(provider: ScriptedProvider, run_jobs: Callable[[], int]) -> Session:
    """The locked chapter after one in which Mara and Tom alone learnt of a crack."""
    before = make_active_chapter(
        prompt_index=14,
        agent_names={str(slot): name for slot, name in enumerate(NAMES, 1)},
    )
    add_lock(before, world_lock(NAMES))
    add_delta(before, 1, 7, turn_delta(1, 7, canon_locks=["The lamp is lit."]))
    secret = turn_delta(8, 14, canon_locks=["The bell is cracked."])
    add_delta(before, 8, 14, secret, audience=[1, 2])
    chapter = begin_next_chapter(before.story_id)
    save_setup(chapter.pk, SetupChange(chapter_text="Morning on the quay."))
    provider.enqueue(json.dumps(world_lock(NAMES)))
    request_lock(chapter.pk)
    run_jobs()
    return get_chapter(chapter.pk)


def told(chapter: Session, slot: int) -> str:
    layers = compose_start(chapter, slot)
    return "\n".join(piece.text for layer in layers for piece in layer.pieces)


def test_it_costs_one_call_and_everybody_is_told_what_they_knew(
    chapter: Session, provider: ScriptedProvider
) -> None:
    assert len(provider.history) == 1
    for slot, knows in ((1, True), (2, True), (3, False)):
        assert "The lamp is lit." in told(chapter, slot)
        assert ("cracked" in told(chapter, slot)) is knows
    kinds = list(chapter.memory_blocks.order_by("created_at").values_list("type", "audience"))
    assert kinds == [
        (MemoryBlock.Type.WORLD_CHAPTER_LOCK, None),
        (MemoryBlock.Type.STORY_SO_FAR, [1, 2, 3]),
        (MemoryBlock.Type.STORY_SO_FAR, [1, 2]),
        # The narrator's own.
        (MemoryBlock.Type.STORY_SO_FAR, []),
    ]
