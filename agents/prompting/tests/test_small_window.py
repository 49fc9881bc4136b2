"""Tests of a long chapter with a small window: every prompt fits and has the texts that it must
have."""

import json
import re
from collections.abc import Callable

import pytest
from pytest_django import Settings

from agents.calling.model_access import model_of
from agents.calling.prepared_calls import fit_prompt
from agents.flows.beginning.locking import request_lock
from agents.flows.replies.composing import compose_reply
from agents.flows.telling.ending import request_end
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play
from agents.llm.providers.base import Message, ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from agents.modes.registry import agent_of
from agents.prompting.budget import TOKENS_PER_MESSAGE, output_limit
from agents.prompting.layers import weigh
from agents.tests.declared import CHARACTERS
from agents.tests.replies import answer_in_form
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from sessions.limits import TAB1_CHAR_LIMIT
from sessions.models import Attempt, Session, State
from testing.long_memory import CHUNK, delta_payload
from testing.session_data import beat_text, reply_text

pytestmark = pytest.mark.django_db

WINDOW = 8_192
PROMPTS = 60
SLOTS = (1, 2, 3)
REPLY_WORDS = 80
# The scripted provider counts four characters as one token.
CHARACTERS_PER_TOKEN = 4


def filling(slot: int) -> str:
    """Return a text of the greatest length that Tab 1 allows, with different words for each
    slot."""
    text = f"Of number {slot}: {reply_text(slot, 2_000)}"
    return text[:TAB1_CHAR_LIMIT].strip().ljust(TAB1_CHAR_LIMIT, ".")


def long_beat(number: int) -> str:
    """Return a long beat.

    If several of the latest beats are as long as this one, the window has no room for all of them
    beside the identity and the memory.
    """
    return "\n".join(beat_text(number * 10 + part) for part in range(8))


def answer(request: ModelRequest) -> str:
    """Answer as a model would: with memory that grows as in a real chapter, or with a reply of the
    usual length."""
    system, prompt = request.messages[0].content, request.messages[-1].content
    if "turn_delta" in system:
        chunk = prompt.split("## RECENT_CONTEXT_CHUNK")[-1]
        first = int(re.findall(r"^(\d+)\) ", chunk, re.MULTILINE)[0])
        return json.dumps(delta_payload(first // CHUNK))
    if "world_chapter_lock" in system or "prose" in system:
        return answer_in_form(request)
    return reply_text(len(prompt), REPLY_WORDS)


@pytest.fixture(params=["openai", "embedded"])
def _model(request: pytest.FixtureRequest, small_window: None, settings: Settings) -> None:
    """Run the test with an unknown model, and with the embedded model, which gets the shortest
    prompts."""
    settings.LLM = request.param
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 10_000


@pytest.fixture
def chapter(_model: None, provider: ScriptedProvider, run_jobs: Callable[[], int]) -> Session:
    provider.fallback = answer
    assert model_of(CHARACTERS[SLOTS[0]]).when_ready().facts.context_window == WINDOW
    chapter = create_chapter()
    change = SetupChange(
        world_text=filling(8),
        chapter_text=filling(9),
        selected_agent_slots=list(SLOTS),
        texts={
            "pronouns": {str(slot): "they/them" for slot in SLOTS},
            "public_text": {str(slot): filling(slot)[:200].strip() for slot in SLOTS},
            "identity_text": {str(slot): filling(slot) for slot in SLOTS},
        },
    )
    save_setup(chapter.pk, change)
    request_lock(chapter.pk)
    run_jobs()
    return get_chapter(chapter.pk)


def tokens_of(messages: tuple[Message, ...]) -> float:
    text = sum(weigh(message.content) for message in messages)
    return text / CHARACTERS_PER_TOKEN + TOKENS_PER_MESSAGE * len(messages)


def compose_next(chapter: Session, slot: int, words: str) -> None:
    """Compose the next prompt for this character, and check that it fits."""
    attempt = Attempt(session=chapter, actor=slot, words=words)
    model = model_of(agent_of(attempt)).when_ready()
    prompt = fit_prompt(model, lambda: compose_reply(attempt))
    assert tokens_of(prompt.messages) + output_limit(model.agent, model.facts) <= WINDOW
    told = "\n".join(message.content for message in prompt.messages)
    assert filling(slot) in told
    assert words in told


@pytest.mark.weekly
def test_every_prompt_of_a_chapter_with_long_identities_fits(
    chapter: Session, provider: ScriptedProvider, run_jobs: Callable[[], int]
) -> None:
    for number in range(1, PROMPTS + 1):
        words = long_beat(number)
        for slot in SLOTS:
            compose_next(chapter, slot, words)
        play(chapter, words, slot=SLOTS[number % len(SLOTS)])
        run_jobs()
        chapter = get_chapter(chapter.pk)
        assert chapter.prompt_index == number
    request_end(chapter.pk)
    run_jobs()
    request_build(chapter.pk)
    run_jobs()

    chapter = get_chapter(chapter.pk)
    assert chapter.state == State.ENDED
    assert chapter.last_summarized_prompt_index == PROMPTS
    assert chapter.narrative_drafts.count() == 1
    assert {request.messages[0].role for request in provider.history} == {"system"}
    for request in provider.history:
        assert tokens_of(request.messages) + request.max_output_tokens <= WINDOW
    called = LLMArtifact.objects.filter(session=chapter)
    assert not called.exclude(error="").exists()
    assert set(called.values_list("agent_id", flat=True)) == {0, *SLOTS, 8, 9}
