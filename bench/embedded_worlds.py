"""Measures how well the embedded model tells an exploration: python -m bench.embedded_worlds

Twenty turns of each finished scenario are played with fixed seeds. The figures say after how many
turns the world is as the player's words have it, and what a program can see of the texts. All texts
are written to a file, because only a reader can say whether they are good. --turns-file plays other
turns in the form of bench/world_turns.toml, and --scenario-file those of another scenario.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.embedded_run import Results, measure
from bench.explored_turns import TURNS
from bench.harness import RESULTS, Figure
from sessions.language.sentences import split_sentences
from sessions.language.words import terms_of, words_of
from testing.program import Processes

LEAST_RIGHT, MOST_SECONDS = 0.95, 8.0
_OF_A_TOOL = re.compile(r"[{}<>]|[a-z]+[A-Z]\w*\(|tool_call|\bmoveTo|advanceTime|discoverChar")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded_worlds", description=__doc__)
    parser.add_argument("--turns-file", type=Path, default=TURNS, help="the turns")
    parser.add_argument("--scenario-file", type=Path, help="the scenario of these turns")
    parser.add_argument("--scenarios", type=int, default=None, help="how many of them")
    parser.add_argument("--turns", type=int, default=20, help="how many of each scenario")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "worlds.md", help="the texts")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    return measure(partial(play, options), figures_of, readable, out=options.out, what="worlds")


def play(options: argparse.Namespace, processes: Processes, results: Results) -> None:
    """Play the turns, and add each result to `results` as it arrives."""
    asked = {
        **{name: getattr(options, name) for name in ("scenarios", "turns", "seed")},
        "turns_file": str(options.turns_file.resolve()),
        "scenario_file": str(options.scenario_file.resolve()) if options.scenario_file else "",
    }
    command = [sys.executable, "-m", "bench.explored_turns", json.dumps(asked)]
    for result in processes.follow_results("explored_turns", command):
        results.append(result)
        wrong = "; ".join(result["wrong"]) or "the world is right"
        told = " ".join(result["narration"].split())
        print(f"{result['scenario']} {result['number']}: {wrong}. {told}", flush=True)


def figures_of(results: Results) -> list[Figure]:
    names = dict.fromkeys(one["scenario"] for one in results)
    pressed = sum(one["is_pressed"] for one in results)
    return [
        *(_right(name, [one for one in results if one["scenario"] == name]) for name in names),
        Figure("moves by the button below a turn whose words made none", pressed, str(pressed)),
        _none("turns without a text", [one for one in results if not one["narration"].strip()]),
        _none("texts with a tool", [one for one in results if _OF_A_TOOL.search(one["narration"])]),
        _none("texts with a sentence told before", _repeated(results)),
        _none("texts with a secret at the first question", _given_away(results)),
        _seconds(results),
        Figure("model calls", sum(one["model_calls"] for one in results), _calls(results)),
    ]


def _right(name: str, own: Results) -> Figure:
    right = sum(not one["wrong"] for one in own)
    return Figure(
        f"{name}: turns after which the world is right",
        right,
        f"{right} of {len(own)}",
        "19 of 20",
        right >= LEAST_RIGHT * len(own),
    )


def _none(what: str, found: Results) -> Figure:
    which = ", ".join(f"{one['scenario']} {one['number']}" for one in found)
    return Figure(what, len(found), f"{len(found)} {which}".strip(), "0", not found)


def _seconds(results: Results) -> Figure:
    seconds = median(one["seconds"] for one in results)
    target = f"at most {MOST_SECONDS:.0f} s"
    return Figure("median time of a turn", seconds, f"{seconds:.1f} s", target, seconds <= 8)


def _calls(results: Results) -> str:
    return f"{sum(one['model_calls'] for one in results)} for {len(results)} turns"


def _repeated(results: Results) -> Results:
    told: set[tuple[str, tuple[str, ...]]] = set()
    found = []
    for one in results:
        sentences = (tuple(words_of(each)) for each in split_sentences(one["narration"]))
        own = {(one["scenario"], each) for each in sentences if len(each) > 3}
        found += [one] if own & told else []
        told |= own
    return found


def _given_away(results: Results) -> Results:
    """Return the turns whose text has most terms of a fact that no words before were about."""
    asked: dict[str, list[str]] = {}
    found = []
    for one in results:
        before = asked.setdefault(one["scenario"], [])
        earlier, now = set(terms_of(" ".join(before))), set(terms_of(one["given"]))
        told = set(terms_of(one["narration"]))
        for fact in map(set, map(terms_of, one["kept"])):
            if not fact & earlier and 2 * len(fact & told - now) >= len(fact - now):
                found.append(one)
        before.append(one["words"])
    return found


def readable(results: Sequence[dict[str, Any]], figures: Sequence[Figure]) -> str:
    """Return a Markdown page with the figures and all texts."""
    lines = ["# Worlds of the embedded model", "", "| figure | measured |", "|---|---|"]
    lines += [f"| {one.name} | {one.value} |" for one in figures]
    for one in results:
        wrong = "; ".join(one["wrong"])
        lines += [
            "",
            f"## {one['scenario']}, turn {one['number']}",
            "",
            f"*At {one['place']}. Here: {', '.join(one['here']) or 'nobody'}"
            f"{'. By the button' if one['is_pressed'] else ''}"
            f"{'. WRONG: ' + wrong if wrong else ''}*",
            "",
            f"**{one['words']}**",
            "",
            one["narration"] or f"({one['status']})",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(parse_options()))
