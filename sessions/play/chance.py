"""Random numbers for a turn. All attempts at a turn draw the same numbers."""

import hashlib
import random

from sessions.models import Session


def chance(chapter: Session, number: int, name: str) -> random.Random:
    """Return a generator of random numbers for this turn and this name.

    The numbers depend only on the chapter's seed, the turn's number and the name. So another
    attempt at the turn draws the same numbers. Numbers that are drawn under other names have no
    influence.
    """
    drawn = f"{chapter.seed.hex} {number} {name}"
    return random.Random(hashlib.sha256(drawn.encode()).digest())  # noqa: S311  (no secret)
