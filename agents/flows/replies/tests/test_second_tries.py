"""A reply of a small model that breaks a rule is asked for once more."""

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.calling.model_access import AgentModel
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import play, reply_is_over, texts_of
from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.running.following import follow
from agents.running.live import ReplyText
from agents.tests.declared import CHARACTERS
from sessions.models import Attempt, Session
from sessions.play.breaking import fail_without_text
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

PROMPT = "The lamp over the quay goes out."
CAUGHT = "I stay within the boundaries that the GM has set for me."
TRIES = CHARACTERS[1].in_small_form().most_tries
GOOD = "I strike a match and hold it up to the lamp. “Who is there?”"


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara Venn", "2": "Tom"})


@pytest.fixture(autouse=True)
def _is_embedded(provider: ScriptedProvider) -> None:
    provider.name = "embedded"


def read_parts(chapter: Session) -> list[ReplyText]:
    async def read() -> list[ReplyText]:
        opened = await start_prompt(chapter.pk, actor=1, words=PROMPT, submission_key="k")
        parts = [part async for part in follow(opened.attempt.pk)]
        await reply_is_over(opened.attempt.pk)
        return [part for part in parts if isinstance(part, ReplyText)]

    return async_to_sync(read)()


def test_the_second_reply_counts_and_both_calls_are_recorded_and_counted(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(CAUGHT, GOOD)
    attempt = play(chapter, PROMPT)
    assert texts_of(chapter) == [PROMPT, GOOD]
    calls = LLMArtifact.objects.order_by("created_at")
    assert list(calls.values_list("raw_output_ref", "step", "attempt")) == [
        (CAUGHT, 1, attempt.pk),
        (GOOD, 2, attempt.pk),
    ]
    assert AdmittedCall.objects.count() == 2


def test_whoever_reads_along_is_told_why_the_text_is_replaced(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(CAUGHT, GOOD)
    parts = read_parts(chapter)
    (at,) = (number for number, part in enumerate(parts) if part.note)
    assert parts[at].is_restart
    assert parts[at].note == (
        "The first answer names the GM and says boundaries, so the model is asked once more."
    )
    assert "".join(part.text for part in parts[at:]) == GOOD


def test_a_good_reply_and_a_reply_of_another_model_are_not_asked_for_again(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(GOOD, CAUGHT)
    play(chapter, PROMPT)
    provider.name = "openai"
    play(chapter, PROMPT)
    assert texts_of(chapter) == [PROMPT, GOOD, PROMPT, CAUGHT]
    assert LLMArtifact.objects.count() == 2


def test_a_second_reply_that_breaks_more_rules_is_left_out(
    chapter: Session, provider: ScriptedProvider
) -> None:
    worse = "The GM, the scenario."
    first = "I stay within the boundaries of this place, always."
    provider.enqueue(first, *[worse] * (TRIES - 1))
    parts = read_parts(chapter)
    assert texts_of(chapter)[-1] == first
    assert parts[-1].text == texts_of(chapter)[-1]
    assert parts[-1].note == "The second answer is no better, so the first one stays."


def test_the_first_reply_stays_if_the_second_call_breaks_off(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(CAUGHT, Script("I strike", error=StreamBroken("cut")))
    attempt = play(chapter, PROMPT)
    assert attempt.status == Attempt.Status.COMMITTED
    assert texts_of(chapter)[-1] == CAUGHT


def test_the_first_reply_stays_if_a_cap_allows_no_second_call(
    chapter: Session, provider: ScriptedProvider, settings: Settings
) -> None:
    settings.CHAPTER_CALLS_PER_MINUTE = 1
    provider.enqueue(CAUGHT, GOOD)
    attempt = play(chapter, PROMPT)
    assert attempt.status == Attempt.Status.COMMITTED
    assert texts_of(chapter)[-1] == CAUGHT
    assert LLMArtifact.objects.count() == 1


def test_a_character_may_not_say_the_same_again(
    chapter: Session, provider: ScriptedProvider
) -> None:
    other = "I open the door a hand's width and look out. “Nobody is here.”"
    provider.enqueue(GOOD, GOOD, other)
    play(chapter, PROMPT)
    play(chapter, "Somebody knocks at the door.")
    assert texts_of(chapter)[1::2] == [GOOD, other]


REFUSAL = "I'm sorry, but I can't help with that."


class TestARefusal:
    """A refusal of a small model is never stored as a part of the story."""

    def test_the_second_reply_counts(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue(REFUSAL, GOOD)
        assert play(chapter, PROMPT).status == Attempt.Status.COMMITTED
        assert texts_of(chapter) == [PROMPT, GOOD]

    @pytest.mark.parametrize(
        "second", ["My terms of service do not allow it.", Script("", error=StreamBroken("cut"))]
    )
    def test_without_a_second_reply_the_attempt_fails_and_can_be_retried(
        self, chapter: Session, provider: ScriptedProvider, second: str | Script
    ) -> None:
        provider.enqueue(REFUSAL, second, GOOD)
        attempt = play(chapter, PROMPT, key="k")
        assert (attempt.status, attempt.partial_text) == (Attempt.Status.FAILED, "")
        assert attempt.words == PROMPT
        assert "Your prompt is kept: retry" in attempt.error
        assert texts_of(chapter) == []
        assert LLMArtifact.objects.filter(raw_output_ref=REFUSAL).count() == 1
        assert play(chapter, PROMPT, key="k").status == Attempt.Status.COMMITTED
        assert texts_of(chapter) == [PROMPT, GOOD]

    def test_what_was_shown_of_it_is_not_kept(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        earlier = "I strike a match."
        provider.enqueue(Script(earlier, error=StreamBroken("cut")), REFUSAL, REFUSAL)
        assert play(chapter, PROMPT, key="k").partial_text == earlier
        assert play(chapter, PROMPT, key="k").partial_text == earlier
        attempt = play(chapter, PROMPT, key="k")
        Attempt.objects.filter(pk=attempt.pk).update(
            status=Attempt.Status.RUNNING, partial_text=REFUSAL, text_run_id=attempt.run_id
        )
        assert fail_without_text(attempt, error="no", kind="ModelDeclined")
        attempt.refresh_from_db()
        assert attempt.partial_text == ""

    def test_another_model_s_reply_fails_only_if_nobody_else_would_say_it(
        self, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(AgentModel, "is_small", False)
        provider.name = "openai"
        provider.enqueue(REFUSAL, "I'm sorry, but I can't assist with that request.")
        assert play(chapter, PROMPT).status == Attempt.Status.COMMITTED
        failed = play(chapter, PROMPT)
        assert (failed.status, failed.partial_text) == (Attempt.Status.FAILED, "")
        assert LLMArtifact.objects.count() == 2
