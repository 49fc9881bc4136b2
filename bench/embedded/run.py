"""Runs a measurement of what the embedded model writes, and keeps its texts and figures. A run that
is cut short keeps those so far."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import FAILURES, Figure, each_in_django, migrate
from testing.program import Processes, start_named

Result = dict[str, Any]
Results = list[Result]
_CHOSEN = "STORYENGINE_EMBEDDED_MODEL"


def measure(
    play: Callable[[Processes], Iterable[Result]],
    figures_of: Callable[[Results], Sequence[Figure]],
    readable: Callable[[Results, Sequence[Figure]], str],
    *,
    told: Callable[[Result], str],
    out: Path,
    what: str,
) -> int:
    """Start the model, play, write the page of texts to `out`, and report the figures.

    `told` says in one line what came of a result. `what` names what is measured. Returns the exit
    code.
    """

    def run(processes: Processes) -> Iterator[Figure]:
        results: Results = []
        failure: BaseException | None = None
        try:
            migrate(processes)
            start_named(processes, ["model"])
            for state in each_in_django(processes, "bench.embedded.model.until_ready"):
                print(state["told"], flush=True)
            for result in play(processes):
                results.append(result)
                print(told(result), flush=True)
        except (KeyboardInterrupt, *FAILURES) as error:
            failure = error
        if results:
            figures = figures_of(results)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(readable(results, figures), encoding="utf-8")
            print(f"\nThe {what} are in {out}")
            yield from figures
        if failure is not None:
            raise failure

    chosen = {_CHOSEN: os.environ[_CHOSEN]} if _CHOSEN in os.environ else {}
    environment = {"STORYENGINE_LLM": "embedded", **chosen}
    return harness.measure(run, what=f"embedded {what}", environment=environment)


def page_head(title: str, figures: Sequence[Figure]) -> list[str]:
    """Return the first lines of a page of texts: its title and the table of the figures."""
    rows = [f"| {one.name} | {one.value} | {one.target} |" for one in figures]
    return [f"# {title}", "", "| figure | measured | target |", "|---|---|---|", *rows]
