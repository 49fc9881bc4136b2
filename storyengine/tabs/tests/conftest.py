import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta, world_lock
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter


@pytest.fixture(autouse=True)
def _scripted_model(settings: Settings, provider: ScriptedProvider) -> None:
    """Use the scripted model, so that no request leaves the machine."""
    settings.LLM = "scripted"


@pytest.fixture
def htmx() -> Client:
    """Return a client whose requests have the header of htmx."""
    return Client(headers={"HX-Request": "true"})


@pytest.fixture
def draft(db: None) -> Session:
    """Return a chapter whose Tab 1 is still open."""
    return make_chapter()


@pytest.fixture
def chapter(db: None) -> Session:
    """Return a chapter in play with eight prompts, of which memory covers seven."""
    chapter = make_active_chapter(last_summarized_prompt_index=7)
    add_prompts(chapter, 8)
    add_lock(chapter, world_lock())
    add_delta(chapter, 1, 7, turn_delta(1, 7))
    return chapter
