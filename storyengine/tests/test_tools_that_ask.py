"""A tool may ask a model a question before it runs. The lighthouse's keepers ask the pilot which
ship comes in."""

import asyncio
import json
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling import answers_by_call
from agents.calling.chapter_models import save_models
from agents.calling.records.call_records import calls_behind_prompt
from agents.calling.tests.exploring import form as form
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says, sent_text
from agents.exceptions import RateLimited
from agents.flows.replies.turns import stop_reply
from agents.llm.providers.base import ToolCall
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.prompting.own_settings import OwnSettings
from agents.prompting.tools import ToolForm
from sessions.models import Attempt, Session
from storyengine.api.tests.calling import (
    acall,
    address,
    assert_problem,
    call,
    in_loop,
    reply_is_running,
)
from storyengine.tests.lighthouse.pilot import PILOT
from storyengine.tests.playing_the_lighthouse import changes, light_of, played, prompt
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


@pytest.mark.parametrize("form", ["json"], indirect=True)
def test_it_is_never_the_call_that_wrote_the_reply(
    chapter: Session, provider: ScriptedProvider, form: ToolForm
) -> None:
    """The pilot is the last one who wrote a text, and the first step has two calls."""
    provider.enqueue(lights(form), "Good.", looks(form), pilot_says(GANNET, form))
    played(chapter)
    provider.enqueue(ProviderBusy("Busy."))
    assert_problem(prompt(chapter), 502, "turn-failed")
    assert call("POST", address(chapter, "keep")).status_code == 201
    wrote = calls_behind_prompt(Session.objects.get(), 2).chosen
    assert wrote is not None
    assert (wrote.artifact.agent, wrote.use) == ("lighthouse.keeper", "The reply")
    tried = call("GET", address(chapter, "trial")).json()
    assert "AGENT_IDENTITY" in {one["name"] for one in tried["layers"]}


def test_the_one_who_is_asked_has_what_the_chapter_has_set(
    chapter: Session, provider: ScriptedProvider, settings: Settings
) -> None:
    settings.LLM = "openai"
    save_models(chapter.pk, {PILOT.model_setting: OwnSettings(model="own-9b", temperature=0.9)})
    provider.enqueue(lights(), looks(), pilot_says(GANNET), "I know her.")
    played(chapter)
    asked = provider.history[2]
    assert (asked.model, asked.temperature) == ("own-9b", 0.9)
    assert provider.history[3].model != "own-9b"


def test_a_trial_is_made_from_the_first_call_of_the_reply(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(lights(), "Good.", looks(), pilot_says(GANNET), "I know her.")
    played(chapter)
    played(chapter)
    tried = call("GET", address(chapter, "trial")).json()
    names = {one["name"] for one in tried["layers"]}
    assert "AGENT_IDENTITY" in names
    assert "THE_SHIP" not in names


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


def test_a_stop_does_not_wait_for_the_answer(chapter: Session, provider: ScriptedProvider) -> None:
    gate = asyncio.Event()
    waiting = Script("She is", gate=gate, gate_at=0)
    provider.enqueue(lights(), looks(), waiting)

    async def scenario() -> Any:
        body = {"agent_slot": 1, "user_text": "Go."}
        sent = asyncio.create_task(acall("POST", address(chapter, "prompt"), body))
        await reply_is_running()
        while len(provider.history) < 3:
            await asyncio.sleep(0)
        await stop_reply(chapter.pk)
        return await sent

    problem = assert_problem(in_loop(scenario), 409, "turn-stopped")
    assert problem["pending_turn"]["partial_text"] == "I light it.\n\nI look."
    # Only the step before has changed anything.
    assert [one.kind for one in chapter.changes.all()] == ["lighthouse.lit"]
    asked = LLMArtifact.objects.get(agent=PILOT.name)
    assert asked.error == "Stopped before the end."
