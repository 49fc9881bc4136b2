"""The fold test (`make bench FOLD=1`): asks prompts what they tell, and compares it with the truth.
The exit code is 1 if anything is wrong."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.figure import Figure
from bench.fold_kill import STAGE, TURNS, Kills, play_with_kills
from bench.report import report
from testing.http_calls import RunError
from testing.program import Processes, open_processes

# The chapters, as numbers of turns with their numbers of subjects.
CHAPTERS = {50: 20, 200: 60, 600: 100, 2_000: 100}
SEED = 7
# The stories of several chapters, as numbers of chapters with the turns of each and the subjects.
SAGAS = {4: (48, 40)}
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
    parser.add_argument("--chapters", type=int, nargs="*", default=list(SAGAS))
    parser.add_argument("--no-kills", action="store_true", help="leave out the killed chapter")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    load_before = os.getloadavg()[0]
    figures = []
    try:
        for turns in options.turns:
            with open_processes({}) as processes:
                figures += tell(f"{turns:,} turns", play(processes, turns, options.seed))
        for chapters in options.chapters:
            with open_processes({}) as processes:
                counted = play_saga(processes, chapters, options.seed)
                figures += tell(f"story of {chapters} chapters", counted)
        if not options.no_kills:
            print("playing a chapter whose processes are killed", flush=True)
            tallies, kills = play_with_kills(options.seed)
            counted = [{"stage": STAGE, "window": w, **asdict(one)} for w, one in tallies.items()]
            figures += [*tell(f"{TURNS} turns", counted), kills_figure(kills)]
    except (RunError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return report(figures, session=f"fold test, seed {options.seed}", load_before=load_before)


def tell(chapter: str, counted: Sequence[dict[str, Any]]) -> list[Figure]:
    """Print some of the mistakes, and return the figures."""
    for one in counted:
        for example in one["examples"]:
            print(f"{chapter}, {one['stage']}, {one['window']:,}: {example}")
    return fold_figures(chapter, counted)


def play(processes: Processes, turns: int, seed: int) -> list[dict[str, Any]]:
    print(f"playing a chapter of {turns:,} turns", flush=True)
    processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
    subjects = min(max(CHAPTERS.values()), CHAPTERS.get(turns, turns))
    command = [sys.executable, "-m", "bench.fold_chapter", str(turns), str(subjects), str(seed)]
    lines = processes.run("fold", command, timeout=MOST_SECONDS).splitlines()
    counted: list[dict[str, Any]] = json.loads(lines[-1])
    return counted


def play_saga(processes: Processes, chapters: int, seed: int) -> list[dict[str, Any]]:
    turns, subjects = SAGAS.get(chapters, next(iter(SAGAS.values())))
    print(f"playing a story of {chapters} chapters of {turns} turns", flush=True)
    processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
    command = [sys.executable, "-m", "bench.fold_saga_play", *map(str, (chapters, turns, subjects))]
    lines = processes.run("saga", [*command, str(seed)], timeout=MOST_SECONDS).splitlines()
    counted: list[dict[str, Any]] = json.loads(lines[-1])
    return counted


def fold_figures(chapter: str, counted: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return a figure for each kind of question, for each stage and window of a chapter."""
    figures = []
    for one in counted:
        named = f"{chapter}, {one['stage']}, {one['window'] // 1_000}k"
        for key, what in _NAMES.items():
            right, of = one[key]["right"], one[key]["of"]
            if of:
                share = f"{right / of:.2%} ({right:,} of {of:,})"
                figures.append(Figure(f"{named}: {what}", right / of, share, "100%", right == of))
        leaks = one["leaks"]
        figures.append(
            Figure(
                f"{named}: leaks",
                leaks,
                f"{leaks} in {one['prompts']:,} prompts",
                "none",
                not leaks,
            )
        )
    return figures


def kills_figure(kills: Kills) -> Figure:
    """Return how many kills met work. A kill that came too late to break anything proves nothing,
    but at least one of each kind must have come in time."""
    met = kills.replies + kills.summaries
    return Figure(
        f"{TURNS} turns, {STAGE}: replies and summaries that a kill broke off",
        met,
        f"{kills.replies} and {kills.summaries} of {kills.planned} planned",
        "one of each",
        bool(kills.replies and kills.summaries),
    )


if __name__ == "__main__":
    sys.exit(main(parse_options()))
