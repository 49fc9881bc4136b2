"""Starts the program with a model server whose timing is steady."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.harness import in_django
from testing.http_calls import Server, call
from testing.program import Processes, start_model_server, start_program
from testing.servers import own_servers

FIRST_TOKEN_MS = 200
REPLY_WORDS = 240
# The model server logs only this many characters at the end of a prompt. They include
# bench.load.client.MARK, which tells the prompts apart.
LOGGED_CHARACTERS = 400
NO_CAPS = {
    "STORYENGINE_CALLS_PER_MINUTE": "1000000",
    "STORYENGINE_CHAPTER_CALLS_PER_MINUTE": "1000000",
}


class LoadStack:
    """The running program, and its model server."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self._log = Path(processes.environment["STORYENGINE_DATA"]).parent / "calls.jsonl"
        base_url = start_model_server(
            processes,
            [
                f"--first-token-ms={FIRST_TOKEN_MS}",
                f"--reply-words={REPLY_WORDS}",
                f"--prompt-end={LOGGED_CHARACTERS}",
                f"--log={self._log}",
            ],
        )
        self._model = Server.at(base_url)
        processes.environment["OPENAI_BASE_URL"] = base_url
        self.program = start_program(processes)

    def set_pace(self, tokens_per_second: float) -> None:
        pace = {"tokens_per_second": tokens_per_second}
        call(Server(self._model.host, self._model.port), "POST", "/control", pace)

    def build(self, what: str, count: int) -> Any:
        """Build chapters with a function of bench.load.chapters, and return its result."""
        return in_django(self.processes, f"bench.load.chapters.{what}", count)

    def calls(self) -> list[dict[str, Any]]:
        """Return the records of the finished calls of the model server."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@contextmanager
def open_load_stack(processes: Processes, *, with_servers: bool) -> Iterator[LoadStack]:
    """Start the program on SQLite and a broker in a folder, or on PostgreSQL and Redis."""
    processes.environment.update(NO_CAPS)
    with ExitStack() as stack:
        if with_servers:
            servers = stack.enter_context(own_servers())
            processes.environment.update(servers.environment)
            servers.start_postgres(processes)
            servers.start_redis(processes)
        # The servers must end before their folder goes.
        stack.callback(processes.close)
        yield LoadStack(processes)
