"""The short form of `make chaos`: a run of a fixed seed, whose database proves that it held."""

import os

import pytest

from chaos.__main__ import Found, print_found, run
from chaos.journal import Violation
from chaos.schedule import plan_faults
from chaos.stack import open_stack

FAULTS, SEED = 25, 7
# A bound, not a wish: it takes well under a minute.
MINUTES = 5.0


@pytest.mark.processes
def test_nothing_is_lost_under_faults() -> None:
    # Where the tests have PostgreSQL and Redis, these can be started here too, and be killed.
    with_servers = bool(os.environ.get("STORYENGINE_TEST_DATABASE_URL"))
    with open_stack(with_servers=with_servers) as stack:
        faults = plan_faults(FAULTS, SEED, kills=stack.kills)
        found = run(stack, faults, seed=SEED, minutes=MINUTES)
        logs = stack.processes.end_of_logs()
    assert found.violations == {}, logs
    assert found.injected.total() == FAULTS
    assert found.met.total() > FAULTS // 2


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
