"""Draws chance for a turn. All attempts at a turn get the same draws."""

import hashlib
import random

from sessions.models import Session


def chance(chapter: Session, number: int, name: str) -> random.Random:
    """Return a generator of random numbers for this turn and this name.

    Its numbers depend only on the chapter's seed, the turn's number and the name. So another
    attempt at the turn draws the same numbers, and draws under other names do not change them.
    """
    drawn = f"{chapter.seed.hex} {number} {name}"
    return random.Random(hashlib.sha256(drawn.encode()).digest())  # noqa: S311  (no secret)
