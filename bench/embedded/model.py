"""Waits for the embedded model, and gives its calls fixed seeds. Django has to be set up before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from agents.llm.embedded.status import describe, is_ready, read_embedded_server
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.embedded_provider import EmbeddedProvider

# The longest wait for the model, in seconds. In the first run, this time includes fetching the
# model's weights.
READY_SECONDS = 1_800.0


def until_ready() -> Iterator[dict[str, str]]:
    """Wait for the model, and yield its messages for people."""
    deadline = time.monotonic() + READY_SECONDS
    told = ""
    while not is_ready(server := read_embedded_server()):
        if time.monotonic() > deadline:
            raise SystemExit("The embedded model did not become ready.")
        if server is not None and describe(server) != told:
            told = describe(server)
            yield {"told": told}
        time.sleep(1)


@contextmanager
def seeded(first: int) -> Iterator[None]:
    """Send a seed with each request of the block: `first` with the first one, and the numbers after
    it with the others."""
    seeds, own = count(first), EmbeddedProvider.extra_fields

    def fields(provider: EmbeddedProvider, request: ModelRequest) -> dict[str, Any]:
        return {**own(provider, request), "seed": next(seeds)}

    with patch.object(EmbeddedProvider, "extra_fields", fields):
        yield
