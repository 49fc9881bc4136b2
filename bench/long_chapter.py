"""Measures whether requests stay small in a chapter of 2,000 prompts: python -m
bench.long_chapter"""

import json
import os
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.figure import Figure
from bench.long_prompts import MODELS
from bench.report import report
from testing.http_calls import RunError
from testing.long_memory import CHUNK
from testing.program import Processes, open_processes

MOST_MILLISECONDS = 20
# Each of the 2,000 requests includes a search, which takes long on a busy machine.
MOST_SECONDS = 1_800
# The request of the last prompt is compared with the request of an early prompt, which comes soon
# after prompt COMPARED. In a small window the recent context becomes shorter after every two
# stretches. The two prompts are therefore a multiple of PERIOD apart, so that the context has the
# same length in both requests. The sizes of the requests may differ by LARGEST_CHANGE.
COMPARED = 200
PERIOD = 2 * CHUNK
LARGEST_CHANGE = 0.1


def main() -> int:
    load_before = os.getloadavg()[0]
    with open_processes({}) as processes:
        try:
            processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
            figures = measure_long_chapter(processes)
        except (RunError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    return report(figures, session="long chapter", load_before=load_before)


def measure_long_chapter(processes: Processes) -> list[Figure]:
    """Measure with the database of these processes, whose tables exist already."""
    figures = []
    for tier in MODELS:
        print(f"building a chapter of 2,000 prompts, for a model of the {tier} tier", flush=True)
        command = [sys.executable, "-m", "bench.long_prompts", tier]
        built = json.loads(
            processes.run("long_prompts", command, timeout=MOST_SECONDS).splitlines()[-1]
        )
        again = json.loads(
            processes.run("long_prompts", [*command, built["session_id"]]).splitlines()[-1]
        )
        figures += long_figures([*built["samples"], *again["samples"]], tier)
    return figures


def long_figures(samples: Sequence[dict[str, Any]], tier: str) -> list[Figure]:
    """Return the figures of the samples that bench.long_prompts printed."""
    named = f"Long chapter, {tier} tier"
    return [_budget(samples, named), _sizes(samples, named), *_times(samples, named)]


def _budget(samples: Sequence[dict[str, Any]], named: str) -> Figure:
    over = sum(one["tokens"] > one["budget"] for one in samples)
    fullest = max(one["tokens"] / one["budget"] for one in samples)
    return Figure(
        f"{named}: prompts over the budget of an 8k window",
        over,
        f"{over} of {len(samples)} (the fullest has {fullest:.0%} of it)",
        "none",
        not over,
    )


def _sizes(samples: Sequence[dict[str, Any]], named: str) -> Figure:
    sizes = {one["prompt"]: one["characters"] for one in samples if one["kind"] != "cold"}
    last = max(sizes)
    compared = COMPARED + (last - COMPARED) % PERIOD
    change = sizes[last] / sizes[compared] - 1
    return Figure(
        f"{named}: size of prompt {last:,} over that of prompt {compared}",
        change,
        f"{change:+.1%} ({sizes[last]:,} and {sizes[compared]:,} characters)",
        f"within {LARGEST_CHANGE:.0%}",
        abs(change) <= LARGEST_CHANGE,
    )


def _times(samples: Sequence[dict[str, Any]], named: str) -> list[Figure]:
    kinds = {
        "reply": "after a reply",
        "memory": "after new memory, which is folded first",
        "cold": "in a process that knows nothing of the chapter",
    }
    figures = []
    for kind, words in kinds.items():
        times = [one["milliseconds"] for one in samples if one["kind"] == kind]
        # The time of the first request after a start of the program has no target.
        has_target = kind != "cold"
        figures.append(
            Figure(
                f"{named}: prompt assembled {words}",
                max(times),
                f"median {median(times):.1f} ms, worst {max(times):.1f} ms of {len(times)}",
                f"under {MOST_MILLISECONDS} ms" if has_target else "",
                max(times) < MOST_MILLISECONDS if has_target else None,
            )
        )
    return figures


if __name__ == "__main__":
    sys.exit(main())
