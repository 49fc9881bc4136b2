import random

import pytest

from chaos.schedule import (
    CLIENT_FAULTS,
    FAULTS_ELSEWHERE,
    KILLS_OF_PROGRAM,
    KILLS_OF_SERVERS,
    MODEL_FAULTS,
    count_kinds,
    plan_faults,
)
from testing.fake_server import FAULTS

STACKS = [(KILLS_OF_PROGRAM, ()), (KILLS_OF_PROGRAM + KILLS_OF_SERVERS, FAULTS_ELSEWHERE)]


@pytest.mark.parametrize(("kills", "elsewhere"), STACKS)
def test_a_tenth_are_kills_and_all_kinds_are_spread_evenly(
    kills: tuple[str, ...], elsewhere: tuple[str, ...]
) -> None:
    chance = random.Random(4)  # noqa: S311  (test data, no secret)
    for _ in range(200):
        count = chance.randint(1, 1_500)
        faults = plan_faults(count, chance.getrandbits(32), kills=kills, elsewhere=elsewhere)
        kinds = count_kinds(faults)
        killed = [kinds[kind] for kind in kills]
        others = [kinds[kind] for kind in (*MODEL_FAULTS, *CLIENT_FAULTS, *elsewhere)]
        assert [fault.number for fault in faults] == list(range(1, count + 1))
        assert sum(killed) + sum(others) == count
        assert count <= 10 * sum(killed) < count + 10
        assert max(killed) - min(killed) <= 1
        assert max(others) - min(others) <= 1


def test_a_seed_gives_the_same_faults_again_and_another_seed_others() -> None:
    assert plan_faults(300, 7) == plan_faults(300, 7)
    assert plan_faults(300, 7) != plan_faults(300, 8)


def test_the_model_server_knows_every_fault_of_a_model() -> None:
    assert set(MODEL_FAULTS.values()) <= FAULTS
