"""Tests of the supervisor: what it starts and restarts, and what it tells the pages.

A stand-in replaces llama.cpp in these tests.
"""

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import DatabaseError
from django.utils import timezone
from pytest_django import Settings

from agents.llm.embedded import report, supervisor
from agents.llm.embedded.embedded_errors import ServerFailed, WeightsUnavailable
from agents.llm.embedded.llama_library import check_library
from agents.llm.embedded.status import (
    ALIVE_FOR,
    describe,
    is_coming,
    is_ready,
    read_embedded_server,
)
from agents.llm.embedded.supervisor import Supervisor
from agents.llm.embedded.weights import OnProgress, Weights
from agents.models import EmbeddedServer

Phase = EmbeddedServer.Phase
WEIGHTS = Weights(Path("model.gguf"), "model")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _embedded(settings: Settings) -> None:
    settings.LLM = "embedded"


class Play:
    """A script of the server's behaviour at each check, and a record of what the supervisor did."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        # Each check of the server calls the next of these functions. The function returns whether
        # the server answers.
        self.checks: deque[Callable[[], bool]] = deque()
        self.seen: list[EmbeddedServer | None] = []
        self.started: list[str] = []
        self.ended = 0

    def look(self) -> None:
        self.seen.append(read_embedded_server())

    def stop(self) -> bool:
        self.look()
        self.stopping.set()
        return True

    def crash(self) -> bool:
        self.look()
        raise ServerFailed("It crashed.")

    def miss(self) -> bool:
        return False


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    play = Play()

    class StandIn:
        base_url = "http://127.0.0.1:1/v1"

        def __init__(self, model_file: Path, model_name: str) -> None:
            play.started.append(model_name)

        def wait_until_up(self, seconds: float) -> bool:
            play.look()
            return True

        def check(self) -> bool:
            return play.checks.popleft()()

        def context_window(self) -> int:
            return 4096

        def end(self) -> None:
            play.ended += 1

    # The supervisor must not close this connection, because the test's transaction needs it.
    monkeypatch.setattr(report, "close_old_connections", lambda: None)
    monkeypatch.setattr(supervisor, "check_library", lambda while_waiting: None)
    monkeypatch.setattr(supervisor, "LlamaServer", StandIn)
    monkeypatch.setattr(supervisor, "obtain_weights", lambda choice, on_progress: WEIGHTS)
    monkeypatch.setattr(supervisor, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE_SECONDS", 0.001)
    return play


def run(play: Play) -> None:
    Supervisor("model", play.stopping).run()


def test_it_loads_serves_and_withdraws(play: Play) -> None:
    play.checks.append(play.stop)
    run(play)
    loading, ready = play.seen
    assert loading is not None
    assert ready is not None
    assert (loading.phase, ready.phase) == (Phase.LOADING, Phase.READY)
    assert is_coming(loading)
    assert not is_ready(loading)
    assert is_ready(ready)
    assert (ready.model, ready.base_url) == ("model", "http://127.0.0.1:1/v1")
    assert ready.context_window == 4096
    assert play.ended == 1
    assert read_embedded_server() is None


def test_a_crash_is_told_and_the_server_started_again(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.checks.extend([play.crash, play.stop])
    shown: list[tuple[str, str]] = []
    show = report.Report.show

    def note(self: report.Report, phase: EmbeddedServer.Phase, **fields: str) -> None:
        shown.append((phase, fields.get("message", "")))
        show(self, phase, **fields)

    monkeypatch.setattr(report.Report, "show", note)
    run(play)
    phases = [phase for phase, _message in shown]
    assert phases == [
        Phase.LOADING,
        Phase.LOADING,
        Phase.READY,
        Phase.FAILED,
        Phase.LOADING,
        Phase.READY,
    ]
    assert shown[3][1] == "It crashed."
    assert (len(play.started), play.ended) == (2, 2)


def test_a_server_that_hangs_is_started_again(play: Play) -> None:
    play.checks.extend([play.miss] * supervisor.MISSED_CHECKS)
    play.checks.append(play.stop)
    run(play)
    assert (len(play.started), play.ended) == (2, 2)


def test_weights_that_cannot_be_had_are_asked_for_again(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def obtain(choice: str, on_progress: OnProgress) -> Weights:
        asked.append(choice)
        if len(asked) == 1:
            raise WeightsUnavailable("No network.")
        server = read_embedded_server()
        assert server is not None
        assert describe(server) == "No network."
        assert not is_coming(server)
        return WEIGHTS

    monkeypatch.setattr(supervisor, "obtain_weights", obtain)
    play.checks.append(play.stop)
    run(play)
    assert asked == ["model", "model"]


def test_a_missing_system_library_is_named_before_anything_is_fetched(
    play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "xllamacpp.py").write_text(
        "raise ImportError('libgomp.so.1: cannot open shared object file: No such file')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told: list[str] = []

    def obtain(choice: str, on_progress: OnProgress) -> Weights:
        told.append(describe(read_embedded_server()))
        return WEIGHTS

    def check_and_mend(while_waiting: Callable[[], None]) -> None:
        """Run the real check of the library, which fails, and let every later check succeed.

        The effect is as if somebody had installed the library after the first check.
        """
        try:
            check_library(while_waiting)
        finally:
            monkeypatch.delenv("PYTHONPATH")
            monkeypatch.setattr(supervisor, "check_library", lambda while_waiting: None)

    monkeypatch.setattr(supervisor, "check_library", check_and_mend)
    monkeypatch.setattr(supervisor, "obtain_weights", obtain)
    play.checks.append(play.stop)
    run(play)
    (message,) = told
    assert "libgomp.so.1" in message
    assert "apt install libgomp1" in message
    assert message in caplog.text
    assert "Traceback" not in caplog.text


def test_whoever_comes_first_waits_for_it(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed has left a row with the phase READY and an old address. The new
    process overwrites this row at its start, so that calls wait for the new server."""
    EmbeddedServer.objects.create(phase=Phase.READY, model="old", base_url="http://gone")
    monkeypatch.setattr(supervisor, "check_library", lambda while_waiting: play.look())
    play.checks.append(play.stop)
    run(play)
    first = play.seen[0]
    assert first is not None
    assert is_coming(first)
    assert not is_ready(first)
    assert (first.model, first.base_url) == ("model", "")


