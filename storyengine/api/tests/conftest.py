import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Use the scripted model. With the embedded model the engine would read ahead, which makes
    calls that no test has asked for."""
    settings.LLM = "scripted"
