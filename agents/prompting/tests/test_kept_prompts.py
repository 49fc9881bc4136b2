"""The engine caches the unchanged part of a prompt, and uses it again in the next prompt.

But each change of the chapter must show in the next prompt.
"""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from agents.calling.model_access import read_model
from agents.calling.prepared_calls import prepare_call
from agents.flows.replies.composing import compose_reply, compose_start, read_ahead
from agents.flows.tests.playing import play, reroll
from agents.llm.providers.scripted import ScriptedProvider
from agents.prompting import budget
from agents.tests.declared import CHARACTERS
from agents.tests.replies import turn_delta
from memory.tests.factories import write_delta
from sessions.chapter.access import get_chapter
from sessions.models import Attempt, Session
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _small_window(settings: Any) -> None:
    settings.LLM, settings.MODEL = "openai", "llama-3.2-3b-instruct"


@pytest.fixture
def chapter() -> Session:
    chapter = make_active_chapter()
    add_prompts(chapter, 7)
    read_ahead(chapter)
    return chapter


def carried(chapter: Session) -> str:
    return "\n".join(layer.text for layer in compose_start(get_chapter(chapter.pk), 1))


def test_a_prompt_and_its_reply(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("I lift the lamp.")
    play(chapter, "The stairs are wet.")
    assert "The stairs are wet." in carried(chapter)
    assert "I lift the lamp." in carried(chapter)


def test_another_reply(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("I lift the lamp.", "I put the lamp out.")
    play(chapter)
    reroll(chapter)
    assert "I put the lamp out." in carried(chapter)
    assert "I lift the lamp." not in carried(chapter)


@pytest.fixture
def _large_window(settings: Any) -> None:
    settings.LLM, settings.MODEL = "openai", "gpt-4o"


def summarize(chapter: Session, canon: str, first: int = 1) -> None:
    last = first + 6
    payload = turn_delta(first, last, canon_locks=[canon])
    assert write_delta(
        chapter.turns.get(number=last).chosen, from_prompt_index=first, payload=payload
    )


@pytest.mark.usefixtures("_large_window")
def test_what_was_read_ahead_is_not_asked_for_again(
    provider: ScriptedProvider,
    chapter: Session,
    django_assert_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next prompt is composed with one query, for the choice of the model, even if the GM
    thinks for ten minutes before sending it."""
    seconds = [time.monotonic() + 100]
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    read_ahead(chapter)
    # Once a process, the query for the choice asks SQLite whether it knows JSON.
    read_model(CHARACTERS[1])
    seconds[0] += 590
    slot = chapter.next_agent_slot
    attempt = Attempt(session=chapter, actor=slot, words="The stairs are wet.")
    with django_assert_num_queries(1):
        call = prepare_call(
            read_model(CHARACTERS[slot]), chapter.pk, lambda: compose_reply(attempt)
        )
    assert "The stairs are wet." in call.request.messages[-1].content


@pytest.mark.usefixtures("_large_window")
def test_a_memory_delta(chapter: Session) -> None:
    summarize(chapter, "The bell has no clapper.")
    assert "The bell has no clapper." in carried(chapter)


def test_in_a_small_window_a_delta_waits_until_its_prompts_leave_the_context(
    chapter: Session,
) -> None:
    summarize(chapter, "The bell has no clapper.")
    before = carried(chapter)
    assert "beat 1" in before
    assert "The bell has no clapper." not in before
    add_prompts(chapter, 14)
    summarize(chapter, "The tide is late.", first=8)
    after = carried(chapter)
    assert "beat 14\n" not in after
    assert "The bell has no clapper." in after
    assert "The tide is late." in after


def test_in_a_small_window_the_context_grows_over_two_chunks(chapter: Session) -> None:
    for first in (1, 8):
        summarize(chapter, f"CANON {first}", first=first)
        add_prompts(chapter, 6 if first > 1 else 7)
    text = carried(chapter)
    assert "beat 1\n" in text
    assert "CANON" not in text


def test_the_layers_of_a_prompt_show_one_state_of_the_chapter(chapter: Session) -> None:
    """A summary is stored after the chapter was read.

    The prompt still tells the turns of the summary word for word, because all its layers show the
    chapter as it was read.
    """
    add_prompts(chapter, 7)
    stored = Attempt(session=get_chapter(chapter.pk), actor=1, words="Go.")
    summarize(chapter, "The bell has no clapper.")
    text = "\n".join(layer.text for layer in compose_reply(stored))
    assert "beat 1\n" in text
