from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling.records.call_records import (
    CallRecord,
    CallsBehind,
    Outcome,
    calls_behind_block,
    calls_behind_draft,
    calls_behind_prompt,
    calls_of,
    read_sent_prompt,
    record_of,
)
from agents.calling.records.recording import STOPPED
from agents.calling.records.stored_prompts import read_messages
from agents.calling.records.usage import total_of, usage_by_agent, usage_of
from agents.calling.spending import add_to_spending, spending_of
from agents.flows.beginning.locking import request_lock
from agents.flows.replies.choosing import choose_reply, edit_reply
from agents.flows.replies.tests.trying import try_again
from agents.flows.replies.trials import adopt_trial
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play, play_many, reroll
from agents.llm.facts.prices import price_of
from agents.llm.providers.failures.call_errors import ProviderError
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.prompting.sent_layers import join_layers
from agents.tests.declared import AGENTS
from memory.models import MemoryBlock
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

EDITED = "The chosen reply was edited by hand from this one"
TRIAL = "trial with the identity changed"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    settings.LLM = "scripted"


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def uses(behind: CallsBehind) -> list[str]:
    return [call.use for call in behind.calls]


def add_call(chapter: Session, **fields: Any) -> LLMArtifact:
    values: dict[str, Any] = {
        "agent_id": 1,
        "provider": "scripted",
        "model": "m",
        "raw_output_ref": "Yes.",
    }
    values |= fields
    agent = AGENTS[values["agent_id"]].name
    call = LLMArtifact.objects.create(session=chapter, agent=agent, **values)
    add_to_spending(call)
    return call


def test_a_call_that_nobody_reported_counts_as_the_caps_count_it(chapter: Session) -> None:
    artifact = add_call(chapter, model="o4-mini", estimated_input=900, estimated_output=40)
    call = CallRecord(artifact, Outcome.STOPPED, "1 Agent Red")
    assert (call.tokens, call.is_estimated) == ({}, True)
    assert call.counted_tokens == {"input": 900, "output": 40}
    spent = spending_of(chapter.pk)
    assert call.dollars == spent.dollars > 0


