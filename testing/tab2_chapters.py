"""Builds chapters with more events than Tab 2 shows.

This is a separate program (python -m testing.tab2_chapters 100 1000), because it needs Django's
settings. It prints a JSON list of the paths of their pages.
"""

import json
import os
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import django

from testing.model_replies import ModelReplies
from testing.session_data import beat_text, reply_text
from testing.stored_turns import store_with_turns

if TYPE_CHECKING:
    from sessions.models import Session

EVENT_CHARACTERS = 620
CHUNK = 7


def main(sizes: list[int]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    print(json.dumps([f"/chapters/{pk}/play" for pk in build_chapters(sizes)]))


def build_chapters(sizes: list[int]) -> list[str]:
    """Create a chapter for each of these numbers of events, and return their ids."""
    return [str(build_chapter(size).pk) for size in sizes]


def build_chapter(events: int) -> "Session":
    """Create a valid chapter in play, with this number of events and with memory of each full
    stretch."""
    from django.utils import timezone

    from sessions.chapter.cast import default_cast
    from sessions.models import CastMember, Session, State, Tab1Inputs

    prompts = events // 2
    covered = prompts // CHUNK * CHUNK
    chapter = Session.objects.create(
        title=f"A chapter of {events} events",
        state=State.ACTIVE,
        tab1_locked=True,
        prompt_index=prompts,
        last_summarized_prompt_index=covered,
    )
    Tab1Inputs.objects.create(session=chapter, world_text=beat_text(1), chapter_text=beat_text(2))
    cast = default_cast()
    for member in cast:
        member.session = chapter
    CastMember.objects.bulk_create(cast)
    begun = timezone.now() - timedelta(seconds=events)
    _add_play(chapter, events, begun)
    _add_memory(chapter, covered, begun)
    return chapter


def _add_play(chapter: "Session", events: int, begun: datetime) -> None:
    """Add the chapter's turns, each with one attempt and two events."""
    from sessions.models import Attempt, Event

    attempts = [
        Attempt(
            session=chapter,
            submission_key=f"beat-{number}",
            status=Attempt.Status.COMMITTED,
            actor=number % 3 + 1,
            words=_event_text(2 * number),
            lease_until=begun,
            submitted_at=begun + timedelta(seconds=2 * number),
            committed_at=begun + timedelta(seconds=2 * number + 1),
        )
        for number in range(events // 2)
    ]
    store_with_turns(attempts)
    Event.objects.bulk_create(
        Event(
            session=chapter,
            attempt=attempts[number // 2],
            prompt_index=number // 2 + 1,
            position=number % 2,
            role=Event.Role.AGENT if number % 2 else Event.Role.USER,
            agent_slot=number // 2 % 3 + 1 if number % 2 else None,
            text=_event_text(number),
            witnesses=chapter.selected_agent_slots,
            created_at=begun + timedelta(seconds=number),
        )
        for number in range(events)
    )


def _add_memory(chapter: "Session", covered: int, begun: datetime) -> None:
    """Add the lock, the deltas up to prompt `covered`, and the jobs that wrote the deltas."""
    from agents.models import Job
    from memory.models import MemoryBlock

    Job.objects.bulk_create(
        Job(
            session=chapter,
            kind=Job.Kind.SUMMARIZE,
            key=f"{first}-{first + CHUNK - 1}",
            status=Job.Status.DONE,
            from_prompt_index=first,
            to_prompt_index=first + CHUNK - 1,
            created_at=begun + timedelta(seconds=2 * first),
        )
        for first in range(1, covered + 1, CHUNK)
    )
    replies = ModelReplies(None, 0)
    lock = json.loads(replies.text_for(0, []))
    MemoryBlock.objects.create(
        session=chapter,
        type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
        from_prompt_index=0,
        to_prompt_index=0,
        json_payload=lock,
        created_at=begun,
    )
    chosen = dict(chapter.turns.values_list("number", "chosen"))
    blocks = []
    for first in range(1, covered + 1, CHUNK):
        last = first + CHUNK - 1
        lines = "\n".join(f"{number}) {beat_text(number)}" for number in range(first, last + 1))
        delta = json.loads(replies.text_for(8, [lines]))
        blocks.append((first, last, delta))
    MemoryBlock.objects.bulk_create(
        MemoryBlock(
            session=chapter,
            type=MemoryBlock.Type.TURN_DELTA,
            attempt_id=chosen[last],
            audience=chapter.selected_agent_slots,
            from_prompt_index=first,
            to_prompt_index=last,
            json_payload=payload,
            created_at=begun + timedelta(seconds=2 * last),
        )
        for first, last, payload in blocks
    )


def _event_text(number: int) -> str:
    text = reply_text(number, 200) if number % 2 else beat_text(number)
    return (text + " ").ljust(EVENT_CHARACTERS, "…")[:EVENT_CHARACTERS]


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
