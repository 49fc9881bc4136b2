"""Chapters that are ready to be narrated, and prose of a known length."""

from agents.tests.replies import turn_delta
from memory.models import MemoryBlock
from sessions.models import Session
from sessions.states import State
from sessions.tests.factories import add_prompts, make_active_chapter


def make_ended_chapter(prompts: int = 14, **fields: object) -> Session:
    chapter = make_active_chapter(state=State.ENDED, target_words=200, **fields)
    add_prompts(chapter, prompts)
    for first in range(1, prompts + 1, 7):
        last = min(first + 6, prompts)
        MemoryBlock.objects.create(
            session=chapter,
            type=MemoryBlock.Type.TURN_DELTA,
            from_prompt_index=first,
            to_prompt_index=last,
            json_payload=turn_delta(first, last),
        )
    Session.objects.update(last_summarized_prompt_index=prompts)
    chapter.refresh_from_db()
    return chapter


def words(count: int, stem: str = "word") -> str:
    return " ".join(f"{stem}{number}" for number in range(count)) + "."
