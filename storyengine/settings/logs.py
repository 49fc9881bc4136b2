"""Chooses the handlers of a process's log."""

import sys
from pathlib import Path
from typing import Any

# The name of each process's log file. The key is a word in the command line of the process. Each
# process has a file of its own, because only one process can rotate a full file.
_NAMES = {"serve": "web", "worker": "worker", "run_embedded_model": "model"}
_LARGEST_BYTES = 2_000_000


def read_log_handlers(data_folder: Path, log_format: str, *, debug: bool) -> dict[str, Any]:
    """Return the handlers of the log: one for the console, one that counts, and in the main
    processes one for a file.

    The file has JSON lines and is in `data_folder`/logs.
    """
    console: dict[str, Any] = {"class": "logging.StreamHandler", "formatter": log_format}
    if log_format == "text" and not debug:
        console["filters"] = ["leave_out_requests"]
    handlers: dict[str, Any] = {
        "console": console,
        "counts": {"class": "storyengine.operations.counts.CountingHandler"},
    }
    name = next((name for word, name in _NAMES.items() if word in sys.argv[1:]), "")
    if name and "pytest" not in sys.modules:
        folder = data_folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        handlers["file"] = {
            "class": "storyengine.operations.log_format.LogFile",
            "filename": str(folder / f"{name}.log"),
            "maxBytes": _LARGEST_BYTES,
            "backupCount": 3,
            "encoding": "utf-8",
            "delay": True,
            "formatter": "json",
        }
    return handlers
