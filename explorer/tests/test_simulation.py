"""What happens out of sight is worked out beside play, and the next turn takes it."""

import json
from dataclasses import replace

import pytest

from agents.llm.providers.base import ToolCall
from agents.llm.providers.failures.call_errors import ProviderUnreachable
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from explorer.tests.playing import (
    begin,
    calls,
    events_of,
    lived_through,
    move,
    play,
    scripted,
    wait,
    world_of,
)
from explorer.unseen import SIMULATION, find_unseen
from storyengine.api.tests.calling import RunJobs, address, call
from world.state import Person, Place, World

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


def unseen_world(ticks: int) -> World:
    people = [Person("You", location="Here", is_player=True)]
    people += [Person("Ann Bell", location="There", aliases=("the ringer",))]
    people += [Person("Ben Bell", location="There")]
    places = {name: Place(name) for name in ("Here", "There")}
    return World(places, {one.name: one for one in people}, tick=ticks)


@pytest.mark.parametrize(
    ("ticks", "threads", "found"),
    [
        (10, [], []),
        (11, [], [(False, 5)]),
        (20, [], [(False, 8)]),
        (21, [], [(True, 8)]),
        (5, ["Where is Ann?"], []),
        (6, ["Where is Ann?"], [(True, 3)]),
        (6, ["Where is Anna?"], []),
        (6, ["What does the ringer know?"], [(True, 3)]),
        # Two people have this name, so the thread names neither.
        (6, ["Where is Bell?"], []),
    ],
)
def test_the_ticks_decide_how_fully(
    ticks: int, threads: list[str], found: list[tuple[bool, int]]
) -> None:
    unseen = find_unseen(unseen_world(ticks), threads)
    assert [(one.is_full, one.exchanges) for one in unseen] == found


def test_talks_come_before_people_who_are_alone() -> None:
    world = unseen_world(40)
    lone = {name: Person(name, location=f"Loft of {name}") for name in ("Cy", "Di")}
    lofts = {one.location: Place(one.location) for one in lone.values()}
    places = {**lofts, **world.places, "There": Place("There", unseen_since=10)}
    unseen = find_unseen(replace(world, places=places, people={**world.people, **lone}), [])
    assert [(one.place, one.is_full) for one in unseen] == [("There", True), ("Loft of Cy", False)]


def report(**arguments: object) -> Script:
    call = ToolCall("r", "reportSimulation", json.dumps(arguments))
    return Script("", tool_calls=(call,))


