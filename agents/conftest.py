from collections.abc import Iterator

import pytest
from pytest_django import Settings

from agents.llm.providers.guard import allow_real_calls, forbid_real_calls


@pytest.fixture
def small_window(settings: Settings) -> None:
    """Set a window that is too small for a model to write 5,000 words in one call."""
    settings.LLM = "openai"
    settings.MODEL = "a-model-nobody-knows"
    settings.MODEL_BY_AGENT = {}
    settings.CONTEXT_WINDOW = 8192
    settings.MAX_OUTPUT = 1000


@pytest.fixture
def calls_allowed(_no_real_calls: None) -> Iterator[None]:
    """Allow model calls, because they go to a local server that the test itself starts."""
    allow_real_calls()
    yield
    forbid_real_calls()
