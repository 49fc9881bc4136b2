import re

import pytest
from pytest_django import Settings

from agents.flows.replies.dry_run import look_ahead
from agents.flows.tests.playing import play, play_many
from agents.llm.facts.model_facts import facts_of
from agents.llm.facts.prices import price_of
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from agents.prompting.budget import output_limit
from agents.prompting.sent_layers import join_layers
from agents.tests.declared import CHARACTERS
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    settings.LLM = "scripted"


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def test_it_is_letter_for_letter_what_is_sent_then(
    chapter: Session, provider: ScriptedProvider
) -> None:
    play_many(chapter, 3)
    run = look_ahead(chapter, agent_slot=2, user_text="The door opens.\r\nSlowly.")
    play(chapter, "The door opens.\r\nSlowly.", slot=2)
    sent = "".join(message.content for message in provider.history[-1].messages)
    assert join_layers(run.layers) == provider.history[-1].messages
    assert run.characters == len(sent)
    artifact = LLMArtifact.objects.latest("created_at")
    assert [layer.tokens for layer in run.layers] == [layer["tokens"] for layer in artifact.layers]


def test_nothing_is_sent_or_stored(chapter: Session, provider: ScriptedProvider) -> None:
    look_ahead(chapter, agent_slot=1, user_text="The door opens.")
    assert provider.history == []
    assert not Attempt.objects.exists()
    assert not LLMArtifact.objects.exists()
    chapter.refresh_from_db()
    assert (chapter.turn_in_flight, chapter.next_agent_slot) == (None, 1)


@pytest.mark.usefixtures("provider", "small_window")
class TestTooLong:
    def test_it_comes_whole_with_the_reason(self, chapter: Session, settings: Settings) -> None:
        settings.CONTEXT_WINDOW = 3_000
        settings.MAX_OUTPUT = 700
        run = look_ahead(chapter, agent_slot=1, user_text="door " * 900)
        assert "too long" in run.too_long
        assert "your prompt" in run.too_long
        assert run.layers[-2].text.count("door") == 900
        assert run.tokens > run.budget_tokens
        assert not any(layer.was_trimmed for layer in run.layers)


class TestCost:
    def test_it_is_that_of_the_prompt_and_of_the_longest_reply(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL, settings.MODEL = "https://api.openai.com/v1", "o4-mini"
        run = look_ahead(chapter, agent_slot=1, user_text="x")
        price = price_of("o4-mini")
        assert price is not None
        assert run.dollars == price.of({"input": run.tokens})
        agent, facts = CHARACTERS[1], facts_of("o4-mini")
        longest = {"input": run.tokens, "output": output_limit(agent, facts)}
        assert run.most_dollars == price.of(longest) > run.dollars > 0
        assert not run.is_free


@pytest.mark.parametrize(("slot", "text"), [(4, "x"), (1, "x" * 5_001), (1, "\x00")])
def test_what_could_not_be_sent_is_refused(chapter: Session, slot: int, text: str) -> None:
    with pytest.raises(InvalidInput):
        look_ahead(chapter, agent_slot=slot, user_text=text)


def test_what_cannot_fit_is_named_with_its_excess_and_nothing_is_spent(
    chapter: Session, provider: ScriptedProvider, settings: Settings
) -> None:
    settings.MODEL = "a-model-nobody-knows"
    settings.CONTEXT_WINDOW, settings.MAX_OUTPUT = 3_000, 700
    words = "word " * 900
    why = look_ahead(chapter, agent_slot=1, user_text=words).too_long
    assert re.search(r"about [0-9,]+ tokens too long.* Shorten your prompt \(about [0-9,]+ t", why)
    attempt = play(chapter, words)
    assert (attempt.status, attempt.error) == (Attempt.Status.FAILED, why)
    assert attempt.words == words
    assert provider.history == []
    assert not LLMArtifact.objects.exists()
