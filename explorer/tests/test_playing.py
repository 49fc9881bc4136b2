"""An exploration is played through the API, with a scripted narrator."""

import pytest

from agents.providers.scripted import Script, ScriptedProvider
from explorer.tests.playing import (
    begin,
    calls,
    discover,
    events_of,
    move,
    play,
    scripted,
    wait,
    world_of,
)
from memory.models import MemoryBlock
from storyengine.api.tests.calling import address, call

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


def test_the_lock_calls_no_model_and_tells_no_secret(scripted: ScriptedProvider) -> None:
    chapter = begin()

    assert not scripted.history
    assert (chapter.state, chapter.title) == ("ACTIVE", "The Last Ferry")
    told = str(MemoryBlock.objects.get(session=chapter).json_payload)
    assert "Osk" in told
    assert "Marta" not in told
    assert "MARKER" not in told
    assert [one.name for one in chapter.everybody] == ["Edda Linn", "Osk", "Ib", "Runa"]


def test_a_move_changes_the_place_and_the_clock(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", move("the landing", "Osk")), "The bell hangs still.")

    play(chapter, "I go down to the landing with Osk.")

    world = world_of(chapter)
    assert (world.player_location, world.tick, world.narrative_time) == ("The Landing", 6, "Night")
    assert world.people["Osk"].location == "The Landing"
    assert events_of(chapter, 1) == [
        ("user", "I go down to the landing with Osk."),
        ("system", "You go to The Landing with Osk. Night."),
        ("agent", "The bell hangs still."),
    ]


def test_the_second_step_is_told_the_new_world(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", move("The Landing")), "Black water.")

    play(chapter)

    first, second = (request.messages[1].content for request in scripted.history)
    assert "CURRENT LOCATION: The Ferry Inn" in first
    assert "CURRENT LOCATION: The Landing" in second
    assert "HIDDEN" not in first
    assert "Marta Quill" in second


def test_somebody_hidden_is_discovered_by_a_tool_or_by_the_text(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(
        calls("", discover("Marta Quill")),
        "Nobody answers.",
        calls("", move("The Landing")),
        "A woman stands at the bell, the ringer of this place.",
    )

    play(chapter, "I call for Marta.")
    assert not world_of(chapter).people["Marta Quill"].is_discovered
    play(chapter)

    assert world_of(chapter).people["Marta Quill"].is_discovered
    assert ("system", "You meet Marta Quill.") in events_of(chapter, 2)


def test_time_passes_and_words_take_a_tick(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Deep night", 30)), "The fire is low.", "Still nothing.")

    play(chapter, "I wait.")
    assert world_of(chapter).tick == 31
    play(chapter, "")

    assert (world_of(chapter).tick, world_of(chapter).narrative_time) == (31, "Deep night")


def test_another_reply_takes_the_move_back(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", move("The Mill")), "The wheel turns.", "You stay by the fire.")
    play(chapter, "I go.")
    assert world_of(chapter).player_location == "The Mill"

    call("POST", address(chapter, "reroll"), {})

    world = world_of(chapter)
    assert (world.player_location, world.tick) == ("The Ferry Inn", 1)


def test_a_turn_without_a_word_fails_and_changes_nothing(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", move("The Mill")), Script(" "))

    answer = call("POST", address(chapter, "prompt"), {"user_text": "I go."})

    assert answer.status_code == 502
    assert world_of(chapter).player_location == "The Ferry Inn"
