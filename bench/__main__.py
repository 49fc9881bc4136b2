"""Plays a session from setup to draft, and says what became of it (`make bench`). The exit code is
1 if a figure misses its target."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import SCRIPTED, Figure, in_django, measure
from bench.session.figures import character_prompts, session_figures
from bench.session.play import play_session
from bench.session.prompts import remembered_figure
from testing.http_calls import RunError, Server
from testing.program import Processes, start_model_server, start_program
from testing.session_data import RecordedSession, load_session, synthetic_session, write_session

PAIRS = 84


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--data", type=Path, help="a recorded session instead of a synthetic one")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how many of its pairs to play")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    what = str(options.data or "synthetic")
    return measure(partial(play, options), what=what, environment=SCRIPTED)


def play(options: argparse.Namespace, processes: Processes) -> Iterator[Figure]:
    session = read_session(options)
    folder = Path(processes.environment["STORYENGINE_DATA"]).parent
    recorded, log = folder / "session.jsonl", folder / "calls.jsonl"
    write_session(session, recorded)
    pace = ["--first-token-ms=200", "--tokens-per-second=400"]
    url = start_model_server(processes, [*pace, f"--replay={recorded}", f"--log={log}"])
    processes.environment["OPENAI_BASE_URL"] = url
    played = play_session(start_program(processes), Server.at(url), session)
    calls = read_calls(log)
    yield from session_figures(played, calls)
    facts = in_django(processes, "bench.session.remembered.facts_of", played.chapter["session_id"])
    yield remembered_figure(facts, character_prompts(calls)[-1])


def read_session(options: argparse.Namespace) -> RecordedSession:
    if options.data is None:
        return synthetic_session(options.pairs)
    try:
        return load_session(options.data).first(options.pairs)
    except (KeyError, ValueError, TypeError) as error:
        raise RunError(f"{options.data} is not a recorded session: {error!r}") from error


def read_calls(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main(parse_options()))
