"""Prints figures as a table, and stores them with a description of the machine."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figure import Figure
from testing.program import ROOT

RESULTS = ROOT / "bench" / "results"


def report(figures: Sequence[Figure], *, session: str, load_before: float) -> int:
    """Print and store the figures. Return the exit code, which is 1 if a figure misses its target.

    `session` says what was played. `load_before` is the load of the machine before the run.
    """
    print_table(figures)
    warn_of_other_work(load_before)
    print(f"\nKept in {keep(figures, session).relative_to(ROOT)}")
    return 0 if all(figure.passed is not False for figure in figures) else 1


def print_table(figures: Sequence[Figure]) -> None:
    verdicts = {True: "pass", False: "MISSED", None: ""}
    rows = [("figure", "measured", "target", "")]
    rows += [(f.name, f.value, f.target, verdicts[f.passed]) for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print()
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def warn_of_other_work(load: float) -> None:
    cores = os.cpu_count() or 1
    if load > cores / 2:
        print(f"\nThis machine was busy before the run (load {load:.1f} on {cores} cores): ")
        print("the times above are too high by an unknown amount.")


def keep(figures: Sequence[Figure], session: str) -> Path:
    now = datetime.now(UTC)
    result = {
        "at": now.isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "session": session,
        "figures": [asdict(figure) for figure in figures],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return path


def describe_machine() -> dict[str, Any]:
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
