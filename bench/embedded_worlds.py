"""Measures how well the embedded model moves a world: python -m bench.embedded_worlds

Thirty turns of the three finished scenarios are played with fixed seeds. The figures say how many
tool calls could be run, and after how many turns the world is as the player's words have it. All
texts are written to a file, because only a reader can say whether they are good. --forms compares
forms of tool calls.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.embedded_run import Results, measure
from bench.harness import RESULTS, Figure
from testing.program import Processes

TURNS = 10
FORMS = ("json", "xml")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded_worlds", description=__doc__)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["json"])
    parser.add_argument("--scenarios", type=int, default=3, help="how many of them")
    parser.add_argument("--turns", type=int, default=TURNS, help="how many of each scenario")
    parser.add_argument("--out", type=Path, default=RESULTS / "worlds.md", help="the texts")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    return measure(
        partial(play, options),
        partial(world_figures_of, options.forms),
        readable,
        out=options.out,
        what="worlds",
    )


def play(options: argparse.Namespace, processes: Processes, results: Results) -> None:
    """Play the turns, and add each result to `results` as it arrives."""
    command = [sys.executable, "-m", "bench.explored_jobs"]
    asked = {
        "forms": options.forms,
        "turns": options.turns,
        "scenarios": options.scenarios,
    }
    for result in processes.follow_results("explored_jobs", [*command, json.dumps(asked)]):
        results.append(result)
        wrong = "; ".join(result["wrong"]) or "the world is right"
        print(f"{result['form']} {result['scenario']} {result['number']}: {wrong}", flush=True)


def world_figures_of(forms: Sequence[str], results: Results) -> list[Figure]:
    return [one for form in forms for one in world_figures(form, results)]


def world_figures(form: str, results: Sequence[dict[str, Any]]) -> list[Figure]:
    own = [one for one in results if one["form"] == form]
    calls, valid = sum(len(one["calls"]) for one in own), sum(one["valid"] for one in own)
    right = sum(not one["wrong"] for one in own)
    told = sum(bool(one["narration"].strip()) for one in own)
    seconds = median(one["ms"] for one in own) / 1_000 if own else 0.0
    model_calls = sum(one["model_calls"] for one in own)
    return [
        Figure(f"{form}: tool calls that could be run", valid, f"{valid} of {calls}"),
        Figure(f"{form}: turns after which the world is right", right, f"{right} of {len(own)}"),
        Figure(f"{form}: turns with narration", told, f"{told} of {len(own)}"),
        Figure(f"{form}: model calls", model_calls, f"{model_calls} for {len(own)} turns"),
        Figure(f"{form}: median time of a turn", seconds, f"{seconds:.1f} s"),
    ]


def readable(results: Sequence[dict[str, Any]], figures: Sequence[Figure]) -> str:
    """Return a Markdown page with the figures and all texts."""
    lines = ["# Worlds of the embedded model", "", "| figure | measured |", "|---|---|"]
    lines += [f"| {one.name} | {one.value} |" for one in figures]
    for one in results:
        lines += [
            "",
            f"## {one['form']}, {one['scenario']}, turn {one['number']}",
            "",
            f"**{one['words']}**",
            "",
            *(f"- `{call}`" for call in one["calls"]),
            f"- {'; '.join(one['wrong']) or 'the world is right'} ({one['status']})",
            "",
            one["narration"],
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(parse_options()))
