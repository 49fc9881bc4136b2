"""Stores attempts with their turns, as a chapter that was played has them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessions.models import Attempt


def store_with_turns(attempts: "Sequence[Attempt]", *, first: int = 1) -> None:
    """Store the attempts of a chapter, each as the chosen one of a new turn. The turns have the
    numbers from `first` on."""
    from sessions.models import Attempt, Turn

    Attempt.objects.bulk_create(attempts)
    turns = [
        Turn(session=attempt.session, number=number, chosen=attempt)
        for number, attempt in enumerate(attempts, first)
    ]
    for turn in Turn.objects.bulk_create(turns):
        turn.chosen.turn = turn
    Attempt.objects.bulk_update(attempts, ["turn"], batch_size=500)
