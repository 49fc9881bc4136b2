"""The short form of `make chaos`: a run of a fixed seed, whose database proves that it held."""

import os
from collections.abc import Iterator

import pytest

from bench.program import wait_until
from bench.session_data import small_setup_of, synthetic_session
from chaos.__main__ import Found, print_found, run
from chaos.client import Client
from chaos.driver import PATIENCE_SECONDS
from chaos.journal import Journal, Violation
from chaos.schedule import (
    CLIENT_FAULTS,
    KILLS_OF_PROGRAM,
    KILLS_OF_SERVERS,
    MODEL_FAULTS,
    count_kinds,
    plan_faults,
)
from chaos.stack import Stack, open_stack

# Where the tests have PostgreSQL and Redis, these can be started here too, and be killed.
WITH_SERVERS = bool(os.environ.get("STORYENGINE_TEST_DATABASE_URL"))
# As few as hold every kind, one of them often enough to outlast the engine's own retries.
FAULTS, SEED = 21, 11
# A bound, not a wish: it takes well under a minute.
MINUTES = 5.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with open_stack(with_servers=WITH_SERVERS) as stack:
        yield stack


@pytest.mark.processes
def test_nothing_is_lost_under_faults(stack: Stack) -> None:
    faults = plan_faults(FAULTS, SEED, kills=stack.kills)
    found = run(stack, faults, seed=SEED, minutes=MINUTES)
    assert found.violations == {}, stack.processes.end_of_logs()
    assert found.injected.total() == FAULTS
    assert found.met.total() > FAULTS // 2


@pytest.mark.processes
@pytest.mark.skipif(not WITH_SERVERS, reason="There is no broker that could hang.")
def test_work_is_done_beside_a_broker_that_hangs(stack: Stack) -> None:
    """No bell rings, and the worker's connection breaks without a word: its sweep finds the job."""
    client = Client(stack.program, Journal())
    for number, hanging in enumerate([True, False], 1):
        chapter = client.create(small_setup_of(synthetic_session(1), number))
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


def test_the_short_form_is_of_every_kind() -> None:
    """With servers two of the five kills are left to the long one."""
    alone = plan_faults(FAULTS, SEED)
    assert set(count_kinds(alone)) == {*MODEL_FAULTS, *CLIENT_FAULTS, *KILLS_OF_PROGRAM}
    beside = plan_faults(FAULTS, SEED, kills=KILLS_OF_PROGRAM + KILLS_OF_SERVERS)
    assert set(count_kinds(beside)) >= {*MODEL_FAULTS, *CLIENT_FAULTS, *KILLS_OF_SERVERS}
    assert any(fault.repeats > 1 for fault in alone)
    assert any(fault.repeats > 1 for fault in beside)


def test_a_violation_is_printed_with_what_repeats_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = Found(seed=7, planned=3)
    found.injected["kill-web"] = 2
    found.add([Violation("no draft is lost", "chapter-1", "draft 4")], 2)
    found.add([Violation("no draft is lost", "chapter-1", "draft 4")], 3)
    print_found(found)
    printed = capsys.readouterr().out
    assert "seed 7, step 2: no draft is lost; chapter-1: draft 4" in printed
    assert "1 violations" in printed
