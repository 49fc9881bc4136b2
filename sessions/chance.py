"""Draws chance for a turn. All attempts at the turn have the same draws, which can be repeated."""

import hashlib
import random

from sessions.models import Session


def chance(chapter: Session, number: int, name: str) -> random.Random:
    """Return a source of chance for one name in this turn.

    It depends only on the chapter's seed, the turn's number and the name. So another attempt has
    the same luck, and a draw under another name does not change it.
    """
    drawn = f"{chapter.seed.hex} {number} {name}"
    return random.Random(hashlib.sha256(drawn.encode()).digest())  # noqa: S311  (no secret)
