import logging
import socket
from collections.abc import Iterator

import pytest

from storyengine.access.log_format import JsonFormatter, TextFormatter
from storyengine.operations.tests.reading import Written


@pytest.fixture
def written() -> Iterator[Written]:
    """Yield the log lines of the test in both formats, JSON and text."""
    lines = Written()
    handlers = [Keeper(lines.as_json, JsonFormatter()), Keeper(lines.as_text, TextFormatter())]
    root = logging.getLogger()
    for handler in handlers:
        root.addHandler(handler)
    yield lines
    for handler in handlers:
        root.removeHandler(handler)


class Keeper(logging.Handler):
    def __init__(self, lines: list[str], formatter: logging.Formatter) -> None:
        super().__init__()
        self.lines = lines
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
