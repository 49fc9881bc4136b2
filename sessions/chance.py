"""Chance in a turn: what another attempt at it draws again, and whoever looks at it later."""

import hashlib
import random

from sessions.models import Session


def chance(chapter: Session, number: int, name: str) -> random.Random:
    """A source of chance for what is drawn under this name in this turn.

    It depends on the chapter's seed, the turn's number and the name alone: another attempt at the
    turn has the same luck, and one more draw under another name shifts none of these.
    """
    drawn = f"{chapter.seed.hex} {number} {name}"
    return random.Random(hashlib.sha256(drawn.encode()).digest())  # noqa: S311  (no secret)
