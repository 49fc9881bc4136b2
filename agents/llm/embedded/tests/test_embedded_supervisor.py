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

from agents.llm.embedded import llama_library, report, supervisor
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


def test_a_server_that_is_slow_once_is_left_alone(play: Play) -> None:
    play.checks.extend([play.miss, lambda: True] * supervisor.MISSED_CHECKS)
    play.checks.append(play.stop)
    run(play)
    assert len(play.started) == 1


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


def test_while_its_library_is_looked_at_it_stays_alive(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_RENEWAL_SECONDS", -1)

    def look_long(while_waiting: Callable[[], None]) -> None:
        EmbeddedServer.objects.update(alive_at=timezone.now() - 2 * ALIVE_FOR)
        while_waiting()
        play.look()

    monkeypatch.setattr(supervisor, "check_library", look_long)
    play.checks.append(play.stop)
    run(play)
    assert is_coming(play.seen[0])


@pytest.fixture
def endless_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a library whose import never ends."""
    (tmp_path / "xllamacpp.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("endless_library")
def test_stopping_ends_the_look_at_the_library(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_and_check(while_waiting: Callable[[], None]) -> None:
        play.stopping.set()
        check_library(while_waiting)

    monkeypatch.setattr(supervisor, "check_library", stop_and_check)
    run(play)
    assert play.started == []


@pytest.mark.usefixtures("endless_library")
def test_a_library_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_library, "LOAD_SECONDS", 0.01)
    with pytest.raises(ServerFailed, match="does not load"):
        check_library(lambda: None)


def test_another_trouble_with_the_library_is_told_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('it was built for another Python')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ServerFailed, match="built for another Python"):
        check_library(lambda: None)


def test_the_fetching_shows_how_far_it_is(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_PROGRESS_SECONDS", -1)

    def obtain(choice: str, on_progress: OnProgress) -> Weights:
        on_progress(0, 1_117_000_000)
        on_progress(312_000_000, 1_117_000_000)
        assert describe(read_embedded_server()) == (
            "The embedded model is being fetched: 312 of 1,117 MB."
        )
        return WEIGHTS

    monkeypatch.setattr(supervisor, "obtain_weights", obtain)
    play.checks.append(play.stop)
    run(play)


def test_stopping_ends_a_running_fetch(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def obtain(choice: str, on_progress: OnProgress) -> Weights:
        play.stopping.set()
        on_progress(1, 2)
        raise AssertionError("The fetch went on.")

    monkeypatch.setattr(supervisor, "obtain_weights", obtain)
    run(play)
    assert read_embedded_server() is None


def test_a_stand_in_model_says_so(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = Weights(Path("small.gguf"), "small", "The small one answers instead.")
    monkeypatch.setattr(supervisor, "obtain_weights", lambda choice, on_progress: weights)
    play.checks.append(play.stop)
    run(play)
    ready = play.seen[-1]
    assert ready is not None
    assert (ready.model, describe(ready)) == ("small", "The small one answers instead.")


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
