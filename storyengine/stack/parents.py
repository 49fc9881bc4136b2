"""Ends a process of the program when its parent process ends.

A parent that is killed cannot tell its children. So each child checks its parent's process id,
which changes when the parent dies.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

# The environment variable in which a process of the Procfile finds its parent's process id. Without
# it, a child would not notice a parent that died before the child's first check.
VARIABLE = "STARTED_BY"
_LOOK_SECONDS = 0.5
# An orderly end takes less time than this.
_END_SECONDS = 15.0


def end_with_parent() -> None:
    """End this process with its parent if `make run` has started it."""
    # The variable is removed so that processes started by this one do not inherit it.
    if parent := os.environ.pop(VARIABLE, ""):
        when_parent_is_gone(int(parent), _end)


def when_parent_is_gone(parent: int, act: Callable[[], None]) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        act()

    threading.Thread(target=watch, name="Parent", daemon=True).start()


def end_in_order() -> None:
    """End by SIGTERM, without output, because printing to a terminal that is gone would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


def _end() -> None:
    end_in_order()
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
