"""A process of the program ends with the one that started it, however that ends.

A parent that is killed can tell nobody. So each process looks who its parent is: the child of a
dead one gets another.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

# Names the parent's process id to what the Procfile starts: one that dies before its child looks
# would not be missed.
VARIABLE = "STARTED_BY"
_LOOK_SECONDS = 0.5
# Longer than an orderly end may take.
_END_SECONDS = 15.0


def end_with_parent() -> None:
    """For a process that `make run` has started; any other goes on by itself."""
    # No setting, and not for what this process starts itself.
    if parent := os.environ.pop(VARIABLE, ""):
        when_parent_is_gone(int(parent), _end)


def when_parent_is_gone(parent: int, act: Callable[[], None]) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        act()

    threading.Thread(target=watch, name="Parent", daemon=True).start()


def end_in_order() -> None:
    """As SIGTERM does it: nobody reads any more what is printed on the way, which would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


def _end() -> None:
    end_in_order()
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
