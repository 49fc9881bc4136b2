"""Tests of `make chaos`, with a short run.

The run has a fixed seed. At its end, the rows of the database are checked for losses.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import __main__ as chaos_run
from chaos.__main__ import Found, parse_options, play_until_met, run
from chaos.client import Client
from chaos.driver import PATIENCE_SECONDS
from chaos.journal import Journal, Violation
from chaos.scenarios import Scenario
from chaos.schedule import (
    CLIENT_FAULTS,
    KILLS_OF_PROGRAM,
    KILLS_OF_SERVERS,
    MODEL_FAULTS,
    Fault,
    count_kinds,
    plan_faults,
)
from chaos.stack import Stack, open_stack
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
TWO_MODES = "storyengine.tests.settings_with_lighthouse"
# The scenario of a mode that has all stages.
SCENARIO = Scenario("any")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield the program's processes. The program has a second mode, the lighthouse of the tests."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("DJANGO_SETTINGS_MODULE", TWO_MODES)
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


def test_the_short_form_is_of_every_kind() -> None:
    """So short a run has only three kills. With PostgreSQL and Redis there are five kinds of kill,
    so some may be missing."""
    alone = plan_faults(FAULTS, SEED)
    assert set(count_kinds(alone)) == {*MODEL_FAULTS, *CLIENT_FAULTS, *KILLS_OF_PROGRAM}
    beside = plan_faults(FAULTS, SEED, kills=KILLS_OF_PROGRAM + KILLS_OF_SERVERS)
    assert set(count_kinds(beside)) >= {*MODEL_FAULTS, *CLIENT_FAULTS, *KILLS_OF_SERVERS}
    assert any(fault.repeats > 1 for fault in alone)
    assert any(fault.repeats > 1 for fault in beside)


def test_a_fault_that_met_nothing_comes_again_until_something_meets_it() -> None:
    planned = plan_faults(FAULTS, SEED)
    tried: list[Fault] = []

    def step(fault: Fault) -> bool:
        tried.append(fault)
        return len(tried) % 3 == 0

    played = list(play_until_met(planned, step))
    assert [fault for fault, _was_met in played] == tried
    met = [fault for fault, was_met in played if was_met]
    assert [(fault.number, fault.kind) for fault in met] == [
        (fault.number, fault.kind) for fault in planned
    ]
    # A fault without an effect is tried again with other random choices. The same choices would
    # have no effect again.
    assert len({fault.choices for fault in tried}) == len(tried) == 3 * FAULTS


@pytest.mark.parametrize(
    ("met", "violations", "code"),
    [(3, [], 0), (2, [], 1), (3, [Violation("no draft is lost", "chapter-1", "draft 4")], 1)],
    ids=["all met", "the time ran out", "a violation"],
)
def test_the_exit_code_says_whether_all_was_met_and_nothing_broken(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    met: int,
    violations: Sequence[Violation],
    code: int,
) -> None:
    def run_shortly(_stack: Any, faults: Sequence[Fault], **_: Any) -> Found:
        found = Found(seed=7, planned=len(faults))
        found.injected["cut"], found.met["cut"] = 3, met
        found.add(violations, 1)
        return found

    monkeypatch.setattr(chaos_run, "open_stack", no_stack)
    monkeypatch.setattr(chaos_run, "run", run_shortly)
    assert chaos_run.main(parse_options(["--faults=3"])) == code
    ended_early = "ended before 3 faults were met" in capsys.readouterr().out
    assert ended_early == (met < 3)


def test_a_run_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        def __init__(self, *_: object) -> None:
            self.step = lambda _fault: False
            self.finish = lambda: None

    monkeypatch.setattr(chaos_run, "Driver", Driver)
    with no_stack() as stack:
        found = run(stack, plan_faults(3, SEED), seed=SEED, minutes=0)
    assert (found.met.total(), found.is_complete) == (0, False)


@contextmanager
def no_stack(**_: object) -> Iterator[Any]:
    """Yield an object in place of the stack. It has no processes, and its database is empty."""
    yield SimpleNamespace(
        kills=KILLS_OF_PROGRAM,
        programs=[],
        elsewhere=(),
        processes=SimpleNamespace(end_of_logs=str),
        scenarios=[SCENARIO],
        read_rows=lambda: {"read_at": 0.0, "chapters": []},
    )
