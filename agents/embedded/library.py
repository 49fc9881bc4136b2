"""Whether llama.cpp can be loaded here at all, asked before a gigabyte of weights is fetched."""

import re
import signal
import subprocess
import sys

from agents.embedded.exceptions import ServerFailed

NEEDS_AVX2 = "The embedded model needs a processor with AVX2; this one has none."

LOAD_SECONDS = 120

_MISSING = re.compile(r"ImportError: (?P<name>\S+\.so\S*): cannot open shared object file")
# The package that has the library, by what installs it. Machines for servers often lack it.
_INSTALL = {
    "libgomp.so.1": "on Debian and Ubuntu: apt install libgomp1; on Fedora: dnf install libgomp",
}


def check_library() -> None:
    """Load it in a process of its own; raises ServerFailed, which says what to install."""
    try:
        load = subprocess.run(
            [sys.executable, "-c", "import xllamacpp"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ServerFailed("The embedded model's library, xllamacpp, does not load.") from None
    if load.returncode == 0:
        return
    if load.returncode == -signal.SIGILL:
        raise ServerFailed(NEEDS_AVX2)
    missing = _MISSING.search(load.stderr)
    if missing is None:
        said = (load.stderr.strip().splitlines() or [f"exit code {load.returncode}"])[-1]
        raise ServerFailed(f"The embedded model's library, xllamacpp, cannot be loaded: {said}")
    name = missing["name"]
    how = f" ({_INSTALL[name]})" if name in _INSTALL else ""
    raise ServerFailed(
        f"The embedded model needs the system library {name}, which is missing here. "
        f"Install it{how}; the model then starts by itself."
    )
