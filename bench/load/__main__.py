"""Measures how many replies the program streams at once on this machine (`make bench LOAD=1`).

The program runs on SQLite and a broker in a folder, or with --servers on a PostgreSQL and a Redis
of its own. The client and the model server run on the same machine as the program.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from bench.harness import SCRIPTED, Figure, measure
from bench.load.stack import open_load_stack
from bench.load.streams import TARGETS, measure_streams
from testing.program import Processes

PARTS = {f"streams-{pace}": pace for pace in TARGETS}


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--servers", action="store_true", help="on PostgreSQL and Redis")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="a tenth shows that all parts run")
    return parser.parse_args(arguments)


def play(options: argparse.Namespace, pace: int, processes: Processes) -> Iterator[Figure]:
    with open_load_stack(processes, with_servers=options.servers) as stack:
        figure = measure_streams(stack, pace, scale=options.scale)
        yield replace(figure, value=f"{figure.value} [load {os.getloadavg()[0]:.1f}]")


def main(options: argparse.Namespace) -> int:
    where = "PostgreSQL and Redis" if options.servers else "embedded stack"
    # Each part starts a new program, whose caches are empty.
    return max(
        measure(partial(play, options, PARTS[part]), what=f"{part}, {where}", environment=SCRIPTED)
        for part in options.parts
    )


if __name__ == "__main__":
    sys.exit(main(parse_options()))
