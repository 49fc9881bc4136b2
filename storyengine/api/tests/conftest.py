import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    """Only the embedded model is sent prompts ahead; here every call is one that a client made."""
    settings.LLM = "scripted"
