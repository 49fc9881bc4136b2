"""Chooses the log handlers of a process."""

import sys
from pathlib import Path
from typing import Any

# The names of log files. A key is a word in the command line of a process. Each process has its own
# file, because two processes cannot rotate the same file.
_NAMES = {"serve": "web", "worker": "worker", "run_embedded_model": "model"}
_LARGEST_BYTES = 2_000_000


def read_log_handlers(
    data_folder: Path, log_format: str, *, debug: bool, has_files: bool
) -> dict[str, Any]:
    """Return the log handlers: one for the console, and one for a log file.

    Only the main processes have the handler for a file, and only if `has_files`. The file is in
    `data_folder`/logs and has lines of JSON.
    """
    console: dict[str, Any] = {"class": "logging.StreamHandler", "formatter": log_format}
    if log_format == "text" and not debug:
        console["filters"] = ["leave_out_requests"]
    handlers: dict[str, Any] = {"console": console}
    name = next((name for word, name in _NAMES.items() if word in sys.argv[1:]), "")
    if has_files and name and "pytest" not in sys.modules:
        folder = data_folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        handlers["file"] = {
            "class": "storyengine.access.log_format.LogFile",
            "filename": str(folder / f"{name}.log"),
            "maxBytes": _LARGEST_BYTES,
            "backupCount": 3,
            "encoding": "utf-8",
            "delay": True,
            "formatter": "json",
        }
    return handlers
