"""make bench: measure Story Engine on this machine; exits with 1 when a target is missed."""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from bench.embedded import PAUSE_SECONDS, play_embedded
from bench.figures import Figure, page_figures, session_figures
from bench.http_calls import BenchError, Server
from bench.program import ROOT, Processes, open_processes, start_model_server, start_program
from bench.replay import measure_page, play_session
from bench.session_data import RecordedSession, load_session, synthetic_session, write_session

PAIRS = 84
TAB2_SIZES = (100, 1_000)
TAB2_READS = 30
RESULTS = ROOT / "bench" / "results"


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
        except (BenchError, OSError, HTTPException) as error:
            print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
            return 1
    print_table(figures)
    warn_of_other_work(load_before)
    print(f"\nKept in {keep(figures, options).relative_to(ROOT)}")
    return 0 if all(figure.passed is not False for figure in figures) else 1


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
        played = play_session(program, Server.at(url), session)
        figures = session_figures(played, read_calls(log)[earlier:])
    return figures + measure_tab2(processes, program)


def read_session(options: argparse.Namespace) -> RecordedSession:
    if options.data is None:
        return synthetic_session(options.pairs)
    try:
        return load_session(options.data).first(options.pairs)
    except (KeyError, ValueError, TypeError) as error:
        raise BenchError(f"{options.data} is not a recorded session: {error!r}") from error


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


def measure_tab2(processes: Processes, program: Server) -> list[Figure]:
    command = [sys.executable, "-m", "bench.tab2_chapters", *map(str, TAB2_SIZES)]
    chapters = json.loads(processes.run("tab2", command).splitlines()[-1])
    seconds = {c["events"]: measure_page(program, c["path"], TAB2_READS) for c in chapters}
    return page_figures(seconds, {c["events"]: c["queries"] for c in chapters})


def print_table(figures: Sequence[Figure]) -> None:
    verdicts = {True: "pass", False: "MISSED", None: ""}
    rows = [("figure", "measured", "target", "")]
    rows += [(f.name, f.value, f.target, verdicts[f.passed]) for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print()
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def warn_of_other_work(load: float) -> None:
    cores = os.cpu_count() or 1
    if load > cores / 2:
        print(f"\nThis machine was busy before the run (load {load:.1f} on {cores} cores): ")
        print("the latencies above are too high by an unknown amount.")


def keep(figures: Sequence[Figure], options: argparse.Namespace) -> Path:
    now = datetime.now(UTC)
    result = {
        "at": now.isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "session": "embedded" if options.embedded else str(options.data or "synthetic"),
        "figures": [asdict(figure) for figure in figures],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return path


def describe_machine() -> dict[str, Any]:
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    try:
        sys.exit(main(parse_options()))
    except KeyboardInterrupt:
        sys.exit(130)
