"""Runs the Procfile with honcho until Ctrl-C, or until the terminal or `make` ends."""

import os
import signal
import sys
import threading
from multiprocessing import parent_process
from types import FrameType
from typing import Any

import honcho.command
from honcho.manager import Manager
from honcho.process import Process

from storyengine.stack.parents import VARIABLE, end_in_order, when_parent_is_gone

STOPPED_BY_CTRL_C = 130
# What each process of the Procfile does, for the sentence that says that it ended.
_DOES = {
    "web": "The web process, which serves the pages and writes the replies,",
    "worker": "The worker, which writes memory and drafts,",
    "model": "The process that runs the embedded model",
}


class Runner(Process):  # type: ignore[misc]  # honcho has no types
    """Honcho's process that starts one process of the Procfile and reads its output.

    It ignores signals, and would read without end after honcho was killed.
    """

    def run(self, *arguments: Any, **options: Any) -> None:
        self.env[VARIABLE] = str(os.getpid())
        threading.Thread(target=self._end_with_honcho, daemon=True).start()
        super().run(*arguments, **options)

    def _end_with_honcho(self) -> None:
        if honcho_s := parent_process():
            honcho_s.join()
            # The process that it has started then ends, too (see storyengine.stack.parents).
            os._exit(1)


class Runners(Manager):  # type: ignore[misc]  # honcho has no types
    """Honcho's manager, which ends in order when its parent is gone, such as a killed `make`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._process_ctor = Runner
        self._parent = os.getppid()
        # The sentence about the process that ended first, unless a signal ended all of them.
        self._said = ""

    def loop(self) -> None:
        super().loop()
        # The last line is the one that is still seen in the terminal.
        if self._said:
            self._system_print(f"{self._said}\n")

    def terminate(self) -> None:
        ended = [(name, one.get("returncode")) for name, one in self._processes.items()]
        first = next(((name, code) for name, code in ended if code is not None), None)
        if first and not self._terminating:
            self._said = sentence_about(*first)
        super().terminate()

    def _start(self) -> None:
        super()._start()
        # The thread starts after the forks, which would copy its locks without the thread itself.
        when_parent_is_gone(self._parent, end_in_order)


def sentence_about(process: str, code: int) -> str:
    """Say which process ended, what became of the program, and what to do."""
    kind, _, _ = process.partition(".")
    was_killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    how = "was killed (a system does so when memory runs out)"
    return (
        f"{_DOES.get(kind, process)} {how if was_killed else 'ended (the lines above say why)'}, "
        "so Story Engine has stopped; your chapters are kept, and `make run` starts it again."
    )


def run(arguments: list[str]) -> None:
    signal.signal(signal.SIGHUP, stop_without_terminal)
    honcho.command.Manager = Runners
    try:
        # The program reads .env itself, and gives variables of the shell precedence over it.
        honcho.command.main(["--env", os.devnull, "start", *arguments])
    except SystemExit as end:
        sys.exit(0 if end.code == STOPPED_BY_CTRL_C else end.code)


def stop_without_terminal(signum: int, frame: FrameType | None) -> None:
    """End quietly, because honcho would fail at the line that it prints before it ends."""
    end_in_order()


if __name__ == "__main__":
    run(sys.argv[1:])
