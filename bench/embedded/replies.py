"""Measures the replies of the embedded model's characters: python -m bench.embedded.replies

Six scenes with three characters are played, five prompts each, with two fixed seeds. The figures
say how many replies break a rule of agents.prompting.cleaning.reply_rules after the last request,
have spoken words, name a thing of the new prompt, or say five words of an earlier reply again. All
replies are written to a file, because only a reader can say whether they are good. --tuning leaves
out the scenes that are kept back for the last run.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import ceil, floor, inf
from pathlib import Path
from statistics import median

from agents.prompting.cleaning.reply_rules import LONG_RUN_WORDS
from bench.embedded.run import Result, Results, measure, page_head
from bench.harness import RESULTS, Figure, each_in_django
from testing.program import Processes

PROMPTS, SEEDS = 5, 2
# The targets for sixty replies. For fewer replies they are in proportion.
REPLIES = 60
MOST_BROKEN, MOST_SAID_AGAIN, LEAST_WITH_SPEECH, LEAST_WITH_THING = 3, 5, 40, 45
MOST_SECONDS_TO_FIRST_WORD, MOST_SECONDS_TO_END = 5.0, 15.0


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded.replies", description=__doc__)
    parser.add_argument("--scenes", nargs="+", default=[], help="their files, without .toml")
    parser.add_argument("--prompts", type=int, default=PROMPTS, help="how many of each scene")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how often each is played")
    parser.add_argument("--tuning", action="store_true", help="without the scenes kept back")
    parser.add_argument("--out", type=Path, default=RESULTS / "replies.md", help="the replies")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    return measure(
        partial(play, options), reply_figures, readable, told=told, out=options.out, what="replies"
    )


def play(options: argparse.Namespace, processes: Processes) -> Iterator[Result]:
    asked = options.scenes, options.prompts, options.seeds, options.tuning
    return each_in_django(processes, "bench.embedded.scenes.play_scenes", *asked)


def told(result: Result) -> str:
    broken = ", ".join(result["broken"])
    return f"{result['scene']} {result['number']}: {broken or 'no rule broken'}"


def reply_figures(results: Results) -> list[Figure]:
    share = len(results) / REPLIES
    long_run = f"with {LONG_RUN_WORDS} words of an earlier one"
    first = _median_seconds(one["first_word_ms"] for one in results)
    whole = _median_seconds(one["whole_ms"] for one in results)
    again = sum(one["calls"] > 1 for one in results)
    return [
        _at_most(results, "that break a rule", "broken", floor(MOST_BROKEN * share)),
        _at_most(results, long_run, "says_again", floor(MOST_SAID_AGAIN * share)),
        _at_least(results, "with spoken words", "has_speech", ceil(LEAST_WITH_SPEECH * share)),
        _at_least(results, "that name a thing", "names_a_thing", ceil(LEAST_WITH_THING * share)),
        Figure("Replies asked for again", again, f"{again} of {len(results)}"),
        _timed("to the first word", first, MOST_SECONDS_TO_FIRST_WORD),
        _timed("to the whole reply", whole, MOST_SECONDS_TO_END),
    ]


def _median_seconds(times: Iterable[int | None]) -> float:
    """Return the median of the times that replies took, or infinity if there was no reply."""
    known = [one for one in times if one]
    return median(known) / 1_000 if known else inf


def _at_most(results: Results, what: str, field: str, most: int) -> Figure:
    number = sum(bool(one[field]) for one in results)
    return Figure.at_most(f"Replies {what}", number, most, detail=f" of {len(results)}")


def _at_least(results: Results, what: str, field: str, least: int) -> Figure:
    number = sum(bool(one[field]) for one in results)
    shown = f"{number} of {len(results)}"
    return Figure(f"Replies {what}", number, shown, f"at least {least}", number >= least)


def _timed(what: str, seconds: float, most: float) -> Figure:
    name = f"Median time {what}, with a warm prompt"
    return Figure(name, seconds, f"{seconds:.1f} s", f"at most {most:.0f} s", seconds <= most)


def readable(results: Results, figures: Sequence[Figure]) -> str:
    """Return a Markdown page with the figures and all replies."""
    lines = page_head("Replies of the embedded model", figures)
    for scene, played in groupby(results, key=lambda one: one["scene"]):
        lines += ["", f"## {scene}"]
        for one in played:
            lines += ["", f"**{one['number']}. To {one['to']}:** {one['prompt']}", ""]
            lines += [f"> {line}".rstrip() for line in one["reply"].strip().splitlines()]
            remarks = [
                f"breaks: {', '.join(one['broken']) or 'nothing'}",
                "speech" if one["has_speech"] else "no speech",
                "names a thing" if one["names_a_thing"] else "names nothing of the prompt",
                *(["says five words of an earlier reply"] if one["says_again"] else []),
                *(["asked for again"] if one["calls"] > 1 else []),
            ]
            lines += ["", f"*{'; '.join(remarks)}*"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(parse_options()))
