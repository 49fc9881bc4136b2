"""Where a process keeps its log."""

import sys
from pathlib import Path
from typing import Any

# By a word of the command line that the Procfile starts it with. Each process has a file of its
# own, because only one can turn a full file over.
_NAMES = {"serve": "web", "worker": "worker", "run_embedded_model": "model"}
_LARGEST_BYTES = 2_000_000


def read_log_handlers(data_folder: Path) -> dict[str, Any]:
    """The console, and for the program's own processes a file in `data_folder`/logs."""
    handlers: dict[str, Any] = {"console": {"class": "logging.StreamHandler", "formatter": "line"}}
    name = next((name for word, name in _NAMES.items() if word in sys.argv[1:]), "")
    if name and "pytest" not in sys.modules:
        folder = data_folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        handlers["file"] = {
            "class": "logging.handlers.RotatingFileHandler",
            "filename": str(folder / f"{name}.log"),
            "maxBytes": _LARGEST_BYTES,
            "backupCount": 3,
            "encoding": "utf-8",
            "delay": True,
            "formatter": "dated",
        }
    return handlers
