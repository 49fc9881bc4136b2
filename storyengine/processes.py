"""Runs the Procfile with honcho, until Ctrl-C or until the terminal is closed."""

import os
import signal
import sys
from types import FrameType

from honcho.command import main

STOPPED_BY_CTRL_C = 130


def run(arguments: list[str]) -> None:
    signal.signal(signal.SIGHUP, stop_without_terminal)
    try:
        # The program reads .env itself, where a variable that is set in the shell wins.
        main(["--env", os.devnull, "start", *arguments])
    except SystemExit as end:
        sys.exit(0 if end.code == STOPPED_BY_CTRL_C else end.code)


def stop_without_terminal(signum: int, frame: FrameType | None) -> None:
    """Honcho writes a line before it stops its processes, and would fail at that."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    run(sys.argv[1:])
