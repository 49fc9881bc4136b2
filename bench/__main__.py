"""Measures Story Engine on this machine (`make bench`). The exit code is 1 if a figure misses its
target."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from bench.embedded import PAUSE_SECONDS, play_embedded
from bench.figure import Figure
from bench.figures import character_prompts, page_figures, session_figures
from bench.long_chapter import measure_long_chapter
from bench.prompt_figures import remembered_figure
from bench.receipt_figures import measure_receipts
from bench.replay import PlayedSession, measure_page, play_session
from bench.report import report
from bench.token_figures import estimate_figure
from testing.http_calls import RunError, Server
from testing.program import (
    Processes,
    open_processes,
    start_model_server,
    start_program,
    start_relay,
)
from testing.session_data import RecordedSession, load_session, synthetic_session, write_session

PAIRS = 84
TAB2_SIZES = (100, 1_000)
TAB2_READS = 30


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--data", type=Path, help="a recorded session instead of a synthetic one")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how many of its pairs to play")
    parser.add_argument(
        "--embedded", action="store_true", help="play a chapter on the embedded model instead"
    )
    parser.add_argument(
        "--pause-seconds",
        type=float,
        default=PAUSE_SECONDS,
        help="with --embedded: from a reply to the next prompt",
    )
    parser.add_argument("--first-token-ms", type=float, default=200.0)
    parser.add_argument("--tokens-per-second", type=float, default=400.0)
    parser.add_argument("--model-server", help="base URL of another model server on loopback")
    parser.add_argument("--calls-log", type=Path, help="the log that --model-server writes")
    options = parser.parse_args(arguments)
    if bool(options.model_server) != bool(options.calls_log):
        parser.error("--model-server and --calls-log belong together")
    return options


def main(options: argparse.Namespace) -> int:
    environment = model_environment(options)
    load_before = os.getloadavg()[0]
    with open_processes(environment) as processes:
        try:
            figures = run(processes, options)
        except (RunError, OSError, HTTPException) as error:
            print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
            return 1
    played = "embedded" if options.embedded else str(options.data or "synthetic")
    return report(figures, session=played, load_before=load_before)


def model_environment(options: argparse.Namespace) -> dict[str, str]:
    if options.embedded:
        wanted = "STORYENGINE_EMBEDDED_MODEL"
        return {wanted: os.environ[wanted]} if wanted in os.environ else {}
    names = {f"STORYENGINE_MODEL_AGENT_{number}": f"agent-{number}" for number in range(10)}
    return {
        "STORYENGINE_LLM": "openai",
        "OPENAI_API_KEY": "unused",
        "STORYENGINE_CONTEXT_WINDOW": "128000",
        "STORYENGINE_MAX_OUTPUT": "16000",
        **names,
    }


def run(processes: Processes, options: argparse.Namespace) -> list[Figure]:
    if options.embedded:
        return play_embedded(start_program(processes), options.pause_seconds)
    session = read_session(options)
    with tempfile.TemporaryDirectory(prefix="storyengine-bench-model-") as folder:
        log = options.calls_log or Path(folder) / "calls.jsonl"
        earlier = len(read_calls(log))
        url = options.model_server or start_own_model(processes, options, session, Path(folder))
        processes.environment["OPENAI_BASE_URL"] = url
        program = start_program(processes)
        relay = start_relay(processes)
        played = play_session(program, Server.at(url), relay, session)
        processes.kill("relay")
        calls = read_calls(log)[earlier:]
    return [
        *session_figures(played, calls),
        *look_into_chapter(processes, played, character_prompts(calls)[-1]),
        *measure_receipts(program, played.chapter["session_id"], session),
        *measure_tab2(processes, program),
        *measure_long_chapter(processes),
    ]


def read_session(options: argparse.Namespace) -> RecordedSession:
    if options.data is None:
        return synthetic_session(options.pairs)
    try:
        return load_session(options.data).first(options.pairs)
    except (KeyError, ValueError, TypeError) as error:
        raise RunError(f"{options.data} is not a recorded session: {error!r}") from error


def start_own_model(
    processes: Processes, options: argparse.Namespace, session: RecordedSession, folder: Path
) -> str:
    write_session(session, folder / "session.jsonl")
    return start_model_server(
        processes,
        [
            f"--first-token-ms={options.first_token_ms}",
            f"--tokens-per-second={options.tokens_per_second}",
            f"--replay={folder / 'session.jsonl'}",
            f"--log={folder / 'calls.jsonl'}",
        ],
    )


def read_calls(log: Path) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def look_into_chapter(
    processes: Processes, played: PlayedSession, last_prompt: str
) -> list[Figure]:
    command = [sys.executable, "-m", "bench.played_chapter", played.chapter["session_id"]]
    found = json.loads(processes.run("played_chapter", command).splitlines()[-1])
    facts = {"canon locks": found["canon"], "open threads": found["open"]}
    estimate = estimate_figure([(int(agent), *tokens) for agent, *tokens in found["estimates"]])
    return [remembered_figure(facts, last_prompt), *([estimate] if estimate else [])]


def measure_tab2(processes: Processes, program: Server) -> list[Figure]:
    command = [sys.executable, "-m", "testing.tab2_chapters", *map(str, TAB2_SIZES)]
    chapters = json.loads(processes.run("tab2", command).splitlines()[-1])
    seconds = {c["events"]: measure_page(program, c["path"], TAB2_READS) for c in chapters}
    return page_figures(seconds, {c["events"]: c["queries"] for c in chapters})


if __name__ == "__main__":
    try:
        sys.exit(main(parse_options()))
    except KeyboardInterrupt:
        sys.exit(130)
