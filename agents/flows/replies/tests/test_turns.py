"""Tests of a reply that fails, is stopped, is re-rolled, or loses its process."""

import asyncio
import uuid
from collections.abc import Sequence

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection

from agents.calling.consent import grant
from agents.calling.model_access import AgentModel
from agents.calling.records.stored_prompts import read_messages
from agents.flows.remembering.summarizing import queue_due_summary
from agents.flows.replies import composing, finishing, turns
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import play, play_many, replies_are_over, reroll, texts_of
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderRefused,
    ProviderTimeout,
    StreamBroken,
)
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import LLMArtifact
from sessions.models import Attempt, Session
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def test_a_tool_call_in_the_reply_of_a_character_is_no_story(
    chapter: Session, provider: ScriptedProvider, caplog: pytest.LogCaptureFixture
) -> None:
    call = '<tool_call>\n{"name": "open_door", "arguments": {"which": "the left"}}\n</tool_call>'
    provider.enqueue(f"I step in.\n{call}\n\nAnd wait.")
    assert play(chapter).status == Attempt.Status.COMMITTED
    assert texts_of(chapter)[-1] == "I step in.\n\nAnd wait."
    assert "open_door" in caplog.text
    assert call in LLMArtifact.objects.latest("created_at").raw_output_ref


def test_a_reply_whose_call_cannot_be_recorded_is_not_lost(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_fields: object) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr("agents.running.database.PAUSES", (0,))
    monkeypatch.setattr(LLMArtifact.objects, "create", refuse)
    provider.enqueue("I step in.")
    assert play(chapter).status == Attempt.Status.COMMITTED
    assert texts_of(chapter)[-1] == "I step in."


