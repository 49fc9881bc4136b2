"""Measures the replies of the embedded model's characters: python -m bench.embedded_replies

Six scenes with three characters are played, five prompts each, with two fixed seeds. The figures
say how many replies break a rule of agents.prompting.cleaning.reply_rules after the last request,
have spoken words, name a thing of the new prompt, or say five words of an earlier reply again. All
replies are written to a file, because only a reader can say whether they are good. --beside FILE
mixes them with those of an earlier run for a blind reading. --tuning leaves out the scenes that are
kept back for the last run. --sampling tries other settings of llama.cpp.
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from math import ceil, floor, inf
from pathlib import Path
from statistics import median
from typing import Any

from agents.prompting.cleaning.reply_rules import LONG_RUN_WORDS
from bench.embedded_run import Results, measure
from bench.harness import RESULTS, Figure
from testing.program import Processes

PROMPTS, SEEDS = 5, 2
# The targets for sixty replies. For fewer replies they are in proportion.
REPLIES = 60
MOST_BROKEN, MOST_SAID_AGAIN, LEAST_WITH_SPEECH, LEAST_WITH_THING = 3, 5, 40, 45
MOST_SECONDS_TO_FIRST_WORD, MOST_SECONDS_TO_END = 5.0, 15.0


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded_replies", description=__doc__)
    parser.add_argument("--scenes", nargs="+", default=[], help="their files, without .toml")
    parser.add_argument("--prompts", type=int, default=PROMPTS, help="how many of each scene")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how often each is played")
    parser.add_argument("--beside", type=Path, help="replies of an earlier run, see --out")
    parser.add_argument("--tuning", action="store_true", help="without the scenes kept back")
    parser.add_argument("--sampling", type=json.loads, default={}, help="JSON, for llama.cpp")
    parser.add_argument("--out", type=Path, default=RESULTS / "replies.md", help="the replies")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    def written(results: Results, figures: Sequence[Figure]) -> str:
        if options.beside:
            earlier = read_page(options.beside.read_text(encoding="utf-8"))
            page, key = blind_page(results, earlier)
            options.out.with_suffix(".blind.md").write_text(page, encoding="utf-8")
            options.out.with_suffix(".key.json").write_text(json.dumps(key), encoding="utf-8")
        return readable(results, figures)

    return measure(partial(play, options), reply_figures, written, out=options.out, what="replies")


def play(options: argparse.Namespace, processes: Processes, results: Results) -> None:
    """Play the scenes, and add each result to `results` as it arrives."""
    asked = {
        "scenes": options.scenes,
        "prompts": options.prompts,
        "seeds": options.seeds,
        "sampling": options.sampling,
        "is_tuning": options.tuning,
    }
    command = [sys.executable, "-m", "bench.reply_jobs", json.dumps(asked)]
    for result in processes.follow_results("reply_jobs", command):
        results.append(result)
        broken = ", ".join(result["broken"])
        print(f"{result['scene']} {result['number']}: {broken or 'no rule broken'}", flush=True)


def reply_figures(results: Sequence[dict[str, Any]]) -> list[Figure]:
    share = len(results) / REPLIES
    first = _median_seconds(one["first_word_ms"] for one in results)
    whole = _median_seconds(one["whole_ms"] for one in results)
    return [
        _counted(results, "that break a rule", "broken", at_most=floor(MOST_BROKEN * share)),
        _counted(
            results,
            f"with {LONG_RUN_WORDS} words of an earlier one",
            "says_again",
            at_most=floor(MOST_SAID_AGAIN * share),
        ),
        _counted(
            results, "with spoken words", "has_speech", at_least=ceil(LEAST_WITH_SPEECH * share)
        ),
        _counted(
            results, "that name a thing", "names_a_thing", at_least=ceil(LEAST_WITH_THING * share)
        ),
        _counted([{"again": one["calls"] > 1} for one in results], "asked for again", "again"),
        _timed("to the first word", first, MOST_SECONDS_TO_FIRST_WORD),
        _timed("to the whole reply", whole, MOST_SECONDS_TO_END),
    ]


def _median_seconds(times: Iterable[int | None]) -> float:
    """Return the median of the times that replies took, or infinity if there was no reply."""
    known = [one for one in times if one]
    return median(known) / 1_000 if known else inf


def _counted(
    results: Sequence[dict[str, Any]],
    what: str,
    field: str,
    *,
    at_most: int | None = None,
    at_least: int | None = None,
) -> Figure:
    number = sum(bool(one[field]) for one in results)
    target, passed = "", None
    if at_most is not None:
        target, passed = f"at most {at_most}", number <= at_most
    if at_least is not None:
        target, passed = f"at least {at_least}", number >= at_least
    return Figure(f"Replies {what}", number, f"{number} of {len(results)}", target, passed)


def _timed(what: str, seconds: float, most: float) -> Figure:
    name = f"Median time {what}, with a warm prompt"
    return Figure(name, seconds, f"{seconds:.1f} s", f"at most {most:.0f} s", seconds <= most)


def readable(results: Sequence[dict[str, Any]], figures: Sequence[Figure]) -> str:
    """Return a Markdown page with the figures and all replies."""
    lines = [
        "# Replies of the embedded model",
        "",
        "| figure | measured | target |",
        "|---|---|---|",
    ]
    lines += [f"| {one.name} | {one.value} | {one.target} |" for one in figures]
    for scene, played in groupby(results, key=lambda one: one["scene"]):
        lines += ["", f"## {scene}"]
        for one in played:
            lines += ["", f"**{one['number']}. To {one['to']}:** {one['prompt']}", ""]
            lines += [f"> {line}".rstrip() for line in one["reply"].strip().splitlines()]
            lines += ["", f"*{'; '.join(_remarks(one))}*"]
    return "\n".join(lines) + "\n"


def blind_page(
    results: Iterable[dict[str, Any]], earlier: Iterable[dict[str, Any]]
) -> tuple[str, dict[int, str]]:
    """Return a page of all results and of the earlier ones to the same prompts, mixed, and of which
    run each number is."""
    results = list(results)
    asked = {(one["scene"], one["prompt"]) for one in results}
    before = [one for one in earlier if (one["scene"], one["prompt"]) in asked]
    mixed = [("now", one) for one in results] + [("before", one) for one in before]
    random.Random(1).shuffle(mixed)  # noqa: S311  (no secret)
    lines = [
        f"### {at}. {one['scene']}, to {one['to']}\n\n"
        f"**{one['prompt']}**\n\n{one['reply'].strip()}\n"
        for at, (_, one) in enumerate(mixed, 1)
    ]
    return "\n".join(lines), {at: run for at, (run, _) in enumerate(mixed, 1)}


def read_page(page: str) -> list[dict[str, Any]]:
    """Return the results of a page that `readable` wrote, with what a blind page needs."""
    results: list[dict[str, Any]] = []
    scene = ""
    for line in page.splitlines():
        if line.startswith("## "):
            scene = line.removeprefix("## ")
        elif asked := re.match(r"\*\*\d+\. To (.+?):\*\* (.+)", line):
            to, prompt = asked.groups()
            results.append({"scene": scene, "to": to, "prompt": prompt, "reply": ""})
        elif line.startswith(">"):
            results[-1]["reply"] += line.removeprefix(">").strip() + "\n"
    return results


def _remarks(one: dict[str, Any]) -> list[str]:
    return [
        f"breaks: {', '.join(one['broken'])}" if one["broken"] else "breaks no rule",
        "speech" if one["has_speech"] else "no speech",
        "names a thing" if one["names_a_thing"] else "names nothing of the prompt",
        *(["says five words of an earlier reply"] if one["says_again"] else []),
        *(["asked for again"] if one["calls"] > 1 else []),
    ]


if __name__ == "__main__":
    sys.exit(main(parse_options()))
