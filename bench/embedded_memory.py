"""Measures the memory that the embedded model writes: python -m bench.embedded_memory

The figures say how much of the memory is valid, and how long a lock or a delta takes. The model
writes locks of small worlds, which are cut from the summary of a session. It also writes deltas:
one chapter plays the session, with a delta for every seven prompts, so that the memory in the
requests grows. With --count 40 the run takes about forty minutes. Ctrl-C ends the run and shows the
figures of the results so far. With --keep FOLDER, a run stores its results in this folder, and the
next run continues after them.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from statistics import median
from typing import Any

from bench.figure import Figure
from bench.report import report
from testing.http_calls import RunError
from testing.program import Processes, open_processes, start_named
from testing.session_data import load_session, synthetic_session, write_session

COUNT = 40
# Two files in the folder that --keep names. RESULTS has a line for each job, and PLAYED names the
# session and the model.
RESULTS, PLAYED = "results.jsonl", "played.txt"
CHUNK = 7
# The target for the share of valid locks and for the share of valid deltas: 38 of 40.
LEAST_VALID = 0.95
MOST_SECONDS = 45.0


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded_memory", description=__doc__)
    parser.add_argument("--data", type=Path, help="a recorded session instead of a synthetic one")
    parser.add_argument("--count", type=int, default=COUNT, help="how many locks, and deltas")
    parser.add_argument("--keep", type=Path, help="a folder from which a later run goes on")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    load_before = os.getloadavg()[0]
    chosen = "STORYENGINE_EMBEDDED_MODEL"
    environment = {chosen: os.environ[chosen]} if chosen in os.environ else {}
    played = f"embedded memory, {options.data or 'synthetic'}"
    if options.keep is not None:
        environment["STORYENGINE_DATA"] = str(options.keep.resolve())
    results: list[dict[str, Any]] = []
    with open_processes({"STORYENGINE_LLM": "embedded", **environment}) as processes:
        try:
            if options.keep is not None:
                model = environment.get(chosen, "the default model")
                check_same_run(options.keep, f"{played}, {model}")
                results += earlier_results(options.keep)
            measure(processes, options, results)
        except KeyboardInterrupt:
            print("\nCut short.", flush=True)
        except (RunError, OSError, HTTPException, ValueError, KeyError) as error:
            print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
            return 1
    figures = memory_figures(results)
    return report(figures, session=played, load_before=load_before) if figures else 1


def earlier_results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the earlier runs in this folder, in order."""
    file = folder / RESULTS
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def where_to_go_on(results: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Return the number of the next delta and the number of the next lock.

    Each lock is followed by a delta. If the last result is a lock, the next delta is the one that
    follows this lock.
    """
    locks = sum(one["kind"] == "lock" for one in results)
    is_delta_missing = bool(results) and results[-1]["kind"] == "lock"
    return (locks - 1 if is_delta_missing else locks), locks


def check_same_run(folder: Path, played: str) -> None:
    """Raise RunError if the folder has results of another session or of another model."""
    folder.mkdir(parents=True, exist_ok=True)
    name = folder / PLAYED
    if not name.exists():
        name.write_text(played)
    elif name.read_text() != played:
        raise RunError(f"{folder} keeps a run of {name.read_text()}, not of {played}.")


def measure(
    processes: Processes, options: argparse.Namespace, results: list[dict[str, Any]]
) -> None:
    """Run the jobs, and add each result to `results` as it arrives."""
    session = synthetic_session(options.count * CHUNK)
    if options.data is not None:
        session = load_session(options.data).first(options.count * CHUNK)
    processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
    start_named(processes, ["model"])
    folder = Path(processes.environment["STORYENGINE_DATA"])
    file = folder / "session.jsonl"
    write_session(session, file)
    numbers = map(str, (options.count, *where_to_go_on(results)))
    command = [sys.executable, "-m", "bench.embedded_jobs", str(file), *numbers]
    for result in processes.follow_results("embedded_jobs", command):
        results.append(result)
        with (folder / RESULTS).open("a") as lines:
            lines.write(f"{json.dumps(result)}\n")
        number = sum(one["kind"] == result["kind"] for one in results)
        outcome = "valid" if result["is_valid"] else "NOT VALID"
        repaired = " after a repair" if result["calls"] > 1 else ""
        print(
            f"{result['kind']} {number}: {result['seconds']:.1f} s, {outcome}{repaired}", flush=True
        )


def memory_figures(results: Sequence[dict[str, Any]]) -> list[Figure]:
    return [
        figure
        for kind in ("lock", "delta")
        if (of_kind := [one for one in results if one["kind"] == kind])
        for figure in _figures_of(kind, of_kind)
    ]


def _figures_of(kind: str, results: Sequence[dict[str, Any]]) -> list[Figure]:
    valid = sum(one["is_valid"] for one in results)
    repaired = sum(one["is_valid"] and one["calls"] > 1 for one in results)
    seconds = [one["seconds"] for one in results]
    return [
        Figure(
            f"Embedded model: valid {kind}s after at most one repair",
            valid,
            f"{valid} of {len(results)} ({repaired} of them repaired)",
            "at least 38 of 40",
            valid >= LEAST_VALID * len(results),
        ),
        Figure(
            f"Embedded model: seconds of a {kind}, median",
            median(seconds),
            f"{median(seconds):.1f} s (worst {max(seconds):.1f} s)",
            f"at most {MOST_SECONDS:.0f} s",
            median(seconds) <= MOST_SECONDS,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(parse_options()))
