import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Use the scripted model. With the embedded model the engine would read ahead, and so make
    calls without a request."""
    settings.LLM = "scripted"
