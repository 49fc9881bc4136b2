"""Checks that llama.cpp can be loaded on this machine before a gigabyte of weights is fetched."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from agents.llm.embedded.embedded_errors import ServerFailed

NEEDS_AVX2 = "The embedded model needs a processor with AVX2; this one has none."

LOAD_SECONDS = 120.0
_POLL_SECONDS = 0.2

_MISSING = re.compile(r"ImportError: (?P<name>\S+\.so\S*): cannot open shared object file")
# The commands that install the system libraries. Server machines often lack these libraries.
_INSTALL = {
    "libgomp.so.1": "on Debian and Ubuntu: apt install libgomp1; on Fedora: dnf install libgomp",
}


def check_library(while_waiting: Callable[[], None]) -> None:
    """Check that xllamacpp can be loaded, by loading it in a separate process.

    Raises ServerFailed if it cannot be loaded. The message says what to install if a system library
    is missing. `while_waiting` is called several times a second, and any error that it raises ends
    the check.
    """
    with subprocess.Popen(
        [sys.executable, "-c", "import xllamacpp"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as load:
        try:
            stderr = _wait_for(load, while_waiting)
        finally:
            load.kill()
    if load.returncode == 0:
        return
    if load.returncode == -signal.SIGILL:
        raise ServerFailed(NEEDS_AVX2)
    missing = _MISSING.search(stderr)
    if missing is None:
        said = (stderr.strip().splitlines() or [f"exit code {load.returncode}"])[-1]
        raise ServerFailed(f"The embedded model's library, xllamacpp, cannot be loaded: {said}")
    name = missing["name"]
    how = f" ({_INSTALL[name]})" if name in _INSTALL else ""
    raise ServerFailed(
        f"The embedded model needs the system library {name}, which is missing here. "
        f"Install it{how}; the model then starts by itself."
    )


def _wait_for(load: "subprocess.Popen[str]", while_waiting: Callable[[], None]) -> str:
    """Wait for the process to end, and return its error output. Raises ServerFailed if the process
    does not end within LOAD_SECONDS."""
    deadline = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < deadline:
        try:
            return load.communicate(timeout=_POLL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            while_waiting()
    raise ServerFailed("The embedded model's library, xllamacpp, does not load.")
