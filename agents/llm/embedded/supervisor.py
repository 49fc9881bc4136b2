"""Keeps the embedded model available: fetches its weights, runs llama.cpp, and restarts llama.cpp
when it has ended."""

import logging
import threading
import time

from agents.llm.embedded.embedded_errors import ServerFailed, WeightsUnavailable
from agents.llm.embedded.llama_library import check_library
from agents.llm.embedded.report import Report
from agents.llm.embedded.server import LlamaServer
from agents.llm.embedded.weights import Weights, obtain_weights
from agents.models import EmbeddedServer

logger = logging.getLogger(__name__)

# A server that has not loaded its model after this time counts as hanging.
LOAD_SECONDS = 600.0
CHECK_SECONDS = 3.0
# A server counts as hanging if this many checks in a row were not answered.
MISSED_CHECKS = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# If a server ran for this long before it ended, the pause before the next start is short again.
SOUND_SECONDS = 120.0


class _Stopped(Exception):
    """The program is being stopped."""


class Supervisor:
    """The supervisor of one embedded model. It fetches the weights, and keeps the model running
    until the program ends."""

    def __init__(self, choice: str, stopping: threading.Event) -> None:
        self._choice = choice
        self._stopping = stopping
        self._report = Report(choice)

    def run(self) -> None:
        """Keep the model running until the event `stopping` is set."""
        pause = FIRST_PAUSE_SECONDS
        self._report.show_start()
        try:
            while True:
                began = time.monotonic()
                try:
                    check_library(self._stay_alive)
                    self._serve(obtain_weights(self._choice, self._show_progress))
                except (WeightsUnavailable, ServerFailed) as failure:
                    logger.warning("%s", failure)
                    self._report.show(EmbeddedServer.Phase.FAILED, message=str(failure))
                if time.monotonic() - began > SOUND_SECONDS:
                    pause = FIRST_PAUSE_SECONDS
                self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        except _Stopped:
            return
        finally:
            self._report.withdraw()

    def _show_progress(self, done: int, total: int) -> None:
        self._check_stopping()
        self._report.show_progress(done, total)

    def _serve(self, weights: Weights) -> None:
        """Run the server until it fails (ServerFailed) or the program is stopped (_Stopped)."""
        self._report.show(EmbeddedServer.Phase.LOADING, model=weights.name)
        server = LlamaServer(weights.path, weights.name)
        try:
            self._wait_until_up(server)
            self._report.show(
                EmbeddedServer.Phase.READY,
                base_url=server.base_url,
                context_window=server.context_window(),
                message=weights.notice,
            )
            logger.info("The embedded model %s is ready.", weights.name)
            missed = 0
            while missed < MISSED_CHECKS:
                self._wait(CHECK_SECONDS)
                missed = 0 if server.check() else missed + 1
            raise ServerFailed("The embedded model no longer answers and is started again.")
        finally:
            server.end()

    def _wait_until_up(self, server: LlamaServer) -> None:
        deadline = time.monotonic() + LOAD_SECONDS
        while not server.wait_until_up(0.2):
            self._stay_alive()
            if time.monotonic() > deadline:
                raise ServerFailed("The embedded model took too long to load.")

    def _wait(self, seconds: float) -> None:
        """Pause for this many seconds. Renew the row meanwhile, because its age shows whether the
        process is alive."""
        deadline = time.monotonic() + seconds
        while True:
            self._check_stopping()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._report.renew()
            self._stopping.wait(min(left, CHECK_SECONDS))

    def _stay_alive(self) -> None:
        self._check_stopping()
        self._report.renew()

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise _Stopped
