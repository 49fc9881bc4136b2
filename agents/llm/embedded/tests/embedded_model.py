"""The smallest embedded model on a real server, which is started once for all tests of a module."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agents.llm.embedded.catalogue import SMOLLM2
from agents.llm.embedded.embedded_errors import WeightsUnavailable
from agents.llm.embedded.server import LlamaServer
from agents.llm.embedded.weights import cache_folder, fetch

# Even a busy machine loads the model's hundred megabytes within this many seconds.
LOAD_SECONDS = 300.0


@contextmanager
def run_small_model() -> Iterator[LlamaServer]:
    """Yield a running server with the smallest model, or skip the test if the weights cannot be
    fetched."""
    try:
        path = fetch(SMOLLM2, cache_folder(), lambda done, total: None)
    except WeightsUnavailable as unavailable:
        pytest.skip(f"The small embedded model cannot be had: {unavailable}")
    server = LlamaServer(path, SMOLLM2.name)
    try:
        assert server.wait_until_up(LOAD_SECONDS), "It does not come up."
        yield server
    finally:
        server.end()
