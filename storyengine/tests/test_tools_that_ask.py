"""A tool may ask a model a question before it runs. The lighthouse's keepers ask the pilot which
ship comes in."""

import json
from typing import Any

import pytest

from agents.calling import answers_by_call
from agents.calling.tests.exploring import form as form
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says, sent_text
from agents.exceptions import RateLimited
from agents.llm.providers.base import ToolCall
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.prompting.tools import ToolForm
from sessions.models import Attempt, Session
from storyengine.tests.lighthouse.pilot import PILOT
from storyengine.tests.playing_the_lighthouse import changes, light_of, played
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]


def lights(form: ToolForm = "native") -> Script:
    return says(form, "I light it.", ("light", {"lamp": "north"}))


def looks(form: ToolForm = "native") -> Script:
    return says(form, "I look.", ("lookOut", {"sails": "red sails"}))


def pilot_says(said: dict[str, Any], form: ToolForm = "native", **script: Any) -> Script:
    arguments = json.dumps(said)
    if form != "native":
        return Script(arguments, **script)
    return Script(tool_calls=(ToolCall("call-9", "nameShip", arguments),), **script)


GANNET = {"shipName": "the Gannet"}
FALLBACK = "a ship with red sails"


def sighted(chapter: Session) -> list[str]:
    return [one["ship"] for kind, one in changes(chapter, 1) if kind == "lighthouse.sighted"]


def test_the_answer_reaches_the_tool_and_the_world(
    chapter: Session, provider: ScriptedProvider, form: ToolForm
) -> None:
    provider.enqueue(lights(form), looks(form), pilot_says(GANNET, form), says(form, "I know her."))
    played(chapter)
    assert sighted(chapter) == ["the Gannet"]
    assert light_of(chapter).ships == ("the Gannet",)
    asked, then = provider.history[2:]
    assert "A ship with red sails comes in." in sent_text(asked)
    assert "Lamps: north." in sent_text(asked)
    assert "It is the Gannet." in sent_text(then)
    assert [tool.name for tool in asked.tools] == (["nameShip"] if form == "native" else [])


def test_it_is_a_call_of_the_same_attempt_and_step(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(lights(), looks(), pilot_says(GANNET), "I know her.")
    played(chapter)
    attempt = Attempt.objects.get()
    calls = LLMArtifact.objects.order_by("created_at").values_list("agent", "step", "attempt")
    assert list(calls) == [
        ("lighthouse.keeper", 1, attempt.pk),
        ("lighthouse.keeper", 2, attempt.pk),
        (PILOT.name, 2, attempt.pk),
        ("lighthouse.keeper", 3, attempt.pk),
    ]
    assert AdmittedCall.objects.count() == 4


def test_a_tool_may_ask_nothing(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue(looks(), "It is dark.")
    played(chapter)
    assert sighted(chapter) == [FALLBACK]
    assert len(provider.history) == 2


@pytest.mark.parametrize(
    "answers",
    [
        [ProviderBusy("Busy.")],
        [pilot_says({}), pilot_says({"shipName": ""})],
        [Script()],
    ],
)
def test_without_an_answer_the_tool_has_its_own_way(
    chapter: Session, provider: ScriptedProvider, answers: list[Any]
) -> None:
    provider.enqueue(lights(), looks(), *answers, "I know her.")
    events = played(chapter)
    assert sighted(chapter) == [FALLBACK]
    assert events[-1]["text"] == "I know her."
    calls = LLMArtifact.objects.filter(agent=PILOT.name)
    assert all(one.error for one in calls)
    assert calls.count() == len(answers)


@pytest.mark.parametrize("error", [RateLimited("Too many calls."), KeyError("a fault")])
def test_a_refused_question_ends_no_reply(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    async def refuse(*_about: object, is_of_reply: bool) -> None:
        raise error

    monkeypatch.setattr(answers_by_call, "let_call_through", refuse)
    provider.enqueue(lights(), looks(), "I know her.")
    played(chapter)
    assert sighted(chapter) == [FALLBACK]
