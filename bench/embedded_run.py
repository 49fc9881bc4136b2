"""Runs a measurement of what the embedded model writes, and keeps its texts and figures. A run that
is cut short keeps those so far."""

import os
import sys
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from bench.harness import Figure, report
from testing.http_calls import RunError
from testing.program import Processes, open_processes, start_named

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
    load_before = os.getloadavg()[0]
    environment = {_CHOSEN: os.environ[_CHOSEN]} if _CHOSEN in os.environ else {}
    results: Results = []
    is_whole = True
    with open_processes({"STORYENGINE_LLM": "embedded", **environment}) as processes:
        try:
            processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
            start_named(processes, ["model"])
            play(processes, results)
        except KeyboardInterrupt:
            print("\nCut short.", flush=True)
        except (RunError, OSError, HTTPException, ValueError, KeyError) as error:
            # What was played until then is kept.
            is_whole = False
            print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
    if not results:
        return 1
    figures = figures_of(results)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(readable(results, figures), encoding="utf-8")
    print(f"\nThe {what} are in {out}")
    status = report(figures, session=f"embedded {what}", load_before=load_before)
    return status if is_whole else 1
