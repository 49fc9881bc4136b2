"""Measures how well the embedded model tells an exploration: python -m bench.embedded.worlds

Twenty turns of each finished scenario are played with fixed seeds. The figures say after how many
turns the world is as the player's words have it, and what a program can see of the texts. All texts
are written to a file, because only a reader can say whether they are good.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.embedded.run import Result, Results, measure, page_head
from bench.harness import RESULTS, Figure, each_in_django
from sessions.language.sentences import split_sentences
from sessions.language.words import terms_of, words_of
from testing.program import Processes

LEAST_RIGHT, MOST_SECONDS = 0.95, 8.0
_OF_A_TOOL = re.compile(r"[{}<>]|[a-z]+[A-Z]\w*\(|tool_call|\bmoveTo|advanceTime|discoverChar")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded.worlds", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=None, help="how many of them")
    parser.add_argument("--turns", type=int, default=20, help="how many of each scenario")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "worlds.md", help="the texts")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    return measure(
        partial(play, options), figures_of, readable, told=told, out=options.out, what="worlds"
    )


def play(options: argparse.Namespace, processes: Processes) -> Iterator[Result]:
    asked = options.scenarios, options.turns, options.seed
    return each_in_django(processes, "bench.embedded.explored.explore_all", *asked)


def told(result: Result) -> str:
    wrong = "; ".join(result["wrong"]) or "the world is right"
    narration = " ".join(result["narration"].split())
    return f"{result['scenario']} {result['number']}: {wrong}. {narration}"


def figures_of(results: Results) -> list[Figure]:
    names = dict.fromkeys(one["scenario"] for one in results)
    pressed = sum(one["is_pressed"] for one in results)
    seconds = median(one["seconds"] for one in results)
    calls = sum(one["model_calls"] for one in results)
    return [
        *(_right(name, [one for one in results if one["scenario"] == name]) for name in names),
        Figure("moves by the button below a turn whose words made none", pressed, str(pressed)),
        _none("turns without a text", [one for one in results if not one["narration"].strip()]),
        _none("texts with a tool", [one for one in results if _OF_A_TOOL.search(one["narration"])]),
        _none("texts with a sentence told before", _repeated(results)),
        _none("texts with a secret at the first question", _given_away(results)),
        Figure.at_most("median time of a turn", seconds, MOST_SECONDS, "{:.1f} s"),
        Figure("model calls", calls, f"{calls} for {len(results)} turns"),
    ]


def _right(name: str, own: Results) -> Figure:
    right = sum(not one["wrong"] for one in own)
    name, shown = f"{name}: turns after which the world is right", f"{right} of {len(own)}"
    return Figure(name, right, shown, "19 of 20", right >= LEAST_RIGHT * len(own))


def _none(what: str, found: Results) -> Figure:
    which = ", ".join(f"{one['scenario']} {one['number']}" for one in found)
    return Figure(what, len(found), f"{len(found)} {which}".strip(), "0", not found)


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


def readable(results: Results, figures: Sequence[Figure]) -> str:
    """Return a Markdown page with the figures and all texts."""
    lines = page_head("Worlds of the embedded model", figures)
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
