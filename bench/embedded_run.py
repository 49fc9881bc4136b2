"""Runs a measurement of what the embedded model writes, and keeps its texts and figures. A run that
is cut short keeps those so far."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import FAILURES, Figure, migrate
from testing.program import Processes, start_named

Results = list[dict[str, Any]]
_CHOSEN = "STORYENGINE_EMBEDDED_MODEL"


def measure(
    play: Callable[[Processes, Results], None],
    figures_of: Callable[[Results], Sequence[Figure]],
    readable: Callable[[Results, Sequence[Figure]], str],
    *,
    out: Path,
    what: str,
) -> int:
    """Start the model, play, write the page of texts to `out`, and report the figures.

    `play` adds each result as it arrives. `what` names what is measured, such as "replies". Returns
    the exit code.
    """

    def run(processes: Processes) -> Iterator[Figure]:
        results: Results = []
        failure: BaseException | None = None
        try:
            migrate(processes)
            start_named(processes, ["model"])
            play(processes, results)
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
