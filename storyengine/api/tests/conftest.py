import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Set another model than the embedded one, since the engine sends that one prompts ahead.

    So every call in these tests is one that a client made.
    """
    settings.LLM = "scripted"
