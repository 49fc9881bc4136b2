"""Plays chapters while it causes faults, and checks the database for losses: python -m chaos

A fault that had no effect is tried again until it has one. At the end the program prints a table of
the kinds of fault. It prints each violation with the seed and the step after which it was found.
The exit code is 1 if there are violations, or if the time ran out before every fault had an effect.
"""

import argparse
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.client import Client
from chaos.driver import Driver
from chaos.follow_ups import AFTER
from chaos.invariants import find_violations
from chaos.journal import Journal, Violation
from chaos.schedule import Fault, plan_faults
from chaos.stack import Clock, Stack, open_stack
from testing.http_calls import RunError

# The number of steps between two checks of the database.
CHECK_EVERY = 25


@dataclass
class Found:
    """The result of a run.

    For each kind of fault, `injected` counts the tries, and `met` counts the tries that had an
    effect.
    """

    seed: int
    planned: int
    injected: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    # Each violation, with the step after which it was first found.
    violations: dict[Violation, int] = field(default_factory=dict)
    seconds: float = 0.0
    played: str = ""

    @property
    def is_complete(self) -> bool:
        return self.met.total() >= self.planned

    def add(self, violations: Sequence[Violation], step: int) -> None:
        for violation in violations:
            self.violations.setdefault(violation, step)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=1_000, help="so many that met something")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=45.0, help="stop after so long at most")
    parser.add_argument(
        "--servers",
        action="store_true",
        help="two web processes and two workers on a PostgreSQL and a Redis of their own, which "
        "are killed too",
    )
    parser.add_argument(
        "--clock-ahead",
        type=int,
        default=0,
        metavar="SECONDS",
        help="the second web process and the second worker have a clock that is ahead so much",
    )
    options = parser.parse_args(arguments)
    if options.clock_ahead and not options.servers:
        parser.error("--clock-ahead needs --servers, because only then there are two processes")
    return options


def run(stack: Stack, faults: Sequence[Fault], *, seed: int, minutes: float) -> Found:
    """Play until every fault has had an effect, or until the time is over. Check the database in
    between."""
    started = time.monotonic()
    client = Client(stack.programs, Journal())
    driver = Driver(stack, client, stack.scenarios)
    found = Found(seed, len(faults))
    step = 0
    try:
        for fault, was_met in play_until_met(faults, driver.step):
            step += 1
            found.injected[fault.kind] += 1
            found.met[fault.kind] += was_met
            found.add(client.violations, step)
            if step % CHECK_EVERY == 0:
                found.add(find_violations(stack.read_rows(), client.journal), step)
            if time.monotonic() - started > minutes * 60:
                break
        driver.finish()
    except RunError as error:
        found.add([Violation("the run goes on", "", str(error))], step)
    found.add(client.violations, step)
    snapshot = stack.read_rows()
    found.add(find_violations(snapshot, client.journal), step)
    found.seconds = time.monotonic() - started
    chapters = snapshot["chapters"]
    by_mode = Counter(chapter["mode"] for chapter in chapters)
    found.played = (
        f"{len(chapters)} chapters, {sum(c['forked_at_prompt'] > 0 for c in chapters)} of them "
        f"forks, {sum(c['prompt_index'] for c in chapters)} prompts, "
        f"{client.journal.choices} times another attempt was chosen, {_played_alone(chapters)}, "
        f"{sum(len(c['blocks']) for c in chapters)} memory blocks, "
        f"{sum(len(c['drafts']) for c in chapters)} drafts; "
        f"{len(client.journal.answered)} answers were promised; chapters by their way to play: "
        + ", ".join(f"{count} {mode}" for mode, count in sorted(by_mode.items()))
    )
    return found


def _played_alone(chapters: Sequence[dict[str, Any]]) -> str:
    """Return a text with the numbers of turns without a prompt, of late results that were taken,
    and of acts."""
    attempts = [one for chapter in chapters for one in chapter["attempts"]]
    changes = [one for chapter in chapters for one in chapter["changes"]]
    alone = sum(one["status"] == "committed" and one["key"].startswith(AFTER) for one in attempts)
    taken = sum(one["result"] is not None for one in changes)
    acts = sum(one["run_id"] is None for one in changes)
    return f"{alone} turns without a prompt, {taken} times a late result was taken, {acts} acts"


def play_until_met(
    faults: Sequence[Fault], step: Callable[[Fault], bool]
) -> Iterator[tuple[Fault, bool]]:
    """Yield each try of a fault, and whether the try had an effect.

    A fault without an effect is tried again at once. So each kind of fault has an effect as often
    as it was planned.
    """
    waiting = deque(faults)
    while waiting:
        fault = waiting.popleft()
        was_met = step(fault)
        if not was_met:
            waiting.appendleft(fault.again())
        yield fault, was_met


def print_found(found: Found) -> None:
    print(f"\n{'fault':<14}{'tried':>9}{'met':>6}")
    for kind in sorted(found.injected):
        print(f"{kind:<14}{found.injected[kind]:>9}{found.met[kind]:>6}")
    kills = sum(number for kind, number in found.met.items() if kind.startswith("kill-"))
    total = f"{found.injected.total():>9}{found.met.total():>6}"
    print(f"{'all':<14}{total}  of {found.planned} planned; {kills} kills")
    print(f"{found.played}; {found.seconds:.0f} seconds")
    if not found.is_complete:
        print(f"The run ended before {found.planned} faults were met; --minutes gives it more time")
    print(f"\n{len(found.violations)} violations")
    for violation, step in found.violations.items():
        print(
            f"seed {found.seed}, step {step}: {violation.rule}; "
            f"{violation.chapter}: {violation.detail}"
        )


def main(options: argparse.Namespace) -> int:
    clock = Clock(options.clock_ahead) if options.clock_ahead else None
    with open_stack(with_servers=options.servers, clock=clock) as stack:
        faults = plan_faults(
            options.faults, options.seed, kills=stack.kills, elsewhere=stack.elsewhere
        )
        found = run(stack, faults, seed=options.seed, minutes=options.minutes)
        if found.violations:
            print(stack.processes.end_of_logs(), file=sys.stderr)
    print_found(found)
    return 0 if found.is_complete and not found.violations else 1


if __name__ == "__main__":
    try:
        sys.exit(main(parse_options()))
    except RunError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
