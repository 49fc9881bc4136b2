"""Measures the bytes that a turn adds to PostgreSQL's log, and the statements of a prompt."""

import re
import time
from collections.abc import Sequence
from statistics import median

import psycopg

from bench.figure import Figure
from bench.load_bytes import CHUNK, EARLY, PostgresMeter, play_turn, wait_until_quiet
from bench.load_stack import LoadStack
from testing.http_calls import Server

# What PostgreSQL logs for each statement. The beginnings and ends of transactions are no work.
_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): *(?!BEGIN|COMMIT|ROLLBACK)(\w+)")
_WRITES = ("INSERT", "UPDATE", "DELETE")
# A process may store something of the turn shortly after its answer.
SETTLING_SECONDS = 0.3


def measure_turns(stack: LoadStack, servers: Sequence[Server], where: str) -> list[Figure]:
    """Play the turns of one stretch, whose prompts go to these servers in turn."""
    stack.set_pace(100_000, first_token_ms=1)
    chapter = stack.build("turns", EARLY - 1)
    # The first turn of a process is not measured, because it may write more than the later turns.
    for turn, server in enumerate(servers):
        play_turn(stack, chapter, turn, server=server)
        wait_until_quiet(stack, chapter)
    meter, log = PostgresMeter(stack), StatementLog(stack)
    bytes_written, statements = 0, []
    for turn in range(CHUNK):
        server = servers[turn % len(servers)]
        meter.start()
        log.start()
        play_turn(stack, chapter, turn, server=server)
        time.sleep(SETTLING_SECONDS)
        statements.append(log.stop())
        wait_until_quiet(stack, chapter)
        bytes_written += sum(meter.stop())
    return [turn_figure(bytes_written / CHUNK, statements, where)]


def turn_figure(per_turn: float, statements: Sequence[tuple[int, int]], where: str) -> Figure:
    of_all, writes = (median(column) for column in zip(*statements, strict=True))
    return Figure(
        f"Bytes and statements of a turn, {where}",
        per_turn,
        f"{per_turn / 1e3:.0f} KB with its part of memory; {of_all:.0f} statements of the prompt, "
        f"{writes:.0f} of them writes",
    )


class StatementLog:
    """The statements that PostgreSQL logs between `start` and `stop`."""

    def __init__(self, stack: LoadStack) -> None:
        self._processes = stack.processes
        self._database = psycopg.connect(
            stack.processes.environment["DATABASE_URL"], autocommit=True
        )
        self._database.execute("SET log_statement = 'none'")
        self._read = 0

    def start(self) -> None:
        self._set("all")
        self._read = len(self._processes.log_of("postgres"))

    def stop(self) -> tuple[int, int]:
        """Return the number of statements, and of those that write."""
        told = self._processes.log_of("postgres")[self._read :]
        self._set("none")
        return count_statements(told)

    def _set(self, what: str) -> None:
        self._database.execute(f"ALTER SYSTEM SET log_statement = '{what}'")
        self._database.execute("SELECT pg_reload_conf()")
        # A backend reads its configuration before its next statement.
        time.sleep(SETTLING_SECONDS)


def count_statements(log: str) -> tuple[int, int]:
    """Return the number of statements in a log of PostgreSQL, and of those that write."""
    found = [word.upper() for word in _STATEMENT.findall(log)]
    return len(found), sum(word in _WRITES for word in found)
