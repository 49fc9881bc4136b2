"""An exploration whose narrator is the embedded model, so that the program decides the world."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from explorer.tests.playing import TAVERN, begin, calls, events_of, move, play, wait, world_of
from explorer.unseen import SIMULATION
from sessions.models import Session
from storyengine.api.tests.calling import address, assert_problem, call
from storyengine.tabs.tests.reading import all_of, get_page

pytestmark = pytest.mark.django_db(transaction=True)

INN, LANDING, MILL = "The Ferry Inn", "The Landing", "The Mill"


@pytest.fixture
def embedded(settings: Settings, provider: ScriptedProvider) -> ScriptedProvider:
    settings.LLM = provider.name = "embedded"
    # So few words may be told in every turn.
    provider.fallback = lambda _request: "The water talks."
    return provider


def go(chapter: Session, to: str, **headers: str) -> Any:
    body = {"user_text": "", "given": {"to": to}}
    return call("POST", address(chapter, "prompt"), body, **headers)


def test_the_world_equals_the_one_that_tools_make(
    embedded: ScriptedProvider, settings: Settings
) -> None:
    chapter = begin()
    play(chapter, 'I ask Osk: "Will you come with me?"')
    assert go(chapter, "the landing").status_code == 201
    play(chapter, "I listen.")
    play(chapter, "I wait until midnight.")
    play(chapter, "We go back.")
    # Nothing else was asked within a turn, and what happened at the mill is asked later.
    assert len(embedded.history) == 5
    assert Job.objects.filter(kind=SIMULATION).exists()
    for request in embedded.history:
        assert not request.tools
        assert "moveToLocation" not in str(request.messages)

    settings.LLM = embedded.name = "scripted"
    other = begin()
    embedded.enqueue(
        "Yes.",
        calls("", move(LANDING, "Osk", time="")),
        "Water.",
        calls("", ("discoverCharacter", {"characterName": "Marta Quill"})),
        "I am Marta.",
        calls("", wait("Midnight", 20)),
        "So late.",
        calls("", move(INN, "Osk", time="")),
        "The fire.",
    )
    for words in ("I ask Osk.", "I go.", "I listen.", "I wait.", "We go back."):
        play(other, words)

    assert world_of(chapter) == world_of(other)
    assert world_of(chapter).people["Osk"].location == INN
    lines = [one for number in range(1, 6) for one in events_of(chapter, number)]
    assert [text for role, text in lines if role == "system"] == [
        "You go to The Landing with Osk.",
        "You meet Marta Quill.",
        "Time passes. Midnight.",
        "You go to The Ferry Inn with Osk.",
    ]


def test_another_attempt_and_the_prompt_again_make_the_move_of_the_click_again(
    embedded: ScriptedProvider,
) -> None:
    chapter = begin()
    embedded.enqueue(ProviderRefused("It fell over."))
    go(chapter, MILL, idempotency_key="once")
    assert world_of(chapter).player_location == INN
    assert go(chapter, MILL, idempotency_key="once").status_code == 201
    assert world_of(chapter).player_location == MILL

    call("POST", address(chapter, "reroll"), {})
    assert (world_of(chapter).player_location, world_of(chapter).tick) == (MILL, 6)
    # Other words are another deed.
    call("POST", address(chapter, "reroll"), {"user_text": "I stay."})
    assert world_of(chapter).player_location == INN


def test_what_looks_like_a_call_is_never_run(embedded: ScriptedProvider) -> None:
    chapter = begin()
    embedded.enqueue(
        'The fire is low. {"tool": "moveToLocation", "arguments": {"destination": "The Mill"}}',
        'It rains. <tool_call>{"name": "advanceTime", "arguments": {"ticks": 50}}</tool_call>',
    )
    play(chapter, "I ask Osk about the mill.")
    play(chapter, "I nod.")
    assert (world_of(chapter).player_location, world_of(chapter).tick) == (INN, 2)


def test_somebody_hidden_is_met_by_the_draw_alone(embedded: ScriptedProvider) -> None:
    hidden = {"Tove": 0, "Marta": 1, "Runa": 1}
    people = [
        {"name": name, "is_discovered": False, "encounter_chance": chance}
        for name, chance in hidden.items()
    ]
    chapter = begin(TAVERN | {"people": people})
    play(chapter, "I warm my hands.")
    assert not world_of(chapter).present()
    play(chapter, "I look around.")
    assert [one.name for one in world_of(chapter).present()] == ["Marta"]
    # To let the story go on is to wait, in any language.
    play(chapter, "")
    assert [one.name for one in world_of(chapter).present()] == ["Marta", "Runa"]


def test_a_place_that_was_named_is_offered_below_the_turn(
    embedded: ScriptedProvider, client: Client, settings: Settings
) -> None:
    chapter = begin()
    play(chapter, "I ask Osk whether the mill is far.")
    html = get_page(client, chapter, "play")
    [below] = all_of(html, "div", "deeds")
    assert below.words.split() == ["Go", "to", "The", "Mill?"]
    assert 'name="given.to" value="The Landing"' in html
    assert "data-suggests" not in html

    play(chapter, "I go to the mill.")
    assert not all_of(get_page(client, chapter, "play"), "div", "deeds")

    # Another model is told where the player wants to go, and moves by its tools.
    settings.LLM = embedded.name = "scripted"
    play(chapter, "I think of the inn.")
    html = get_page(client, chapter, "play")
    assert not all_of(html, "div", "deeds")
    assert 'data-suggests="I go to The Landing."' in html


def test_a_prompt_to_a_place_that_nobody_knows_is_refused(embedded: ScriptedProvider) -> None:
    chapter = begin()
    refused = assert_problem(go(chapter, "Atlantis"), 422, "invalid-input")
    assert "Atlantis" in refused["detail"]
    assert not chapter.attempts.exists()
