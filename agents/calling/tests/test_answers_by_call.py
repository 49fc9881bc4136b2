"""Tests of questions whose answer is a call of one tool."""

import json
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from pydantic import Field
from pytest_django import Settings

from agents.calling.answers_by_call import ask_for_call
from agents.calling.records.stored_prompts import read_messages
from agents.calling.tests.exploring import MODELS, explorer, sent_text
from agents.calling.tests.exploring import native as native
from agents.llm.providers.base import ToolCall
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.prompting.layers import Layer, text_layer
from agents.prompting.tools import AnswerTool, ToolArguments
from sessions.models import Session
from sessions.tests.factories import add_attempt, make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native")]


class Resolved(ToolArguments):
    canonicalName: str  # noqa: N815  (the name that the model is told)
    confidence: float = Field(ge=0, le=1)


RESOLVE = AnswerTool("resolveLocation", "Names the place.", Resolved)
QUAY = {"canonicalName": "The Quay", "confidence": 0.7}


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


@pytest.fixture(params=["native", "json", "xml"])
def has_tools(request: pytest.FixtureRequest, settings: Settings) -> bool:
    """Ask a model with tools, a model with JSON schemas, and a model with neither."""
    settings.MODEL = MODELS[request.param]
    return bool(request.param == "native")


def layers() -> list[Layer]:
    return [text_layer("USER_PROMPT", "Which place is the old quay?")]


def ask(chapter: Session, **made_for: Any) -> Resolved:
    return async_to_sync(ask_for_call)(explorer(), chapter.pk, layers, RESOLVE, **made_for)


def answer(said: object, *, has_tools: bool, text: str = "", name: str = RESOLVE.name) -> Script:
    arguments = said if isinstance(said, str) else json.dumps(said)
    if not has_tools:
        return Script(f"{text}{arguments}")
    return Script(text, tool_calls=(ToolCall("call-1", name, arguments),))


def test_the_arguments_are_the_answer(
    chapter: Session, provider: ScriptedProvider, has_tools: bool
) -> None:
    provider.enqueue(answer(QUAY, has_tools=has_tools))
    attempt = add_attempt(chapter)
    assert ask(chapter, attempt_id=attempt.pk, step=3) == Resolved(**QUAY)
    [sent] = provider.history
    if has_tools:
        [tool] = sent.tools
        assert (tool.name, sent.tool_choice, sent.json_schema) == (RESOLVE.name, "required", None)
    else:
        assert (sent.tools, sent.tool_choice) == ((), "")
        assert "the arguments of resolveLocation" in sent_text(sent)
        assert '"canonicalName"' in sent_text(sent)
    call = LLMArtifact.objects.get()
    assert (call.attempt_id, call.step, call.agent, call.error) == (attempt.pk, 3, "explorer", "")
    assert read_messages(call) == sent.messages
    assert AdmittedCall.objects.count() == 1


def test_a_model_that_honours_schemas_is_held_to_one(
    chapter: Session, provider: ScriptedProvider, settings: Settings
) -> None:
    settings.MODEL = MODELS["json"]
    provider.enqueue(json.dumps(QUAY))
    ask(chapter)
    schema = provider.history[0].json_schema
    assert schema is not None
    assert list(schema["properties"]) == ["canonicalName", "confidence"]


@pytest.mark.parametrize(
    "wrong",
    [{"canonicalName": "The Quay"}, {**QUAY, "confidence": 7}, '{"canonicalName": "The', "[1]"],
)
def test_a_wrong_answer_is_asked_for_once_more(
    chapter: Session, provider: ScriptedProvider, has_tools: bool, wrong: object
) -> None:
    provider.enqueue(answer(wrong, has_tools=has_tools), answer(QUAY, has_tools=has_tools))
    assert ask(chapter).canonicalName == "The Quay"
    first, second = LLMArtifact.objects.order_by("created_at")
    assert first.error
    assert not second.error
    told = sent_text(provider.history[1])
    assert first.error in told
    assert "Which place is the old quay?" in told
    assert AdmittedCall.objects.count() == 2


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        # A server that has let the model answer in words.
        (f"Here it is: {json.dumps(QUAY)}", ()),
        (json.dumps({"name": "resolveLocation", "arguments": QUAY}), ()),
        # A name that was not offered, beside some words.
        ("I think", (ToolCall("call-1", "resolve", json.dumps(QUAY)),)),
    ],
)
def test_what_can_only_mean_the_one_tool_is_read(
    chapter: Session, provider: ScriptedProvider, text: str, calls: tuple[ToolCall, ...]
) -> None:
    provider.enqueue(Script(text, tool_calls=calls))
    assert ask(chapter) == Resolved(**QUAY)


def test_an_agent_names_the_waits_between_tries(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(json.dumps(QUAY))
    agent = replace(explorer(), retry_waits=(1, 2, 4))
    async_to_sync(ask_for_call)(agent, chapter.pk, layers, RESOLVE)
    assert provider.history[0].retry_waits == (1, 2, 4)
