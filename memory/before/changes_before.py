"""Says how the chapter before has changed since its memory was handed on."""

from dataclasses import dataclass
from typing import Any

from memory.blocks.blocks import counting_blocks
from memory.models import MemoryBlock
from sessions.chapter.people import followed
from sessions.chapter.stories import chapter_before
from sessions.models import PLAYABLE, Attempt, Session
from sessions.record.chosen_events import committed_attempts

# The keys of a state as `state_before` returns it.
CHOSEN, IS_THERE, PROMPTS, ATTEMPT, RULINGS, MEMORY = (
    *("chosen", "is_there", "prompts", "attempt", "rulings", "memory"),
)


@dataclass(frozen=True)
class ChangesBefore:
    """The changes of the chapter before, as sentences. `before` is that chapter, or None if it was
    deleted. `can_renew` says that the memory of the people can still be brought up to date."""

    before: Session | None
    sentences: tuple[str, ...]
    can_renew: bool


def state_before(chapter: Session) -> dict[str, Any]:
    """Return how the chapter before stands now: which chapter is the chosen one at its place, and
    the parts of the followed chapter that can still change."""
    chosen = chapter_before(chapter)
    before = followed(chapter)
    state = {CHOSEN: str(chosen.pk) if chosen else "", IS_THERE: before is not None}
    if before is None:
        return state | {PROMPTS: 0, ATTEMPT: 0, RULINGS: 0, MEMORY: 0}
    counting = counting_blocks(before).order_by().values_list("type", flat=True)
    rulings = sum(one == MemoryBlock.Type.CANON_CORRECTION for one in counting)
    return state | {
        PROMPTS: before.prompt_index,
        ATTEMPT: _place_of_chosen(before),
        RULINGS: rulings,
        MEMORY: len(counting) - rulings,
    }


def changes_before(chapter: Session) -> ChangesBefore | None:
    """Return the changes since memory was handed on, or since the user last took note of changes.
    Return None if nothing has changed."""
    known = chapter.followed_state
    if known is None:
        return None
    now = state_before(chapter)
    if now == known:
        return None
    before, chosen = followed(chapter), chapter_before(chapter)
    return ChangesBefore(
        before, tuple(_sentences(known, now, before, chosen)), can_renew=can_renew(chapter)
    )


def can_renew(chapter: Session) -> bool:
    """Return whether no prompt was sent yet, so that no play depends on the memory that was handed
    on."""
    if chapter.followed_state is None or chapter.state not in PLAYABLE or chapter.prompt_index:
        return False
    return not chapter.attempts.filter(status=Attempt.Status.RUNNING).exists()


def _sentences(
    known: dict[str, Any], now: dict[str, Any], before: Session | None, chosen: Session | None
) -> list[str]:
    if known[CHOSEN] != now[CHOSEN]:
        if chosen is None:
            return ["It was deleted."]
        return [f"The story goes by another chapter there now: “{chosen.title}”."]
    if before is None:
        return ["It was deleted."] if known[IS_THERE] else []
    if not known[IS_THERE]:
        return ["It was deleted, and is back."]
    told = []
    more = now[PROMPTS] - known[PROMPTS]
    if more > 0:
        told.append(f"It was played on by {more} prompt{'s' if more > 1 else ''}.")
    elif known[ATTEMPT] != now[ATTEMPT]:
        told.append("Its last turn has another reply.")
    if known[RULINGS] != now[RULINGS]:
        told.append("Its memory was corrected.")
    if not told:
        told.append("Its memory tells more.")
    return told


def _place_of_chosen(chapter: Session) -> int:
    """Return the place of the chosen attempt among the attempts at the last turn, or 0 without a
    turn."""
    turn = chapter.turns.filter(number=chapter.prompt_index).first()
    if turn is None:
        return 0
    attempts = committed_attempts(chapter.pk).filter(turn=turn)
    return list(attempts.values_list("pk", flat=True)).index(turn.chosen_id) + 1
