"""How much of the program one prompt runs through (`make bench PROMPT=1`): files, functions and SQL
statements from the request to the commit of the reply. The exit code is 1 if a figure misses its
target."""

import argparse
import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from django.core.signals import request_started
from django.db.backends.signals import connection_created
from django.test import AsyncClient
from django.test.utils import setup_test_environment

from agents.llm.providers.scripted import ScriptedProvider
from bench.harness import Figure, in_django, measure, migrate
from testing.program import ROOT, Processes

MOST_FILES, MOST_FUNCTIONS, MOST_STATEMENTS = 60, 300, 40
# The starter has three turns, and its chapter is summed up from the seventh. So the third prompt
# meets a warm process and no summary.
PROMPTS = 3
# All characters have one model, so that the third prompt meets a model that was called before.
_ENVIRONMENT = {"STORYENGINE_LLM": "openai", "OPENAI_API_KEY": "unused"}
_NOT_THE_PROGRAM = {"bench", "testing", "tests", ".venv"}


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.one_prompt", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print what was counted, too")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    return measure(partial(play, options), what="one prompt", environment=_ENVIRONMENT)


def play(options: argparse.Namespace, processes: Processes) -> Iterator[Figure]:
    migrate(processes)
    functions, statements = in_django(processes, "bench.one_prompt.counted")
    if options.list:
        print(*functions, *statements, sep="\n")
    files = {function.partition(":")[0] for function in functions}
    yield Figure.at_most("Files of the program", len(files), MOST_FILES)
    yield Figure.at_most("Functions of the program", len(functions), MOST_FUNCTIONS)
    yield Figure.at_most("SQL statements", len(statements), MOST_STATEMENTS)


class Count:
    """The functions of the program that ran, and the SQL statements, since the latest request
    began. Comprehensions and functions without a name are not counted."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self._ran: set[CodeType] = set()

    @property
    def functions(self) -> list[str]:
        """The functions with their files and lines."""
        return sorted(
            f"{own}:{code.co_firstlineno} {code.co_qualname}"
            for code in self._ran
            if not code.co_name.startswith("<") and (own := _path_in_program(code))
        )

    def begin(self, **_: object) -> None:
        self._ran.clear()
        self.statements.clear()

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        self._ran.add(frame.f_code)

    def wrap(self, connection: Any, **_: object) -> None:
        connection.execute_wrappers.append(self.statement)

    def statement(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        self.statements.append(sql)
        return execute(sql, *rest)


def _path_in_program(code: CodeType) -> Path | None:
    path = Path(code.co_filename)
    own = path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
    return None if own is None or set(own.parts) & _NOT_THE_PROGRAM else own


def counted() -> tuple[list[str], list[str]]:
    """Return the functions and the statements of the last of some prompts to a starter's chapter,
    in a process with Django's settings."""
    from agents.calling.model_access import substitute_provider

    setup_test_environment()
    count = Count()
    connection_created.connect(count.wrap)
    request_started.connect(count.begin)
    threading.setprofile(count.profile)
    sys.setprofile(count.profile)
    with substitute_provider(ScriptedProvider(fallback=lambda _: "The lamp stays dark.")):
        asyncio.run(_send_prompts())
    sys.setprofile(None)
    return count.functions, count.statements


async def _send_prompts() -> None:
    client = AsyncClient(headers={"accept": "application/json"})
    post = partial(client.post, content_type="application/json")
    starter = (await client.get("/api/starters")).json()[0]["name"]
    made = await post("/api/session", {"starter": starter})
    path = f"/api/session/{made.json()['session_id']}"
    for number in range(PROMPTS):
        slot = (await client.get(path)).json()["next_agent_slot"]
        words = {"agent_slot": slot, "user_text": f"Door {number} opens."}
        answer = await post(f"{path}/prompt", words)
        assert answer.status_code == 201, answer.content


if __name__ == "__main__":
    sys.exit(main(parse_options()))
