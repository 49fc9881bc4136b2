"""What several threads do to a chapter, and what has to hold of it afterwards."""

from collections.abc import Callable

from memory.models import MemoryBlock
from sessions.models import Event, Session, Turn
from sessions.turns import OpenedTurn, open_prompt


def opening(chapter: Session, text: str, key: str) -> Callable[[], OpenedTurn]:
    return lambda: open_prompt(chapter.pk, agent_slot=1, user_text=text, submission_key=key)


def check(chapter: Session) -> None:
    """Prompts 1 to n, each once and answered; memory that tiles them; no turn left in flight."""
    chapter.refresh_from_db()
    prompts = chapter.events.filter(role=Event.Role.USER).values_list("prompt_index", flat=True)
    assert list(prompts) == list(range(1, chapter.prompt_index + 1))
    answered = chapter.events.filter(role=Event.Role.AGENT).values_list("prompt_index", flat=True)
    assert set(answered) == set(prompts)
    blocks = chapter.memory_blocks.filter(type=MemoryBlock.Type.TURN_DELTA)
    spans = blocks.order_by("from_prompt_index").values_list("from_prompt_index", "to_prompt_index")
    covered = [index for first, last in spans for index in range(first, last + 1)]
    assert covered == list(range(1, chapter.last_summarized_prompt_index + 1))
    assert chapter.turn_in_flight is None
    assert chapter.rerolling_prompt_index is None
    assert not chapter.turns.filter(status=Turn.Status.RUNNING).exists()
