"""What the requests to characters cost in a session of 84 prompts.

`make bench DATA=file` measures the same of a recorded session with a running program. The session
of this test is made up, with beats and replies of about the same length, and as in the recorded one
some characters answer more often than others.
"""

from collections.abc import Callable
from random import Random

import pytest
from pytest_django import Settings

from agents.flows.beginning.locking import request_lock
from agents.flows.tests.playing import play
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from bench.session.prompts import TARGET_PROMPTS, prompt_figures
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from testing.model_replies import ModelReplies, agent_of
from testing.session_data import (
    Pair,
    RecordedSession,
    beat_text,
    reply_text,
    setup_of,
    synthetic_session,
)

pytestmark = pytest.mark.django_db

CHAPTER_WORDS = 1_000
REPLY_WORDS = 15
# How often each of the seven characters answers.
WEIGHTS = (4, 7, 3, 2, 4, 1, 1)


def make_session() -> RecordedSession:
    session = synthetic_session(1)
    slots = Random(7).choices(range(1, 8), WEIGHTS, k=TARGET_PROMPTS)  # noqa: S311
    pairs = (
        Pair(slot, f"{beat_text(at)} It is {at} past.", reply_text(at, REPLY_WORDS))
        for at, slot in enumerate(slots)
    )
    return RecordedSession(session.roster, session.summary, tuple(pairs))


@pytest.mark.weekly
def test_they_meet_the_targets(
    provider: ScriptedProvider, settings: Settings, run_jobs: Callable[[], int]
) -> None:
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "a-model-nobody-knows", {}
    settings.CONTEXT_WINDOW, settings.MAX_OUTPUT = 128_000, 16_000
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 10_000
    session = make_session()
    replies = ModelReplies(session, CHAPTER_WORDS)
    sent: list[str] = []

    def answer(request: ModelRequest) -> str:
        messages = [message.content for message in request.messages]
        agent = agent_of(request.model, messages[0])
        if agent == 1:
            sent.append("\n".join(messages))
        return replies.text_for(agent, messages)

    provider.fallback = answer
    chapter = create_chapter()
    setup = setup_of(session)
    slots = list(range(1, len(session.roster) + 1))
    save_setup(
        chapter.pk,
        SetupChange(
            world_text=setup.world_text,
            chapter_text=setup.chapter_text,
            selected_agent_slots=slots,
            texts={"name": setup.names, "identity_text": setup.identities},
        ),
    )
    request_lock(chapter.pk)
    run_jobs()
    chapter = get_chapter(chapter.pk)
    for pair in session.pairs:
        play(chapter, pair.beat, slot=pair.slot)
        run_jobs()
    assert len(sent) == TARGET_PROMPTS
    figures = prompt_figures(sent, pairs=TARGET_PROMPTS)
    assert [one.passed for one in figures[:3]] == [True] * 3, figures
