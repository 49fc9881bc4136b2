"""The fold test (`make bench FOLD=1`): asks prompts what they tell, and compares it with the truth.
The exit code is 1 if anything is wrong."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from bench.harness import Figure, in_django, measure, migrate
from testing.program import Processes

# The chapters, as numbers of turns with their numbers of subjects.
CHAPTERS = {50: 20, 200: 60, 600: 100, 2_000: 100}
SEED = 7
MOST_SECONDS = 7_200
_NAMES = {
    "now": "values of now",
    "past": "older values marked as past",
    "kept": "older values kept while there is room",
    "world": "the world at each turn",
    "knowledge": "who knows less",
}


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fold", description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=list(CHAPTERS))
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    # Each chapter has a database of its own.
    return max(
        measure(partial(play, turns, options.seed), what=f"fold test, {turns} turns")
        for turns in options.turns
    )


def play(turns: int, seed: int, processes: Processes) -> Iterator[Figure]:
    print(f"playing a chapter of {turns:,} turns", flush=True)
    migrate(processes)
    subjects = min(max(CHAPTERS.values()), CHAPTERS.get(turns, turns))
    asked = (turns, subjects, seed)
    counted = in_django(processes, "bench.fold.play.play_counted", *asked, timeout=MOST_SECONDS)
    for one in counted:
        for example in one["examples"]:
            print(f"{turns:,} turns, {one['stage']}, {one['window']:,}: {example}")
    yield from fold_figures(f"{turns:,} turns", counted)


def fold_figures(chapter: str, counted: Sequence[dict[str, Any]]) -> Iterator[Figure]:
    """Yield a figure for each kind of question, for each stage and window of a chapter."""
    for one in counted:
        named = f"{chapter}, {one['stage']}, {one['window'] // 1_000}k"
        for key, what in _NAMES.items():
            if one[key]["of"]:
                yield Figure.all_of(f"{named}: {what}", one[key]["right"], one[key]["of"])
        prompts = f" in {one['prompts']:,} prompts"
        yield Figure.at_most(f"{named}: leaks", one["leaks"], 0, detail=prompts)


if __name__ == "__main__":
    sys.exit(main(parse_options()))
