"""Functions for tests in which several threads change one chapter."""

from collections.abc import Callable

from memory.blocks.blocks import counting_blocks
from memory.models import MemoryBlock
from sessions.models import Attempt, Session
from sessions.play.attempts import OpenedAttempt, open_prompt


def opening(chapter: Session, text: str, key: str) -> Callable[[], OpenedAttempt]:
    return lambda: open_prompt(chapter.pk, actor=1, words=text, submission_key=key)


def check(chapter: Session) -> None:
    """Check that each turn has a chosen attempt with the words of the user and of a character, and
    that no attempt is running.

    The deltas have to cover each turn up to the summary pointer exactly once.
    """
    chapter.refresh_from_db()
    turns = list(chapter.turns.select_related("chosen"))
    assert [turn.number for turn in turns] == list(range(1, chapter.prompt_index + 1))
    for turn in turns:
        assert turn.chosen.turn_id == turn.pk
        assert [event.role for event in turn.chosen.events.all()] == ["user", "agent"]
    blocks = counting_blocks(chapter).filter(type=MemoryBlock.Type.TURN_DELTA)
    spans = blocks.values_list("from_prompt_index", "to_prompt_index")
    covered = [index for first, last in spans for index in range(first, last + 1)]
    assert covered == list(range(1, chapter.last_summarized_prompt_index + 1))
    assert chapter.turn_in_flight is None
    assert not chapter.attempts.filter(status=Attempt.Status.RUNNING).exists()
