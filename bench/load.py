"""Measures how much load the program can take on this machine (`make bench LOAD=1`).

The program runs on SQLite and a broker in a folder, or with --servers on a PostgreSQL and a Redis
of its own. The client and the model server run on the same machine as the program. All parts of the
measurement together take about thirteen minutes. With --parts a run has only some of them.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from http.client import HTTPException

from bench.figure import Figure
from bench.load_bytes import LATE, measure_bytes
from bench.load_growth import TURNS, measure_growth
from bench.load_memory import HOUR_PROMPTS, STREAMS, measure_memory
from bench.load_pages import CHAPTERS, EVENTS, measure_pages
from bench.load_relay import measure_against_relay
from bench.load_stack import LoadStack, open_load_stack
from bench.load_streams import TARGETS, measure_streams
from bench.report import report
from testing.http_calls import RunError

Part = Callable[[LoadStack], list[Figure]]

PARTS = ("memory", "relay", "pages", "bytes", "growth", *(f"streams-{pace}" for pace in TARGETS))


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--servers", action="store_true", help="on PostgreSQL and Redis")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="some of them; each starts a program of its own",
    )
    parser.add_argument("--steady", type=float, default=10.0, help="seconds of each try of streams")
    parser.add_argument("--scale", type=float, default=1.0, help="a tenth shows that all parts run")
    return parser.parse_args(arguments)


def parts_of(options: argparse.Namespace) -> dict[str, Part]:
    scale: float = options.scale

    def some(count: int) -> int:
        return max(2, round(count * scale))

    return {
        "memory": lambda stack: measure_memory(
            stack, streams=some(STREAMS), prompts=some(HOUR_PROMPTS)
        ),
        "relay": lambda stack: measure_against_relay(
            stack, steady=8 * options.steady * min(1, scale)
        ),
        "pages": lambda stack: measure_pages(
            stack, events=some(EVENTS), chapters=some(CHAPTERS), seconds=2 * options.scale
        ),
        "bytes": lambda stack: measure_bytes(stack, late=some(LATE)),
        "growth": lambda stack: measure_growth(stack, turns=some(TURNS)),
        **{
            f"streams-{pace}": partial(
                measure_streams, pace=pace, steady=options.steady, scale=options.scale
            )
            for pace in TARGETS
        },
    }


def main(options: argparse.Namespace) -> int:
    load_before = os.getloadavg()[0]
    figures: list[Figure] = []
    failed = False
    for name, part in parts_of(options).items():
        if name not in options.parts:
            continue
        try:
            figures += measure(name, part, with_servers=options.servers)
        except (RunError, OSError, HTTPException) as error:
            print(f"{name} could not be measured: {error}", file=sys.stderr)
            failed = True
    where = "PostgreSQL and Redis" if options.servers else "embedded stack"
    code = report(figures, session=f"load, {where}", load_before=load_before) if figures else 1
    return 1 if failed else code


def measure(name: str, part: Part, *, with_servers: bool) -> list[Figure]:
    """Measure one part. Each part starts a new program, whose caches are empty."""
    with open_load_stack(with_servers=with_servers) as stack:
        print(name, flush=True)
        try:
            figures = part(stack)
        except (RunError, OSError, HTTPException):
            print(stack.processes.end_of_logs(), file=sys.stderr)
            raise
    load = os.getloadavg()[0]
    return [replace(figure, value=f"{figure.value} [load {load:.1f}]") for figure in figures]


if __name__ == "__main__":
    try:
        sys.exit(main(parse_options()))
    except KeyboardInterrupt:
        sys.exit(130)