def test_a_full_simulation_moves_people_and_teaches_its_witnesses(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Midnight", 30), move("The Landing")), "Black water.")
    play(chapter)
    scripted.enqueue(
        'RUNA: "Go." IB: "I go to the inn."',
        report(
            events=[
                {"description": "Runa sends Ib away.", "witnesses": ["Runa", "Ib", "Nobody"]},
                {"description": "A stranger sings.", "witnesses": ["Osk"]},
            ],
            movements=[
                {"character": "Ib", "destination": "the ferry inn"},
                {"character": "Osk", "destination": "The Mill"},
                {"character": "Runa", "destination": "The Moon"},
            ],
            learned=[{"who": "Ib", "what": "The wheel broke.", "source": "told", "from": "Runa"}],
        ),
    )
    assert run_jobs()
    requests = "".join(str(request.messages) for request in scripted.history[-2:])
    assert "MARKER" not in requests
    scripted.enqueue("Still dark.")
    play(chapter)

    world = world_of(chapter)
    assert world.people["Ib"].location == "The Ferry Inn"
    assert world.people["Osk"].location == "The Ferry Inn"
    known = [one.content for one in world.people["Ib"].knowledge]
    assert known == ["Runa sends Ib away.", "The wheel broke."]
    assert not world.people["Edda Linn"].knowledge


def test_after_another_reply_without_the_move_it_never_happened(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Late", 12), move("The Landing")), "Black water.")
    play(chapter)
    scripted.enqueue("They quarrel about flour.")
    assert run_jobs()
    scripted.enqueue("You stay.", "Still.")
    call("POST", address(chapter, "reroll"), {})
    play(chapter)

    assert not world_of(chapter).people["Ib"].knowledge


def test_a_failure_skips_the_place_and_says_so(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Late", 12), move("The Landing")), "Black water.")
    play(chapter)
    scripted.enqueue(ProviderUnreachable("gone"))
    run_jobs()
    assert Job.objects.get(kind=SIMULATION).status == Job.Status.DONE
    scripted.enqueue("Still.")
    play(chapter)

    lines = [text for role, text in events_of(chapter, 2) if role == "system"]
    assert lines == ["What happened at The Mill meanwhile could not be worked out."]


def test_a_result_of_another_form_does_not_stop_play(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Late", 12), move("The Landing")), "Black water.", "Still.")
    play(chapter)
    play(chapter)
    scripted.enqueue("They quarrel about flour.")
    run_jobs()
    # Another reply leaves the result for other attempts, which might be able to take it.
    Job.objects.filter(kind=SIMULATION).update(result={"places": [7]})
    scripted.enqueue(calls("", move("The Ferry Inn")), "The fire.")
    call("POST", address(chapter, "reroll"), {})
    assert world_of(chapter).player_location == "The Ferry Inn"


def test_who_is_alone_is_summed_up_and_time_counts_from_the_latest_arrival() -> None:
    world = unseen_world(40)
    alone = {**world.people, "Ben Bell": replace(world.people["Ben Bell"], location="Here")}
    [one] = find_unseen(replace(world, people=alone), ["Where is Ann?"])
    assert (one.is_full, one.ticks) == (False, 40)

    came = {**world.people, "Ben Bell": replace(world.people["Ben Bell"], arrived_at=25)}
    [one] = find_unseen(replace(world, people=came), [])
    assert (one.is_full, one.ticks) == (False, 15)


def test_a_return_after_long_works_out_within_the_move_what_happened(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(
        "Osk bolts the door of the cellar, and Ib is in it.",
        calls("You leave.", move("The Mill", time="Late evening")),
        "Flour hangs in the air.",
        calls("", wait("Midnight", 10)),
        "The wheel groans.",
    )
    for _ in range(3):
        play(chapter)
    before = len(scripted.history)
    scripted.enqueue(
        calls("", move("The Ferry Inn", time="Deep night")),
        lived_through("Osk has counted his cups twice."),
        "Osk looks up.",
    )
    play(chapter, "I go back to the inn.")

    asked, told = scripted.history[before + 1], scripted.history[before + 2].messages[-1].content
    out_of_sight = asked.messages[-1].content
    assert "PLACE: The Ferry Inn\nA low room full of wet coats." in out_of_sight
    assert "TIME: from Late evening to Deep night" in out_of_sight
    assert (
        'TOLD LAST ("you" is Edda Linn, who is not here):\n'
        "Osk bolts the door of the cellar, and Ib is in it.\nYou leave.\n"
    ) in out_of_sight
    # A summary sends nobody away.
    assert "AVAILABLE LOCATIONS" not in out_of_sight
    assert "Flour hangs" not in out_of_sight
    assert told.endswith("Since you left: Osk has counted his cups twice.")
    world = world_of(chapter)
    happened = "Osk has counted his cups twice."
    assert happened in [one.content for one in world.people["Osk"].came_to_know]
    # Another attempt with the same place, people and time takes what was worked out.
    before = len(scripted.history)
    scripted.enqueue(calls("", move("The Ferry Inn", time="Deep night")), "Osk turns round.")
    call("POST", address(chapter, "reroll"), {})
    assert len(scripted.history) == before + 2
    assert scripted.history[-1].messages[-1].content.endswith(happened)
    assert happened in [one.content for one in world_of(chapter).people["Osk"].came_to_know]


def test_a_talk_knows_what_somebody_was_sent_with(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    scripted.enqueue(
        calls(
            'Osk hears you out. "The chain is cut," he says. "I tell Runa."',
            ("personGoes", {"name": "Osk", "to": "The Mill"}),
        ),
        "Only you hear the clock strike.",
        calls("", move("The Landing")),
        "Black water.",
        calls("", wait("Midnight", 30)),
        "It strikes twelve.",
    )
    for _ in range(3):
        play(chapter)
    scripted.enqueue('OSK: "The chain is cut."', report())
    run_jobs()

    talk = next(one for one in scripted.history if "EXCHANGES:" in one.messages[-1].content)
    asked = talk.messages[-1].content
    assert "PLACE: The Mill" in asked
    assert '[at The Ferry Inn, with Osk] Osk hears you out. "The chain is cut," he says.' in asked
    assert "Black water" not in asked
    assert "It strikes twelve" not in asked


def test_a_return_without_an_answer_or_to_somebody_hidden_tells_nothing(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Late", 10)), "You wait.")
    play(chapter)
    scripted.enqueue(
        calls("", move("The Landing")),
        lived_through("Marta Quill rings three times."),
        calls("", move("The Mill")),
        ProviderUnreachable("gone"),
        "Nobody has moved.",
    )
    play(chapter)
    results = [one.content for one in scripted.history[-1].messages if one.role == "tool"]
    assert len(results) == 2
    assert not any("Since" in one or "Meanwhile" in one or "Marta" in one for one in results)
    assert world_of(chapter).player_location == "The Mill"


def called(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def test_a_refusal_of_a_model_does_not_happen_in_the_world(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    refusal = "I'm sorry, but I can't assist with that request."
    chapter = begin()
    scripted.enqueue(calls("", wait("Late", 12), move("The Landing")), "Black water.")
    play(chapter)
    scripted.enqueue(refusal)
    assert run_jobs()
    assert Job.objects.get(kind=SIMULATION).result == {"places": [], "skipped": ["The Mill"]}
    # It tells nothing within a move either.
    scripted.enqueue(
        calls("", wait("Night", 12), move("The Ferry Inn")), lived_through(refusal), "The fire."
    )
    play(chapter)
    assert refusal not in str(scripted.history[-1].messages)
    world = world_of(chapter)
    assert world.player_location == "The Ferry Inn"
    assert not any("assist" in one.description for one in world.happenings)
