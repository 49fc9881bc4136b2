"""Measures how many calls get through above a cap of calls a minute."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg

from bench.figure import Figure
from bench.load_stack import LoadStack
from testing.http_calls import Server, call
from testing.program import procfile_lines, second_name, start_second, wait_for_server

CAP = 20
PROMPTS = 2 * CAP
CHARACTERS = range(1, 8)


def measure_cap(stack: LoadStack, servers: Sequence[Server], where: str) -> list[Figure]:
    """Start these web processes anew with a cap, send them more prompts at once than the cap lets
    through, and count the calls that reached the model."""
    chapters = [str(chapter) for chapter in stack.build("play", PROMPTS)]
    stack.set_pace(100_000, first_token_ms=1)
    variables = {"STORYENGINE_CALLS_PER_MINUTE": str(CAP)}
    for number, server in enumerate(servers):
        restart(stack, number, server, variables)
    forget_calls(stack)
    began = time.time()
    with ThreadPoolExecutor(PROMPTS) as threads:
        tasks = [
            threads.submit(prompt, servers[number % len(servers)], chapter)
            for number, chapter in enumerate(chapters)
        ]
        statuses = [task.result() for task in tasks]
    # The model server logs a call when its answer has gone.
    time.sleep(1)
    through = sum(one["agent"] in CHARACTERS and one["at"] > began for one in stack.calls())
    return [cap_figure(through, statuses, where)]


def restart(stack: LoadStack, number: int, server: Server, variables: Mapping[str, str]) -> None:
    """End the web process of this number, and start it again with these variables."""
    processes = stack.processes
    name = second_name("web") if number else "web"
    processes.kill(name)
    if number:
        start_second(processes, "web", server.port, variables)
    else:
        processes.start(name, ["/bin/sh", "-c", dict(procfile_lines())["web"]], variables)
    wait_for_server(server)


def forget_calls(stack: LoadStack) -> None:
    """Delete what the program has counted of the last minute."""
    with psycopg.connect(stack.processes.environment["DATABASE_URL"], autocommit=True) as database:
        database.execute("DELETE FROM agents_admittedcall")


def prompt(server: Server, chapter: str) -> int:
    body = {"agent_slot": 1, "user_text": "The door opens."}
    return call(server, "POST", f"/api/session/{chapter}/prompt", body).status


def cap_figure(through: int, statuses: Sequence[int], where: str) -> Figure:
    above = max(0, through - CAP)
    told = f"{through} of {len(statuses)} prompts reached the model"
    return Figure(
        f"Calls above a cap of {CAP} a minute, {where}",
        above,
        f"{above} ({told}, {statuses.count(201)} were answered)",
        "0",
        above == 0,
    )
