import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Use the scripted model. The engine reads ahead only with the embedded model, so each call in
    these tests answers a request."""
    settings.LLM = "scripted"
