"""Each agent of each chapter has its own key for a provider's prefix cache.

The key does not show to which agent and chapter it belongs.
"""

import pytest
from pytest_django import Settings

from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


def test_a_key_is_one_agents_in_one_chapter(provider: ScriptedProvider, settings: Settings) -> None:
    settings.LLM = "scripted"
    one, other = make_active_chapter(), make_active_chapter()
    for chapter, slot in ((one, 1), (one, 2), (one, 1), (other, 1)):
        play(chapter, slot=slot)
    first, second, third, fourth = (request.cache_key for request in provider.history)
    assert first == third
    assert len({first, second, fourth}) == 3
    # The keys are short enough for OpenAI, which takes keys of at most 64 characters.
    assert [len(key) for key in (first, second, fourth)] == [32, 32, 32]
    assert str(one.pk) not in first
