import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Set the scripted model.

    The engine sends prompts ahead to the embedded model only, so every call in these tests is one
    that a client made.
    """
    settings.LLM = "scripted"
