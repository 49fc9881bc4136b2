"""Tests that chance is the same in every attempt at a turn."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from sessions.models import Session
from sessions.play.chance import chance

SEED = uuid.UUID("5a3c0000-0000-4000-8000-000000000001")
seeds, numbers, names = st.uuids(), st.integers(1, 10_000), st.text(max_size=20)


def draws(seed: uuid.UUID, number: int, name: str) -> list[int]:
    source = chance(Session(seed=seed), number, name)
    return [source.randint(1, 1_000_000) for _ in range(4)]


@given(seeds, numbers, names)
def test_another_attempt_at_a_turn_has_the_same_luck(
    seed: uuid.UUID, number: int, name: str
) -> None:
    assert draws(seed, number, name) == draws(seed, number, name)


def test_seed_turn_and_name_each_make_another_luck() -> None:
    drawn = [
        draws(SEED, 3, "dice"),
        draws(SEED, 4, "dice"),
        draws(SEED, 3, "weather"),
        draws(uuid.UUID(int=1), 3, "dice"),
        # The number and the name are not simply joined: turn 33 with the name "3" and turn 3 with
        # the name "33" draw different numbers.
        draws(SEED, 33, "3"),
        draws(SEED, 3, "33"),
    ]
    assert len({tuple(one) for one in drawn}) == len(drawn)


def test_what_is_drawn_stays_the_same_with_every_release() -> None:
    assert draws(SEED, 3, "dice") == [767072, 46916, 61458, 28509]