def test_a_reply_is_committed_when_the_database_is_back(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def commit(attempt: Attempt, outcome: Sequence[NewEvent]) -> object:
        tries.append([event.text for event in outcome])
        if len(tries) < 3:
            raise OperationalError("database is locked")
        return commit_attempt(attempt, outcome)

    monkeypatch.setattr("agents.running.database.PAUSES", (0, 0))
    monkeypatch.setattr(finishing, "commit_attempt", commit)
    provider.enqueue("I step in.")
    assert play(chapter).status == Attempt.Status.COMMITTED
    assert tries == [["I step in."]] * 3


def test_a_try_that_was_rolled_back_leaves_nothing_to_the_next(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def refuse_first(chapter: Session, **_options: float) -> bool:
        tries.append(chapter.prompt_index)
        # The engine calls this function once when the prompt is stored, and once for each try to
        # commit the reply. The first try to commit must fail.
        if len(tries) == 2:
            raise OperationalError("database is locked")
        return queue_due_summary(chapter)

    monkeypatch.setattr("agents.running.database.PAUSES", (0,))
    monkeypatch.setattr(turns, "queue_due_summary", refuse_first)
    monkeypatch.setattr(finishing, "queue_due_summary", refuse_first)
    provider.enqueue("I step in.")
    attempt = play(chapter)
    assert (attempt.status, attempt.turn, chapter.prompt_index) == (
        *("committed", chapter.turns.get(number=1), 1),
    )
    assert tries == [0, 1, 1]
    assert (texts_of(chapter), chapter.next_agent_slot) == ([attempt.words, "I step in."], 2)


def test_a_prompt_whose_call_cannot_be_prepared_waits_for_a_retry(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OperationalError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(composing, "prepare_call", refuse)
        with pytest.raises(OperationalError):
            play(chapter, key="one")
    assert chapter.attempts.get().status == Attempt.Status.FAILED
    assert play(chapter, key="one").status == Attempt.Status.COMMITTED


class TestASmallModel:
    @pytest.fixture(autouse=True)
    def _is_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AgentModel, "is_small", True)

    def told(self, chapter: Session, provider: ScriptedProvider, script: Script) -> str:
        provider.enqueue(script)
        assert play(chapter).status == Attempt.Status.COMMITTED
        return texts_of(chapter)[-1]

    def test_a_reply_that_was_cut_ends_at_a_sentence(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        script = Script("I step in. The lamp is out. I call for", was_cut=True)
        assert self.told(chapter, provider, script) == "I step in. The lamp is out."

    def test_a_heading_of_the_prompt_is_left_out(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        assert self.told(chapter, provider, Script("## USER_PROMPT\nI wait.")) == "I wait."


@pytest.mark.parametrize(
    "error",
    [ProviderRefused("401"), ProviderTimeout("slow"), ProviderBusy("429"), StreamBroken("cut")],
)
def test_a_failure_keeps_the_words_and_can_be_retried(
    chapter: Session, provider: ScriptedProvider, error: Exception
) -> None:
    provider.enqueue(Script("I step", error=error), "I step in.")
    broken = play(chapter, key="k")
    assert (broken.status, broken.partial_text, broken.error) == (
        Attempt.Status.FAILED,
        "I step",
        str(error),
    )
    assert texts_of(chapter) == []
    assert play(chapter, key="k").status == Attempt.Status.COMMITTED
    assert texts_of(chapter) == ["The door opens.", "I step in."]


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_reply_is_a_failure(
    chapter: Session, provider: ScriptedProvider, text: str
) -> None:
    provider.enqueue(Script(text))
    assert play(chapter).status == Attempt.Status.FAILED
    assert chapter.prompt_index == 0


def test_a_call_records_what_was_sent_and_reported(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue("I step in.")
    play(chapter)
    artifact = LLMArtifact.objects.get()
    assert artifact.agent_id == 1
    assert artifact.raw_output_ref == "I step in."
    assert "## USER_PROMPT\nThe door opens.\n" in read_messages(artifact)[-1].content
    assert artifact.token_counts["output"] == 3
    assert len(artifact.input_hash) == 64
    assert [layer["name"] for layer in artifact.layers] == [
        "SYSTEM",
        "CAST",
        "AGENT_IDENTITY",
        "USER_PROMPT",
        "YOUR_REPLY",
    ]


def test_the_network_is_never_met_inside_a_transaction(
    transactional_db: None, provider: ScriptedProvider
) -> None:
    seen: list[bool] = []

    class Watching(ScriptedProvider):
        def _next_script(self, request: object) -> Script:
            seen.append(connection.in_atomic_block)
            return Script("Yes.")

    chapter = make_active_chapter()
    provider.__class__ = Watching
    assert play(chapter).status == Attempt.Status.COMMITTED
    assert seen == [False]


def test_prompts_carry_the_latest_reply_only(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("First answer.", "Second answer.", "And on.")
    play(chapter)
    reroll(chapter)
    play(chapter, "Next.", slot=2)
    sent = provider.history[-1].messages[-1].content
    assert "Second answer." in sent
    assert "First answer." not in sent


def test_a_reroll_does_not_see_the_reply_it_replaces(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue("One.", "First answer.", "Second answer.")
    play(chapter, "Before.")
    play(chapter, "Now.", slot=2)
    reroll(chapter)
    sent = provider.history[-1].messages[-1].content
    assert "First answer." not in sent
    assert sent.count("Now.") == 1
    assert "Before." in sent


def test_the_order_of_a_character_s_prompt_is_the_specification_s(
    chapter: Session, provider: ScriptedProvider
) -> None:
    add_prompts(chapter, 1)
    chapter.memory_blocks.create(
        type="world_chapter_lock",
        from_prompt_index=0,
        to_prompt_index=0,
        json_payload={"canon_locks": ["CANON-0"]},
    )
    play(chapter, "The latest beat.", slot=2)
    system, user = provider.history[-1].messages
    assert system.role == "system"
    places = [
        user.content.index(part) for part in ("A priest.", "CANON-0", "beat 1", "The latest beat.")
    ]
    assert places == sorted(places)


def test_a_chapter_that_calls_too_often_leaves_calls_to_the_others(
    chapter: Session, provider: ScriptedProvider, settings: pytest.FixtureRequest
) -> None:
    settings.CHAPTER_CALLS_PER_MINUTE = 2  # type: ignore[attr-defined]
    other = make_active_chapter()
    play_many(chapter, 2)
    refused = play(chapter)
    assert refused.status == Attempt.Status.FAILED
    assert "More than 2 model calls of this chapter" in refused.error
    assert play(other).status == Attempt.Status.COMMITTED


def test_two_tabs_at_once_make_one_turn(chapter: Session, provider: ScriptedProvider) -> None:
    async def run() -> Sequence[object]:
        gate = asyncio.Event()
        provider.enqueue(Script("Yes.", gate=gate))
        attempts = await asyncio.gather(
            *(
                start_prompt(
                    chapter.pk, actor=1, words=f"Go {n}.", submission_key=str(uuid.uuid4())
                )
                for n in range(5)
            ),
            return_exceptions=True,
        )
        gate.set()
        await replies_are_over()
        return attempts

    attempts = async_to_sync(run)()
    assert sum(not isinstance(attempt, Exception) for attempt in attempts) == 1
    assert chapter.events.count() == 2


def test_a_foreign_host_is_refused_until_it_is_allowed(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.host = "api.example.org"
    attempt = play(chapter)
    assert attempt.status == Attempt.Status.FAILED
    assert "api.example.org" in attempt.error
    assert not provider.history
    grant("api.example.org")
    assert play(chapter).status == Attempt.Status.COMMITTED