def test_a_database_that_is_away_ends_nothing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise DatabaseError("away")

    play.checks.append(play.stop)
    monkeypatch.setattr(EmbeddedServer.objects, "bulk_create", fail)
    run(play)
    assert len(play.started) == 1


class TestStatus:
    def test_a_row_nobody_renews_is_not_running(self) -> None:
        old = timezone.now() - ALIVE_FOR - timedelta(seconds=1)
        EmbeddedServer.objects.create(phase=Phase.READY, model="model", alive_at=old)
        server = read_embedded_server()
        assert not is_ready(server)
        assert not is_coming(server)
        assert "make run" in describe(server)

    @pytest.mark.parametrize("wrong_by", [-timedelta(hours=1), timedelta(hours=1)])
    def test_the_clocks_of_the_processes_do_not_decide(
        self, play: Play, monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta
    ) -> None:
        right: Callable[[], datetime] = timezone.now
        ready: list[bool] = []

        def look_from_both() -> bool:
            ready.append(is_ready(read_embedded_server()))
            with monkeypatch.context() as here:
                here.setattr(timezone, "now", right)
                ready.append(is_ready(read_embedded_server()))
            return play.stop()

        play.checks += [lambda: True, look_from_both]
        with monkeypatch.context() as there:
            there.setattr(timezone, "now", lambda: right() + wrong_by)
            run(play)
        assert ready == [True, True]
