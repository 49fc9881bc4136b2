"""What happens out of sight is worked out beside play, and the next turn takes it."""

import json
from dataclasses import replace

import pytest

from agents.models import Job
from agents.providers.base import ToolCall
from agents.providers.exceptions import ProviderUnreachable
from agents.providers.scripted import Script, ScriptedProvider
from explorer.simulation import SIMULATION, SUMMARY_AGENT, find_unseen
from explorer.tests.playing import begin, calls, events_of, move, play, scripted, wait, world_of
from sessions.models import Session
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


def test_at_most_two_places_and_the_longest_unseen_first() -> None:
    world = unseen_world(40)
    places = dict(world.places)
    people = dict(world.people)
    for at, name in enumerate(("Mill", "Inn")):
        places[name] = Place(name, unseen_since=at + 1)
        for who in ("A", "B"):
            people[name + who] = Person(name + who, location=name)
    unseen = find_unseen(replace(world, places=places, people=people), [])
    assert [one.place for one in unseen] == ["There", "Mill"]


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


def test_what_waits_to_be_taken_is_not_worked_out_again(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", wait("Late", 12), move("The Landing")), "Black water.")
    play(chapter)
    # The player is quicker than the worker.
    scripted.enqueue(calls("", move("The Ferry Inn")), "The fire.")
    play(chapter)
    assert Job.objects.filter(kind=SIMULATION).count() == 1
    scripted.enqueue("They quarrel about flour.")
    run_jobs()
    # What is long enough after it is worked out by a job of its own.
    scripted.enqueue(calls("", wait("Later", 12), move("The Landing")), "Black water.")
    play(chapter)
    assert Job.objects.filter(kind=SIMULATION).count() == 2


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


def test_the_model_that_the_chapter_has_chosen_works_it_out(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = begin()
    own = {SUMMARY_AGENT.model_setting: {"max_output_tokens": 300}}
    Session.objects.filter(pk=chapter.pk).update(model_settings=own)
    scripted.enqueue(calls("", wait("Late", 12), move("The Landing")), "Black water.")
    play(chapter)
    scripted.enqueue("They quarrel about flour.")
    run_jobs()
    assert scripted.history[-1].max_output_tokens < 4_000
