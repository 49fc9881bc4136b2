"""Measures how well the embedded model moves a world: python -m bench.embedded_worlds

Thirty turns of the three finished scenarios are played with fixed seeds. The figures say how many
tool calls could be run, and after how many turns the world is as the player's words have it. All
texts are written to a file, because only a reader can say whether they are good. --forms compares
forms of tool calls.
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
from bench.http_calls import BenchError
from bench.program import Processes, open_processes, start_named
from bench.report import RESULTS, report

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
    load_before = os.getloadavg()[0]
    results: list[dict[str, Any]] = []
    is_whole = True
    with open_processes({"STORYENGINE_LLM": "embedded"}) as processes:
        try:
            play(processes, options, results)
        except KeyboardInterrupt:
            print("\nCut short.", flush=True)
        except (BenchError, OSError, HTTPException, ValueError, KeyError) as error:
            # What was played until then is kept.
            is_whole = False
            print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
    if not results:
        return 1
    figures = [one for form in options.forms for one in world_figures(form, results)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(readable(results, figures), encoding="utf-8")
    print(f"\nThe texts are in {options.out}")
    status = report(figures, session="embedded worlds", load_before=load_before)
    return status if is_whole else 1


def play(processes: Processes, options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Play the turns, and add each result to `results` as it arrives."""
    processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
    start_named(processes, ["model"])
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
