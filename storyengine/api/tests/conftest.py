import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Set the scripted model.

    The engine warms up only the embedded model, so every call in these tests comes from a client.
    """
    settings.LLM = "scripted"
