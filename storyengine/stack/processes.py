"""Runs the processes of the Procfile with honcho until Ctrl-C is pressed, or until the terminal or
`make` ends."""

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
# What each process of the Procfile does. The sentence about a process that has ended begins with
# this text.
_DOES = {
    "web": "The web process, which serves the pages and writes the replies,",
    "worker": "The worker, which writes memory and drafts,",
    "model": "The process that runs the embedded model",
}


class Runner(Process):  # type: ignore[misc]  # honcho has no types
    """A child process of honcho, which starts one process of the Procfile and reads its output.

    The children of honcho ignore signals. After honcho was killed, a child of honcho's own class
    would therefore never stop reading. A child of this class ends as soon as honcho has ended.
    """

    def run(self, *arguments: Any, **options: Any) -> None:
        self.env[VARIABLE] = str(os.getpid())
        threading.Thread(target=self._end_with_honcho, daemon=True).start()
        super().run(*arguments, **options)

    def _end_with_honcho(self) -> None:
        if honcho_s := parent_process():
            honcho_s.join()
            # The process of the Procfile is a child of this process, and ends when this process has
            # ended (see storyengine.stack.parents).
            os._exit(1)


class Runners(Manager):  # type: ignore[misc]  # honcho has no types
    """The manager of honcho. It ends all processes in order when its parent has ended, for example
    because `make` was killed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._process_ctor = Runner
        self._parent = os.getppid()
        # The sentence about the process that ended by itself, or "" if a signal ended all
        # processes.
        self._said = ""

    def loop(self) -> None:
        super().loop()
        # The sentence is printed last, so that it is the last line in the terminal.
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
        # The thread starts after the forks, because a forked process has copies of the thread's
        # locks but not the thread that would release them.
        when_parent_is_gone(self._parent, end_in_order)


def sentence_about(process: str, code: int) -> str:
    """Return a sentence that says which process ended, what this means for the program, and what to
    do."""
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
        # honcho must not read .env. The program itself reads the file, and prefers variables of the
        # shell to those in the file.
        honcho.command.main(["--env", os.devnull, "start", *arguments])
    except SystemExit as end:
        sys.exit(0 if end.code == STOPPED_BY_CTRL_C else end.code)


def stop_without_terminal(signum: int, frame: FrameType | None) -> None:
    """End this process without output. honcho itself would print a line first, which fails if the
    terminal is gone."""
    end_in_order()


if __name__ == "__main__":
    run(sys.argv[1:])
