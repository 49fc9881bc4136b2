"""The narrator notes things and conditions, and lets people come and go."""

from typing import Any

import pytest

from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import begin, calls, events_of, move, play, scripted, world_of

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


def noted(**arguments: Any) -> tuple[str, dict[str, Any]]:
    return "note", arguments


def goes(name: str, to: str) -> tuple[str, dict[str, Any]]:
    return "personGoes", {"name": name, "to": to}


def results(provider: ScriptedProvider) -> list[str]:
    """Return what the tools have answered in the latest request."""
    return [one.content for one in provider.history[-1].messages if one.role == "tool"]


def test_what_is_noted_stands_in_the_next_request_until_it_is_over(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(
        calls(
            "",
            noted(what="The mill key", holder="you", state="bent"),
            noted(person="You", condition="has promised Osk to be back by midnight"),
            noted(place="here", condition="the window is broken"),
        ),
        "He lets you go.",
        "It goes on.",
    )
    play(chapter, "I take the key and promise to be back.")
    play(chapter)

    told = scripted.history[-1].messages[-1].content
    assert "- The mill key: Edda Linn has it; bent" in told
    assert "Edda Linn now: has promised Osk to be back by midnight" in told
    assert "Since then: the window is broken" in told

    scripted.enqueue(
        calls(
            "",
            noted(what="the mill key", place="The Mill"),
            noted(person="You", condition="promised to be back", over=True),
        ),
        "Done.",
        "It goes on.",
    )
    play(chapter)
    play(chapter)
    told = scripted.history[-1].messages[-1].content
    # The thing is at another place now.
    assert "The mill key" not in told
    assert "promised" not in told
    assert world_of(chapter).things["The mill key"].place == "The Mill"


def test_a_note_that_says_nothing_or_names_somebody_hidden_changes_nothing(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(
        calls(
            "",
            noted(),
            noted(what="A rope", condition="wet"),
            noted(what="A rope", holder="Marta Quill"),
            noted(person="the ringer", condition="hurt"),
            noted(condition="cold"),
        ),
        "Nothing.",
    )
    play(chapter)
    world = world_of(chapter)
    assert not world.things
    assert not any(person.conditions for person in world.people.values())
    assert not any(place.conditions for place in world.places.values())
    answers = results(scripted)
    assert len(answers) == 5
    assert all("changed" in one for one in answers)
    assert "Marta Quill is not known" in answers[2]


def test_people_come_and_go_in_sight_alone(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(
        calls("", goes("Osk", "the mill"), goes("Runa", "here"), goes("Marta Quill", "the mill")),
        "Osk leaves.",
    )
    play(chapter, "I ask Osk to fetch Runa.")
    world = world_of(chapter)
    assert (world.people["Osk"].location, world.people["Osk"].seen_at) == ("The Mill", "The Mill")
    assert ("system", "Osk goes to The Mill.") in events_of(chapter, 1)
    assert world.people["Marta Quill"].location == "The Landing"

    scripted.enqueue(calls("", goes("Runa", "The Ferry Inn")), "She comes in.", "She sits.")
    play(chapter)
    play(chapter)
    told = scripted.history[-1].messages[-1].content
    assert "- Runa: The miller." in told
    assert "- The Mill: Osk (The innkeeper, who counts everything twice), Ib" in told


def test_a_thing_keeps_its_name_and_stands_in_one_place(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(
        calls("", noted(what="The mill key", holder="You"), noted(what="The mill bell")),
        calls("", noted(what="the key", holder="Osk"), noted(what="the mill", over=True)),
        calls("", noted(what="The mill bell", place="behind the mill")),
        "Osk takes it.",
    )
    play(chapter)

    told = results(scripted)
    assert told[2] == "Noted: The mill key: Osk has it."
    # Two things here are called so.
    assert told[3].endswith("Those that are noted here: The mill key, The mill bell.")
    assert "one of these places: The Ferry Inn, The Landing, The Mill." in told[4]
    assert [one.holder for one in world_of(chapter).things.values()] == ["Osk", ""]


def test_of_things_and_people_elsewhere_the_narrator_is_told_what_the_words_need(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    locked = "hurt at the left hand and locked into the cellar until you open the door again"
    scripted.enqueue(
        calls(
            "",
            noted(what="The lantern", holder="Osk", state="lit"),
            noted(person="Osk", condition=locked),
            goes("Ib", "here"),
            move("The Mill"),
        ),
        "Flour.",
        "The wheel.",
        "Nobody has it.",
    )
    play(chapter)
    assert "Ib comes to The Ferry Inn." in [text for _, text in events_of(chapter, 1)]
    play(chapter)
    assert "THINGS" not in scripted.history[-1].messages[-1].content
    play(chapter, "Who has my lantern?")

    told = scripted.history[-1].messages[-1].content
    assert "THINGS ELSEWHERE:\n- The lantern: Osk has it; lit\n" in told
    assert locked in told
