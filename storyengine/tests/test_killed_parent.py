"""Tests that the processes web, worker and model end by themselves when honcho, which started them,
is killed."""

import json
import os
import re
import signal
import socket
import sys

import pytest

from storyengine.tests.running import ScriptedProgram, is_alive, run_scripted_program
from testing.chapter_client import ChapterClient
from testing.http_calls import call, stream
from testing.program import LOOPBACK, wait_until
from testing.session_data import setup_of, synthetic_session

pytestmark = pytest.mark.processes

START_SECONDS, END_SECONDS = 60, 60
# The process `model` only waits, because these tests use a scripted model server.
PROCESSES = ("web", "worker", "model")


def start_honcho(program: ScriptedProgram) -> dict[str, int]:
    """Stop the running web and worker, run honcho instead, and return the ids of the processes that
    honcho starts."""
    processes = program.processes
    for name in ("web", "worker"):
        os.killpg(processes.by_name[name].pid, signal.SIGTERM)
        processes.by_name[name].wait(timeout=END_SECONDS)
    port = ["--port", str(program.server.port)]
    command = [
        sys.executable,
        "-m",
        "storyengine.stack.processes",
        "--no-colour",
        *port,
        *PROCESSES,
    ]
    processes.environment["PYTHONUNBUFFERED"] = "1"
    processes.start("honcho", command)

    def started() -> dict[str, int]:
        lines = re.findall(r"(\w+)\.1 started \(pid=(\d+)\)", processes.log_of("honcho"))
        return {name: int(pid) for name, pid in lines}

    wait_until(lambda: set(started()) == set(PROCESSES), "honcho", seconds=START_SECONDS)
    wait_until(lambda: is_ready(program), "web and worker", seconds=START_SECONDS)
    return started()


def is_ready(program: ScriptedProgram) -> bool:
    try:
        return call(program.server, "GET", "/readyz", timeout=5).status == 200
    except OSError:
        return False


def test_they_end_and_keep_each_word_that_was_shown() -> None:
    with run_scripted_program() as program:
        started = start_honcho(program)
        try:
            chapter = ChapterClient(program.server)
            chapter.save_setup(setup_of(synthetic_session(10)))
            chapter.lock(seconds=30)
            program.model.queue_faults("slow", agent=1)
            path = f"/api/session/{chapter.session_id}/prompt"
            events = stream(program.server, path, {"agent_slot": 1, "user_text": "The lamp."})
            shown = [next(events)]
            # The signal also kills the processes that read the program's output, so nobody is left
            # to end web, worker and model.
            program.processes.kill("honcho")
            shown += events
            ids = started.values()
            wait_until(lambda: not any(map(is_alive, ids)), "their end", seconds=END_SECONDS)
        finally:
            for pid in filter(is_alive, started.values()):
                os.killpg(pid, signal.SIGKILL)
        with socket.socket() as listener:
            # The option allows the port although connections that were closed still occupy it. The
            # program sets this option too.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOOPBACK, program.server.port))
        program.restart("web")
        wait_until(lambda: is_served(program), "the pages", seconds=START_SECONDS)
        pending = chapter.read()["pending_turn"]
        assert (pending["status"], shown[-1].name) == ("failed", "error")
        words = [json.loads(event.data)["text"] for event in shown[:-1]]
        assert pending["partial_text"] == "".join(words)


def is_served(program: ScriptedProgram) -> bool:
    try:
        return call(program.server, "GET", "/healthz", timeout=5).status == 200
    except OSError:
        return False
