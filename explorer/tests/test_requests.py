"""How the agents of an exploration are called: limits, tools, tries, and what a server can keep."""

from itertools import pairwise

import pytest
from pytest_django import Settings

from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.prompting.layers import weigh
from agents.prompting.sent_layers import characters_of, shared_characters
from explorer.mode import MODE
from explorer.tests.playing import begin, calls, lived_through, move, play, scripted, wait
from explorer.tests.test_playing import resolved
from explorer.tests.test_simulation import report
from storyengine.api.tests.calling import RunJobs

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


def tools_of(request: ModelRequest) -> set[str]:
    return {one.name for one in request.tools}


def test_each_agent_has_its_limits_and_forms(
    scripted: ScriptedProvider, settings: Settings, run_jobs: RunJobs
) -> None:
    # A model that does not reason and takes tools.
    settings.LLM, settings.MODEL = "openai", "gpt-4o"
    settings.OPENAI_BASE_URL = "http://localhost:9/v1"
    chapter = begin()
    scripted.enqueue(
        calls("", wait("Midnight", 30), move("the jetty")),
        resolved("place-2", "The Landing", 0.9),
        lived_through("Marta Quill rings."),
        "Black water.",
    )
    play(chapter)
    scripted.enqueue('RUNA: "Go."', report(events=[]))
    assert run_jobs()

    step, question, meanwhile, last, dialogue, told = scripted.history
    for one in (step, last):
        assert tools_of(one) == {
            *("moveToLocation", "advanceTime", "discoverCharacter", "personGoes", "note")
        }
        assert (one.max_output_tokens, one.tool_choice, one.streams) == (2_048, "", True)
    for one, tool in (
        (question, "resolveLocation"),
        (meanwhile, "tellMeanwhile"),
        (told, "reportSimulation"),
    ):
        assert tools_of(one) == {tool}
        assert (one.max_output_tokens, one.tool_choice) == (4_096, "required")
    assert (dialogue.max_output_tokens, tools_of(dialogue)) == (4_096, set())
    assert all(one.retry_waits == (1, 2, 4) for one in scripted.history)
    assert all(agent.retry_waits == (1, 2, 4) for agent in MODE.agents)


def test_five_steps_call_tools_and_the_sixth_is_the_last(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(*(calls(f"Text {at}.", wait(f"Hour {at}", 1)) for at in range(6)))

    answer = play(chapter)

    assert len(scripted.history) == 6
    assert "the last one: call nothing more" in scripted.history[5].messages[-1].content
    # What the last step calls is not run, and each text stands once.
    assert len([one for one in answer["events"] if one["role"] == "system"]) == 5
    told = [one["text"] for one in answer["events"] if one["role"] == "agent"]
    assert told == [f"Text {at}." for at in range(6)]


def test_nine_tenths_of_a_later_step_are_cached(scripted: ScriptedProvider) -> None:
    chapter = begin()
    for at in range(6):
        scripted.enqueue(f"Reply {at}. " + "The river rises by a hand and nobody speaks. " * 60)
        play(chapter)
    scripted.enqueue(
        calls("", move("The Landing")),
        lived_through("Marta Quill rings."),
        calls("", wait("Late", 5)),
        "Black water.",
    )
    play(chapter)

    steps = [one for one in scripted.history if "moveToLocation" in tools_of(one)][-3:]
    history = steps[0].messages[1].content.split("## RECENT_CONTEXT")[1].split("## WORLD_NOW")[0]
    assert 4_000 < weigh(history) / 4 < 5_000
    for before, step in pairwise(steps):
        shared = shared_characters(step.messages, before.messages)
        assert shared >= 0.9 * characters_of(step.messages)


def test_a_request_has_at_most_100_000_tokens_whatever_the_window(
    scripted: ScriptedProvider, settings: Settings
) -> None:
    settings.LLM, settings.MODEL = "openai", "gpt-4.1"
    settings.OPENAI_BASE_URL = "http://localhost:9/v1"
    chapter = begin()
    for at in range(4):
        scripted.enqueue(f"Reply {at}. " + "word" * 40_000)
        play(chapter)
    scripted.enqueue("Still.")
    play(chapter)

    # The scripted server counts a token for four characters.
    sent = characters_of(scripted.history[-1].messages) / 4
    assert 50_000 < sent <= 100_000
    assert "Reply 3." in scripted.history[-1].messages[1].content