class TestReplies:
    def test_a_reply_has_the_call_it_came_from(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I wait.", "I go.")
        turns = [play(chapter), play(chapter, slot=2)]
        behind = calls_behind_prompt(chapter, 2)
        [call] = behind.calls
        assert call.artifact.attempt_id == turns[1].pk
        assert call.artifact.raw_output_ref == "I go."
        assert call.agent == "2 Agent Orange"
        assert uses(behind) == ["The reply"]
        assert behind.chosen == call

    def test_of_several_attempts_the_chosen_one_is_told_apart(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I wait.", "I stay.", "I go.")
        play(chapter)
        stayed = reroll(chapter)
        reroll(chapter)
        behind = calls_behind_prompt(chapter, 1)
        assert uses(behind) == ["Another reply", "Another reply", "The chosen reply"]
        assert behind.chosen is not None
        assert behind.chosen.artifact.raw_output_ref == "I go."
        choose_reply(chapter.pk, 1, stayed.pk)
        behind = calls_behind_prompt(chapter, 1)
        assert uses(behind) == ["Another reply", "The chosen reply", "Another reply"]
        assert behind.chosen is not None
        assert behind.chosen.artifact.attempt_id == stayed.pk

    @pytest.mark.parametrize(
        ("edited", "used"),
        [
            ("prompt", [EDITED, "Another reply"]),
            ("reroll", ["Another reply", EDITED]),
        ],
    )
    def test_a_reply_edited_by_hand_comes_from_the_call_of_the_one_before(
        self, chapter: Session, provider: ScriptedProvider, edited: str, used: list[str]
    ) -> None:
        made = {"prompt": play(chapter), "reroll": reroll(chapter)}
        choose_reply(chapter.pk, 1, made[edited].pk)
        for text in ("I look away.", "I look back."):
            edit_reply(chapter.pk, 1, text)
            behind = calls_behind_prompt(chapter, 1)
            assert (uses(behind), behind.is_edited) == (used, True)
        choose_reply(chapter.pk, 1, made[edited].pk)
        behind = calls_behind_prompt(chapter, 1)
        unedited = [use.replace(EDITED, "The chosen reply") for use in used]
        assert (uses(behind), behind.is_edited) == (unedited, False)

    def test_trials_are_told_apart_until_they_are_chosen(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I wait.", "I stay.", ProviderError("No line."))
        play(chapter)
        trial = try_again(chapter)
        try_again(chapter, "Another.")
        assert uses(calls_behind_prompt(chapter, 1)) == [
            *("The reply", f"A {TRIAL}, not used", f"A {TRIAL}")
        ]
        adopt_trial(chapter.pk, trial.pk)
        behind = calls_behind_prompt(chapter, 1)
        assert uses(behind) == ["Another reply", f"The chosen reply, a {TRIAL}", f"A {TRIAL}"]
        assert behind.chosen is not None
        assert behind.chosen.artifact.attempt_id == trial.pk
        edit_reply(chapter.pk, 1, "By hand.")
        assert uses(calls_behind_prompt(chapter, 1))[1] == f"{EDITED}, a {TRIAL}"

    def test_a_try_that_failed_is_shown_beside_the_one_that_did_not(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderError("No line."), "I go.")
        play(chapter, key="same")
        play(chapter, key="same")
        behind = calls_behind_prompt(chapter, 1)
        assert uses(behind) == ["", "The reply"]
        assert [call.outcome for call in behind.calls] == [Outcome.FAILED, Outcome.FINISHED]


class TestBlocksAndDrafts:
    def test_the_lock_has_its_call_and_the_repair(
        self, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> None:
        provider.enqueue("no JSON")
        chapter = make_chapter()
        request_lock(chapter.pk)
        run_jobs()
        build = Job.objects.create(session=chapter, kind=Job.Kind.NARRATE, key="n")
        add_call(chapter, agent_id=9, job=build)
        behind = calls_behind_block(chapter, MemoryBlock.objects.get())
        assert uses(behind) == ["", "This memory"]
        assert [call.outcome for call in behind.calls] == [Outcome.FAILED, Outcome.FINISHED]

    def test_each_delta_has_the_call_of_its_own_chunk(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> None:
        for _ in range(2):
            play_many(chapter, 7)
            run_jobs()
        first, second = MemoryBlock.objects.order_by("created_at")
        [one], [two] = (calls_behind_block(chapter, block).calls for block in (first, second))
        assert one.artifact.agent_id == 8
        assert "Beat 7." in read_messages(one.artifact)[-1].content
        assert "Beat 14." in read_messages(two.artifact)[-1].content

    def test_each_draft_has_the_calls_of_its_own_build(
        self, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> None:
        chapter = make_chapter(state=State.ENDED, tab1_locked=True, target_words=100)
        add_prompts(chapter, 2)
        prose = "The lamp was dark, and nobody said so. " * 20
        for text in (prose, prose.replace("dark", "bright")):
            provider.enqueue(text)
            request_build(chapter.pk)
            run_jobs()
        drafts = chapter.narrative_drafts.order_by("created_at")
        calls = [calls_behind_draft(chapter, draft).calls for draft in drafts]
        assert [[call.use for call in one] for one in calls] == [["For this draft"]] * 2
        first = calls_behind_draft(chapter, drafts[0]).chosen
        assert first is not None
        assert "dark" in first.artifact.raw_output_ref
        assert ["bright" in one[0].artifact.raw_output_ref for one in calls] == [False, True]


class TestTheCallShownFirst:
    @pytest.mark.parametrize(
        ("marks", "shown"),
        [
            ([("", False), ("For this draft", False), ("For this draft", False)], 1),
            ([("Another reply", False), ("The chosen reply", True), ("", False)], 1),
            ([("", False), ("", False)], 0),
        ],
    )
    def test_is_the_chosen_one_else_the_first_that_was_used(
        self, chapter: Session, marks: list[tuple[str, bool]], shown: int
    ) -> None:
        for _ in marks:
            add_call(chapter)
        artifacts = zip(calls_of(chapter), marks, strict=True)
        behind = CallsBehind(
            [record_of(chapter, one, use, is_chosen=chosen) for one, (use, chosen) in artifacts]
        )
        assert behind.chosen is behind.calls[shown]


class TestSentPrompt:
    def test_it_is_what_was_sent_and_says_what_it_shares(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        play(chapter)
        play(chapter)
        [call] = calls_behind_prompt(chapter, 2).calls
        prompt = read_sent_prompt(chapter, call)
        request = provider.history[-1]
        assert join_layers(prompt.layers) == request.messages
        assert prompt.layers[-1].name == "YOUR_REPLY"
        assert prompt.characters == sum(len(message.content) for message in request.messages)
        assert prompt.shared_characters is not None
        assert len(request.messages[0].content) < prompt.shared_characters < prompt.characters


class TestOutcomes:
    @pytest.mark.parametrize(
        ("fields", "outcome"),
        [
            ({}, Outcome.FINISHED),
            ({"error": STOPPED}, Outcome.STOPPED),
            ({"error": "No line."}, Outcome.FAILED),
            ({"error": "No line.", "raw_output_ref": ""}, Outcome.FAILED),
            ({"raw_output_ref": ""}, Outcome.WARM_UP),
            ({"raw_output_ref": "", "error": STOPPED}, Outcome.WARM_UP),
        ],
    )
    def test_they_tell_how_a_call_ended(
        self, chapter: Session, fields: dict[str, str], outcome: Outcome
    ) -> None:
        add_call(chapter, **fields)
        assert record_of(chapter, calls_of(chapter).get()).outcome == outcome

    def test_a_reply_stopped_before_its_first_word_is_no_warm_up(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        attempt = play(chapter)
        add_call(chapter, raw_output_ref="", error=STOPPED, attempt=attempt)
        stopped = calls_of(chapter).latest("created_at")
        assert record_of(chapter, stopped).outcome == Outcome.STOPPED


class TestUsage:
    def test_it_is_counted_by_agent_and_model_with_failures_apart(self, chapter: Session) -> None:
        counts = {"input": 100, "output": 20, "cached": 60}
        add_call(chapter, token_counts=counts)
        add_call(chapter, token_counts=counts)
        add_call(chapter, error="No line.", raw_output_ref="")
        add_call(chapter, error=STOPPED)
        add_call(chapter, raw_output_ref="")
        add_call(chapter, model="other", token_counts=counts)
        add_call(chapter, agent_id=8, token_counts={"input": 1, "output": 2, "cached": 0})
        add_call(chapter, agent_id=8, error=STOPPED, estimated_input=4, estimated_output=3)
        add_call(make_active_chapter(), token_counts=counts)
        rows = usage_by_agent(chapter)
        assert [(row.agent_id, row.model) for row in rows] == [(1, "m"), (1, "other"), (8, "m")]
        first = rows[0].usage
        assert (first.calls, first.finished, first.failed) == (5, 2, 1)
        assert (first.stopped, first.warm_ups) == (1, 1)
        assert (first.input_tokens, first.cached_tokens, first.output_tokens) == (200, 120, 40)
        last = rows[2].usage
        assert (last.estimated_input_tokens, last.estimated_output_tokens) == (4, 3)
        assert (last.input_tokens, last.all_input, last.all_output) == (1, 5, 5)
        total = total_of(row.usage for row in rows)
        assert total == usage_of(chapter.llm_artifacts.all())
        assert (total.calls, total.tokens) == (8, 370)
        assert spending_of(chapter.pk).tokens == 370

    def test_the_cost_has_what_was_estimated_in_it(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
        add_call(chapter, model="o4-mini", estimated_input=10**6, estimated_output=10**6)
        price = price_of("o4-mini")
        assert price is not None
        assert usage_by_agent(chapter)[0].dollars == price.input + price.output
