"""Tests that a worker that loses Redis during a task connects again and does not end."""

import logging
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection
from kombu.common import ignore_errors
from redis import ConnectionError as RedisConnectionError
from redis import Redis

import storyengine.operations.celery  # noqa: F401 - it puts the transport in kombu's place
from agents.running.notices import count_notices
from storyengine.stack.redis_broker import Transport
from testing.program import LOOPBACK, Processes, free_port, open_processes, wait_until

LONG = 30.0
QUEUE = "jobs"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def processes(port: int) -> Iterator[Processes]:
    """Yield the processes of this test. One of them is a Redis server, which the test may kill."""
    if shutil.which("redis-server") is None:
        pytest.skip("There is no redis-server here.")
    with open_processes({}) as processes:
        command = ["redis-server", "--bind", LOOPBACK, "--port", str(port), "--save", ""]
        processes.start("redis", command)
        wait_until(lambda: _answers(port), "Redis", seconds=LONG)
        yield processes


def _answers(port: int) -> bool:
    try:
        with Redis(LOOPBACK, port) as server:
            return bool(server.ping())
    except RedisConnectionError:
        return False


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_the_transport_stands_in_for_kombu_s(scheme: str) -> None:
    assert Connection(f"{scheme}://{LOOPBACK}").get_transport_cls() is Transport


@pytest.mark.processes
def test_a_lost_redis_is_an_error_of_the_connection(
    processes: Processes,
    port: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect() -> Connection:
        return Connection(f"redis://{LOOPBACK}:{port}/0")

    monkeypatch.setattr("agents.running.notices.current_app.connection_for_write", connect)
    connection = connect()
    queue = connection.SimpleQueue(QUEUE)
    queue.put({"job": 1})
    message = queue.get(timeout=LONG)
    connection.SimpleQueue("long").put({"job": 2})
    assert count_notices() == {"person": 0, "memory": 0, "long": 1}
    processes.kill("redis")
    assert count_notices() == {}
    # kombu makes the following calls before it connects again. At this time the task is still
    # running.
    connection.collect()
    channel: Any = message.channel
    channel._disconnect_pools()
    # The worker makes the following call when the task has ended and the worker notices that the
    # connection is lost.
    message.ack_log_error(logging.getLogger("jobs"), connection.connection_errors)
    assert "given up" in caplog.text
    ignore_errors(connection, connection.close)
