"""A file of a chapter keeps what its people know of the chapter before."""

import pytest

from agents.flows.replies.composing import compose_start
from agents.tests.replies import turn_delta, world_lock
from memory.before.story_so_far import write_story_so_far
from memory.tests.factories import add_delta, add_lock
from sessions.chapter.access import get_chapter
from sessions.chapter.stories import begin_next_chapter
from sessions.models import Session, State
from sessions.tests.factories import make_active_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


def told(chapter: Session, slot: int) -> str:
    layers = compose_start(chapter, slot)
    return "\n".join(piece.text for layer in layers for piece in layer.pieces)


def test_everybody_in_the_copy_is_told_the_same() -> None:
    before = make_active_chapter(prompt_index=7)
    add_lock(before, world_lock())
    secret = turn_delta(1, 7, canon_locks=["The bell is cracked."])
    add_delta(before, 1, 7, secret, audience=[1, 2])
    key = begin_next_chapter(before.story_id).pk
    Session.objects.filter(pk=key).update(state=State.ACTIVE, tab1_locked=True)
    add_lock(get_chapter(key), world_lock())
    write_story_so_far(get_chapter(key))
    chapter = get_chapter(key)
    copy = import_chapter(export_chapter(key).to_json())
    for slot, knows in ((1, True), (2, True), (3, False)):
        assert told(copy, slot) == told(chapter, slot)
        assert ("cracked" in told(copy, slot)) is knows
