"""Ends a process of the program when its parent process ends.

A killed parent cannot tell its children to end. So each child checks the id of its parent process
again and again. The id changes when the parent ends.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

# The environment variable with the process id of the parent. Without this variable, a child whose
# parent ended before the child's first check would not notice it.
VARIABLE = "STARTED_BY"
_LOOK_SECONDS = 0.5
# A process that does not end after SIGTERM is killed after this many seconds.
_END_SECONDS = 15.0


def end_with_parent() -> None:
    """End this process when its parent ends, if the parent has set VARIABLE.

    `make run` sets it for the processes of the program.
    """
    # The variable is removed, so that this process does not pass it to its own children.
    if parent := os.environ.pop(VARIABLE, ""):
        when_parent_is_gone(int(parent), _end)


def when_parent_is_gone(parent: int, act: Callable[[], None]) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        act()

    threading.Thread(target=watch, name="Parent", daemon=True).start()


def end_in_order() -> None:
    """End this process by SIGTERM, with no further output. The terminal may be gone, and printing
    to it would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


def _end() -> None:
    end_in_order()
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
