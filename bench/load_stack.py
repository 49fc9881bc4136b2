"""Starts the program for bench.load, with a model server whose timing is steady. The program runs
on SQLite and a broker in a folder, or on PostgreSQL and Redis."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from testing.http_calls import Server, call
from testing.program import Processes, open_processes, start_model_server, start_program
from testing.servers import own_servers

FIRST_TOKEN_MS = 200
REPLY_WORDS = 240
# The model server logs only this many characters at the end of a prompt. They include
# bench.load_client.MARK, which tells the prompts apart.
LOGGED_CHARACTERS = 400

ENVIRONMENT = {
    "STORYENGINE_LLM": "openai",
    "OPENAI_API_KEY": "unused",
    "STORYENGINE_CONTEXT_WINDOW": "128000",
    "STORYENGINE_MAX_OUTPUT": "16000",
    "STORYENGINE_CALLS_PER_MINUTE": "1000000",
    "STORYENGINE_CHAPTER_CALLS_PER_MINUTE": "1000000",
    **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
}


class LoadStack:
    """The running program, and its model server `model`. `has_servers` is True if the program runs
    on PostgreSQL and Redis."""

    def __init__(self, processes: Processes, log: Path, *, has_servers: bool) -> None:
        self.processes = processes
        self.has_servers = has_servers
        self._log = log
        base_url = start_model_server(
            processes,
            [
                f"--first-token-ms={FIRST_TOKEN_MS}",
                f"--reply-words={REPLY_WORDS}",
                f"--prompt-end={LOGGED_CHARACTERS}",
                f"--log={log}",
            ],
        )
        self.model = Server.at(base_url)
        processes.environment["OPENAI_BASE_URL"] = base_url
        self.program = start_program(processes)

    def set_pace(self, tokens_per_second: float, first_token_ms: float = FIRST_TOKEN_MS) -> None:
        pace = {"tokens_per_second": tokens_per_second, "first_token_ms": first_token_ms}
        call(Server(self.model.host, self.model.port), "POST", "/control", pace)

    def build(self, what: str, count: int, *, timeout: float = 300.0) -> Any:
        """Build chapters with bench.load_chapters, and return the JSON that it printed."""
        command = [sys.executable, "-m", "bench.load_chapters", what, str(count)]
        return json.loads(self.processes.run(what, command, timeout=timeout).splitlines()[-1])

    def calls(self) -> list[dict[str, Any]]:
        """Return the records of the finished calls of the model server."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def pids(self, *names: str) -> list[int]:
        return [self.processes.by_name[name].pid for name in names]


@contextmanager
def open_load_stack(*, with_servers: bool) -> Iterator[LoadStack]:
    with ExitStack() as stack:
        servers = stack.enter_context(own_servers()) if with_servers else None
        processes = stack.enter_context(open_processes(dict(ENVIRONMENT)))
        if servers is not None:
            processes.environment.update(servers.environment)
            servers.start_postgres(processes)
            servers.start_redis(processes)
        log = Path(processes.environment["STORYENGINE_DATA"]).parent / "calls.jsonl"
        yield LoadStack(processes, log, has_servers=with_servers)
