"""Chapters under faults, and a proof from the database that nothing was lost: python -m chaos

Prints a table by kind of fault, and every violation with the seed and the step that it was found
after. Exit code 1 on violations.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.http_calls import BenchError
from chaos.client import Client
from chaos.driver import Driver
from chaos.invariants import find_violations
from chaos.journal import Journal, Violation
from chaos.schedule import Fault, plan_faults
from chaos.stack import Stack, open_stack

# How often the database is looked into, in steps.
CHECK_EVERY = 25


@dataclass
class Found:
    """What came of a run."""

    seed: int
    planned: int
    injected: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    # Each with the step after which it was first seen.
    violations: dict[Violation, int] = field(default_factory=dict)
    seconds: float = 0.0
    played: str = ""

    def add(self, violations: Sequence[Violation], step: int) -> None:
        for violation in violations:
            self.violations.setdefault(violation, step)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=30.0, help="stop after so long at most")
    parser.add_argument(
        "--servers",
        action="store_true",
        help="on a PostgreSQL and a Redis of its own, which are killed too",
    )
    return parser.parse_args(arguments)


def run(stack: Stack, faults: Sequence[Fault], *, seed: int, minutes: float) -> Found:
    """Play under all faults, or as many as the time allows, and look into the database."""
    started = time.monotonic()
    client = Client(stack.program, Journal())
    driver = Driver(stack, client)
    found = Found(seed, len(faults))
    step = 0
    try:
        for fault in faults:
            if time.monotonic() - started > minutes * 60:
                break
            step = fault.number
            found.injected[fault.kind] += 1
            found.met[fault.kind] += driver.step(fault)
            found.add(client.violations, step)
            if step % CHECK_EVERY == 0:
                found.add(find_violations(stack.read_rows(), client.journal), step)
        driver.finish()
    except BenchError as error:
        found.add([Violation("the run goes on", "", str(error))], step)
    found.add(client.violations, step)
    snapshot = stack.read_rows()
    found.add(find_violations(snapshot, client.journal), step)
    found.seconds = time.monotonic() - started
    chapters = snapshot["chapters"]
    found.played = (
        f"{len(chapters)} chapters, {sum(c['prompt_index'] for c in chapters)} prompts, "
        f"{sum(len(c['blocks']) for c in chapters)} memory blocks, "
        f"{sum(len(c['drafts']) for c in chapters)} drafts; "
        f"{len(client.journal.answered)} answers were promised"
    )
    return found


def print_found(found: Found) -> None:
    print(f"\n{'fault':<14}{'injected':>9}{'met':>6}")
    for kind in sorted(found.injected):
        print(f"{kind:<14}{found.injected[kind]:>9}{found.met[kind]:>6}")
    kills = sum(number for kind, number in found.met.items() if kind.startswith("kill-"))
    total = f"{found.injected.total():>9}{found.met.total():>6}"
    print(f"{'all':<14}{total}  of {found.planned} planned; {kills} kills")
    print(f"{found.played}; {found.seconds:.0f} seconds")
    print(f"\n{len(found.violations)} violations")
    for violation, step in found.violations.items():
        print(
            f"seed {found.seed}, step {step}: {violation.rule}; "
            f"{violation.chapter}: {violation.detail}"
        )


def main(options: argparse.Namespace) -> int:
    with open_stack(with_servers=options.servers) as stack:
        faults = plan_faults(options.faults, options.seed, kills=stack.kills)
        found = run(stack, faults, seed=options.seed, minutes=options.minutes)
        if found.violations:
            print(stack.processes.end_of_logs(), file=sys.stderr)
    print_found(found)
    return 1 if found.violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main(parse_options()))
    except KeyboardInterrupt:
        sys.exit(130)
