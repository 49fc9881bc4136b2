"""Random numbers for a turn. All attempts at a turn draw the same numbers."""

import hashlib
import random

from sessions.models import Attempt, Session


def chance(chapter: Session, number: int, name: str) -> random.Random:
    """Return a generator of random numbers for this turn and this name.

    The numbers depend only on the chapter's seed, the turn's number and the name. So another
    attempt at the turn draws the same numbers. Numbers that are drawn under other names have no
    influence.
    """
    drawn = f"{chapter.seed.hex} {number} {name}"
    return random.Random(hashlib.sha256(drawn.encode()).digest())  # noqa: S311  (no secret)


def chance_of(attempt: Attempt, name: str) -> random.Random:
    """Return a generator of random numbers for the attempt's turn and this name."""
    chapter = attempt.session
    number = attempt.turn.number if attempt.turn else chapter.prompt_index + 1
    return chance(chapter, number, name)
