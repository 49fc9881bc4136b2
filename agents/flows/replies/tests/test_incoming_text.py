"""Replies of characters are cleaned on every tier, and the GM is told how a reply has ended."""

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.calling.model_access import AgentModel
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import play, reply_is_over, reroll, texts_of
from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import LLMArtifact
from agents.running.following import follow
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

CAME = "**Mara Venn:** “I go,” I say.\n\nTom: I stay.\n\nMara Venn: Then stay."
KEPT = "“I go,” I say."


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara Venn", "2": "Tom"})


def test_a_reply_ends_where_somebody_else_speaks_and_its_record_keeps_what_came(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AgentModel, "is_small", False)
    provider.enqueue(CAME)
    attempt = play(chapter)
    assert texts_of(chapter) == ["The door opens.", KEPT]
    assert (attempt.ended_before, attempt.was_cut) == ("Tom", False)
    assert LLMArtifact.objects.get().raw_output_ref == CAME


def test_whoever_reads_along_sees_the_same_words(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(CAME)

    async def read() -> str:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        parts = [part async for part in follow(opened.attempt.pk)]
        await reply_is_over(opened.attempt.pk)
        return "".join(getattr(part, "text", "") for part in parts)

    assert async_to_sync(read)() == KEPT


@pytest.mark.parametrize(
    ("came", "who"),
    [
        ("[Tom] I stay.", "Tom"),
        ("### Tom\nI stay.", "Tom"),
        ("> Tom (laughing): I stay.", "Tom"),
        ("GM: The lamp goes out.", "the Game Master"),
        ("2) The lamp goes out.", "the Game Master"),
        ("Narrator: The lamp goes out.", "the narrator"),
    ],
)
def test_nobody_else_speaks_in_a_reply_however_they_are_labelled(
    chapter: Session, provider: ScriptedProvider, came: str, who: str
) -> None:
    provider.enqueue(f"MARA VENN\n{KEPT}\n\n{came}\n\nMore.")
    assert play(chapter).ended_before == who
    assert texts_of(chapter)[-1] == KEPT


def test_a_broken_reply_keeps_also_what_was_held_back(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(Script("I go.\n\nTom", error=StreamBroken("cut")))
    assert play(chapter).partial_text == "I go.\n\nTom"


@pytest.mark.parametrize(
    ("text", "kept", "was_cut"),
    [
        ("I go down now. I call", "I go down now.", False),
        ("I go down and call for", "I go down and call for", True),
    ],
)
def test_a_small_model_that_was_cut_is_not_continued(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    kept: str,
    was_cut: bool,
) -> None:
    monkeypatch.setattr(AgentModel, "is_small", True)
    provider.enqueue(Script(text, was_cut=True))
    assert play(chapter).was_cut is was_cut
    assert texts_of(chapter)[-1] == kept


@pytest.mark.parametrize(
    ("length", "tokens"), [("short", (72, 600)), ("normal", (120, 1_000)), ("long", (240, 2_000))]
)
def test_the_output_limit_follows_the_length_of_replies(
    provider: ScriptedProvider, settings: Settings, length: str, tokens: tuple[int, int]
) -> None:
    chapter = make_active_chapter(reply_length=length)
    play(chapter)
    settings.LLM, settings.MODEL = "openai", "gpt-4o"
    reroll(chapter)
    assert tuple(one.max_output_tokens for one in provider.history) == tokens
