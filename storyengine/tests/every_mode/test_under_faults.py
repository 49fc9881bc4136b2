"""Tests that whatever dies while chapters of every mode are played, nothing is lost.

This is the short form of `make chaos`, with a fixed seed. At its end, the rows of the database are
checked. `test_broken_rows.py` proves that these checks notice violations.
"""

import os
from collections.abc import Iterator

import pytest

from chaos.__main__ import run
from chaos.client import Client
from chaos.driver import PATIENCE_SECONDS
from chaos.journal import Journal
from chaos.schedule import (
    CLIENT_FAULTS,
    FAULTS_ELSEWHERE,
    KILLS_OF_PROGRAM,
    KILLS_OF_SERVERS,
    MODEL_FAULTS,
    count_kinds,
    plan_faults,
)
from chaos.stack import Stack, open_stack
from testing.fake_server import FAULTS as FAULTS_OF_MODELS
from testing.program import wait_until
from testing.session_data import small_setup_of, synthetic_session

# True if the tests have PostgreSQL and Redis. The run then starts a PostgreSQL and a Redis of its
# own, and may kill them.
WITH_SERVERS = bool(os.environ.get("STORYENGINE_TEST_DATABASE_URL"))
# With fewer faults than this, some kind of fault would be missing. With this seed, one of the
# faults is repeated more often than the engine tries a call again.
FAULTS, SEED = 21, 11
# The longest time of the run in minutes. It usually takes less than one.
MINUTES = 5.0
ALL_MODES = "storyengine.tests.settings_with_lighthouse"
STACKS = [(KILLS_OF_PROGRAM, ()), (KILLS_OF_PROGRAM + KILLS_OF_SERVERS, FAULTS_ELSEWHERE)]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield the program's processes, with the lighthouse of the tests beside the installed
    modes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("DJANGO_SETTINGS_MODULE", ALL_MODES)
        with open_stack(with_servers=WITH_SERVERS) as stack:
            yield stack


@pytest.mark.each_run_on_servers
@pytest.mark.processes
def test_nothing_is_lost_under_faults(stack: Stack) -> None:
    faults = plan_faults(FAULTS, SEED, kills=stack.kills, elsewhere=stack.elsewhere)
    found = run(stack, faults, seed=SEED, minutes=MINUTES)
    assert found.violations == {}, stack.processes.end_of_logs()
    assert found.met == count_kinds(faults)
    assert found.is_complete
    played = {chapter["mode"] for chapter in stack.read_rows()["chapters"]}
    assert played == {scenario.mode for scenario in stack.scenarios}
    assert len(played) > 1


@pytest.mark.processes
@pytest.mark.skipif(not WITH_SERVERS, reason="There is no broker that could hang.")
def test_work_is_done_beside_a_broker_that_hangs(stack: Stack) -> None:
    """A broker that hangs sends the worker no notice. The sweep finds the job all the same."""
    client = Client(stack.programs, Journal())
    scenario = stack.scenarios[0]
    for number, hanging in enumerate([True, False], 1):
        chapter = client.create(small_setup_of(synthetic_session(1), number), scenario)
        if hanging:
            with stack.hanging("redis"):
                _lock(client, chapter)
        else:
            _lock(client, chapter)
    assert client.violations == [], stack.processes.end_of_logs()


def _lock(client: Client, chapter: str) -> None:
    client.ask(chapter, "lock")

    def is_locked() -> bool:
        return bool(client.read(chapter)["state"] == "ACTIVE")

    wait_until(is_locked, "the work in the background", seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize(("kills", "elsewhere"), STACKS)
@pytest.mark.parametrize("count", [1, FAULTS, 1_000])
def test_a_tenth_are_kills_and_all_kinds_are_spread_evenly(
    kills: tuple[str, ...], elsewhere: tuple[str, ...], count: int
) -> None:
    faults = plan_faults(count, SEED, kills=kills, elsewhere=elsewhere)
    assert faults == plan_faults(count, SEED, kills=kills, elsewhere=elsewhere)
    kinds = count_kinds(faults)
    killed = [kinds[kind] for kind in kills]
    others = [kinds[kind] for kind in (*MODEL_FAULTS, *CLIENT_FAULTS, *elsewhere)]
    assert sum(killed) + sum(others) == count <= 10 * sum(killed) < count + 10
    for some in (killed, others):
        assert max(some) - min(some) <= 1
    assert set(MODEL_FAULTS.values()) <= FAULTS_OF_MODELS
