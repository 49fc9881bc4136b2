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
from testing.tab2_chapters import CHUNK

FIRST_TOKEN_MS = 200
REPLY_WORDS = 240
# The least number of prompts of a chapter. Chapters have up to six more.
PROMPTS_BEFORE = 8
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

    def build(self, count: int) -> list[str]:
        """Build so many chapters with different numbers of prompts after their last summary, and
        return their ids. All of them soon need a summary, but not at the same moment."""
        events = [2 * (PROMPTS_BEFORE + number % CHUNK) for number in range(count)]
        built: list[str] = in_django(self.processes, "testing.tab2_chapters.build_chapters", events)
        return built

    def finished_calls(self) -> list[dict[str, Any]]:
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
