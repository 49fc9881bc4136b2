"""What all measurements share: they start the program, and print and keep their figures."""

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

from testing.http_calls import RunError
from testing.program import ROOT, Processes, open_processes

RESULTS = ROOT / "bench" / "results"
FAILURES = (RunError, OSError, HTTPException, ValueError, KeyError)
# A program whose agents use the scripted model server. Its address is still to be added.
SCRIPTED = {
    "STORYENGINE_LLM": "openai",
    "OPENAI_API_KEY": "unused",
    "STORYENGINE_CONTEXT_WINDOW": "128000",
    "STORYENGINE_MAX_OUTPUT": "16000",
    **{f"STORYENGINE_MODEL_AGENT_{number}": f"agent-{number}" for number in range(10)},
}


@dataclass(frozen=True)
class Figure:
    """One line of the table that a measurement prints at its end.

    `value` is the text that the table shows, and `measured` is the number in this text. `passed` is
    None if the figure has no target.
    """

    name: str
    measured: float
    value: str
    target: str = ""
    passed: bool | None = None

    @classmethod
    def at_most(
        cls, name: str, measured: float, most: float, form: str = "{:,}", detail: str = ""
    ) -> "Figure":
        """Return a figure that may be at most `most`. `form` is the format of both numbers."""
        target = f"at most {form.format(most)}"
        return cls(name, measured, form.format(measured) + detail, target, measured <= most)

    @classmethod
    def all_of(cls, name: str, right: int, of: int, target: str = "all") -> "Figure":
        return cls(name, right, f"{right:,} of {of:,}", target, right == of)


def measure(
    play: Callable[[Processes], Iterable[Figure]],
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Play with processes of its own, and report the figures. Return the exit code.

    The figures of a run that fails or is cut short are reported too, as far as it came. `what` says
    what was measured.
    """
    figures: list[Figure] = []
    load_before, failed = os.getloadavg()[0], False
    with open_processes(dict(environment or {})) as processes:
        try:
            for figure in play(processes):
                figures.append(figure)
        except KeyboardInterrupt:
            print("\nCut short.", flush=True)
        except FAILURES as error:
            failed = True
            print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
    if not figures:
        return 1
    return report(figures, session=what, load_before=load_before) or int(failed)


def in_django(processes: Processes, function: str, *arguments: object, timeout: float = 300) -> Any:
    """Call a function, which is named with its module, in a process with Django's settings, and
    return its result. All values go through JSON."""
    output = processes.run(function, _command(function, arguments), timeout=timeout)
    return json.loads(output.splitlines()[-1])


def each_in_django(
    processes: Processes, function: str, *arguments: object
) -> Iterator[dict[str, Any]]:
    """Call a generator as `in_django` calls a function, and yield its results as they come."""
    return processes.follow_results(function, _command(function, arguments))


def _command(function: str, arguments: Sequence[object]) -> list[str]:
    named = function.rsplit(".", 1)
    return [sys.executable, "-m", "bench.in_django", *named, json.dumps(arguments)]


def migrate(processes: Processes) -> None:
    processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])


def report(figures: Sequence[Figure], *, session: str, load_before: float) -> int:
    """Print and store the figures. Return the exit code, which is 1 if a figure misses its target.

    `session` says what was played. `load_before` is the load of the machine before the run.
    """
    _print_table(figures)
    cores = os.cpu_count() or 1
    if load_before > cores / 2:
        print(f"\nThis machine was busy before the run (load {load_before:.1f} on {cores} cores): ")
        print("the times above are too high by an unknown amount.")
    now, machine = datetime.now(UTC), [cores, load_before, platform.platform()]
    kept = {"at": now.isoformat(timespec="seconds"), "machine": machine, "session": session}
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    kept["figures"] = [asdict(figure) for figure in figures]
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    print(f"\nKept in {path.relative_to(ROOT)}")
    return 0 if all(figure.passed is not False for figure in figures) else 1


def _print_table(figures: Sequence[Figure]) -> None:
    verdicts = {True: "pass", False: "MISSED", None: ""}
    rows = [("figure", "measured", "target", "")]
    rows += [(f.name, f.value, f.target, verdicts[f.passed]) for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print()
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
