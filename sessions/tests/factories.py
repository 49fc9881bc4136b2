"""Chapters in the states that tests start from."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from sessions.models import Event, Session, Tab1Inputs, Turn
from sessions.states import State


def make_chapter(**fields: Any) -> Session:
    """A chapter on Tab 1, filled in."""
    chapter = Session(**{"title": "The Dark Lamp", **fields})
    chapter.save(force_insert=True)
    Tab1Inputs.objects.create(
        session=chapter,
        world_text="A harbour town at the edge of the ice.",
        chapter_text="Night. The lighthouse is dark.",
        agent_identity_text_by_slot={"1": "A ferrywoman.", "2": "A priest.", "3": "A child."},
    )
    return chapter


def make_active_chapter(**fields: Any) -> Session:
    """A locked chapter in play."""
    return make_chapter(**{"state": State.ACTIVE, "tab1_locked": True, **fields})


def add_prompts(chapter: Session, count: int, *, text: str = "beat", reply: str = "reply") -> None:
    """Commit `count` further prompts, each with one reply, as if they had been played."""
    first = chapter.prompt_index + 1
    for index in range(first, first + count):
        slot = (index - 1) % len(chapter.selected_agent_slots) + 1
        Event.objects.create(
            session=chapter, prompt_index=index, role=Event.Role.USER, text=f"{text} {index}"
        )
        Event.objects.create(
            session=chapter,
            prompt_index=index,
            role=Event.Role.AGENT,
            agent_slot=slot,
            text=f"{reply} {index}",
        )
    chapter.prompt_index += count
    chapter.save(update_fields=["prompt_index", "updated_at"])


def add_turn(chapter: Session, **fields: Any) -> Turn:
    """A prompt and what became of it: running in a live process, unless the fields say otherwise.

    The chapter itself is left as it is.
    """
    return Turn.objects.create(
        session=chapter,
        **{
            "submission_key": "key-1",
            "agent_slot": 2,
            "user_text": "The ice cracks.",
            "lease_until": timezone.now() + timedelta(minutes=1),
            **fields,
        },
    )
