"""Ends a process of the program when its parent process ends.

A parent that is killed cannot tell its children. So each child looks at the id of its parent
process, which changes when the parent ends.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

# The environment variable with the process id of the parent. Without it, a child would not notice a
# parent that ended before the child looked for the first time.
VARIABLE = "STARTED_BY"
_LOOK_SECONDS = 0.5
# The most seconds of an orderly end.
_END_SECONDS = 15.0


def end_with_parent() -> None:
    """End this process when its parent ends. This is so only if `make run` has started it."""
    # The variable is removed, so that the children of this process do not get it.
    if parent := os.environ.pop(VARIABLE, ""):
        when_parent_is_gone(int(parent), _end)


def when_parent_is_gone(parent: int, act: Callable[[], None]) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        act()

    threading.Thread(target=watch, name="Parent", daemon=True).start()


def end_in_order() -> None:
    """End by SIGTERM without printing anything, because printing to a terminal that is gone would
    fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


def _end() -> None:
    end_in_order()
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
