"""Measures the memory that the embedded model writes: python -m bench.embedded.memory

The figures say how much of the memory is valid, and how long a lock or a delta takes. The model
writes locks of small worlds, which are cut from the summary of a session. It also writes deltas:
one chapter plays the session, with a delta for every seven prompts, so that the memory in the
requests grows. With --count 40 the run takes about forty minutes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.embedded.run import Result, Results, measure
from bench.harness import RESULTS, Figure, each_in_django
from testing.program import Processes
from testing.session_data import load_session, synthetic_session, write_session

COUNT = 40
CHUNK = 7
# The target for the share of valid locks and for the share of valid deltas: 38 of 40.
LEAST_VALID = 0.95
MOST_SECONDS = 45.0


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded.memory", description=__doc__)
    parser.add_argument("--data", type=Path, help="a recorded session instead of a synthetic one")
    parser.add_argument("--count", type=int, default=COUNT, help="how many locks, and deltas")
    parser.add_argument("--out", type=Path, default=RESULTS / "memory.md", help="the jobs")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    return measure(
        partial(play, options), memory_figures, readable, told=told, out=options.out, what="memory"
    )


def play(options: argparse.Namespace, processes: Processes) -> Iterator[Result]:
    session = synthetic_session(options.count * CHUNK)
    if options.data is not None:
        session = load_session(options.data).first(options.count * CHUNK)
    file = Path(processes.environment["STORYENGINE_DATA"]) / "session.jsonl"
    write_session(session, file)
    function = "bench.embedded.memory_jobs.write_memory"
    return each_in_django(processes, function, str(file), options.count)


def told(result: Result) -> str:
    outcome = "valid" if result["is_valid"] else "NOT VALID"
    repaired = " after a repair" if result["calls"] > 1 else ""
    return f"{result['kind']}: {result['seconds']:.1f} s, {outcome}{repaired}"


def readable(results: Results, _: Sequence[Figure]) -> str:
    return "\n".join(["# Memory of the embedded model", "", *(f"- {told(one)}" for one in results)])


def memory_figures(results: Results) -> list[Figure]:
    figures = []
    for kind in ("lock", "delta"):
        if own := [one for one in results if one["kind"] == kind]:
            valid, least = sum(one["is_valid"] for one in own), LEAST_VALID * len(own)
            name, shown = f"Embedded model: valid {kind}s", f"{valid} of {len(own)}"
            figures.append(Figure(name, valid, shown, "at least 38 of 40", valid >= least))
            seconds = [one["seconds"] for one in own]
            name, worst = f"Embedded model: time of a {kind}", f" (worst {max(seconds):.1f} s)"
            figures.append(Figure.at_most(name, median(seconds), MOST_SECONDS, "{:.1f} s", worst))
    return figures


if __name__ == "__main__":
    sys.exit(main(parse_options()))
