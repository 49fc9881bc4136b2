"""An exploration survives its export and its import, alone and in its story, and a fork."""

import pytest

from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import begin, calls, discover, events_of, move, play, scripted, wait
from sessions.models import Session
from storyengine.api.tests.calling import RunJobs, address, call

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


@pytest.fixture
def played(scripted: ScriptedProvider, run_jobs: RunJobs) -> Session:
    """Return an exploration with a move, a meeting, and something that happened out of sight."""
    chapter = begin()
    scripted.enqueue(
        calls("", move("The Landing", "Osk")),
        calls("", discover("Marta Quill"), wait("Midnight", 12)),
        "Black water.",
        calls("", move("The Ferry Inn")),
        "The fire.",
    )
    play(chapter, "I go down.")
    play(chapter, "I go back.")
    scripted.enqueue("They quarrel about flour.")
    run_jobs()
    scripted.enqueue("It is late.")
    play(chapter, "")
    return chapter


def test_a_file_has_the_whole_exploration(played: Session, scripted: ScriptedProvider) -> None:
    document = call("GET", address(played, "export")).json()
    answer = call("POST", "/api/session/import", document)

    assert answer.status_code == 201, answer.content
    copy = Session.objects.get(pk=answer.json()["session_id"])
    for number in (1, 2, 3):
        assert worlds_are_alike(played, copy, number)
        assert events_of(copy, number) == events_of(played, number)
    assert (
        call("GET", address(copy, "scenario")).json()
        == call("GET", address(played, "scenario")).json()
    )
    # Play goes on in the copy, in its own world alone.
    scripted.enqueue(calls("", move("The Mill")), "Flour.")
    play(copy)
    assert call("GET", address(copy, "world")).json()["player_location"] == "The Mill"
    assert call("GET", address(played, "world")).json()["player_location"] == "The Ferry Inn"


def test_a_fork_has_the_world_of_its_turn(played: Session) -> None:
    answer = call("POST", address(played, "fork"), {"number": 1})

    assert answer.status_code == 201, answer.content
    copy = Session.objects.get(pk=answer.json()["session_id"])
    assert worlds_are_alike(played, copy, 1)
    assert call("GET", address(copy, "world")).json()["player_location"] == "The Landing"


def worlds_are_alike(one: Session, other: Session, number: int) -> bool:
    """Return whether the worlds after a turn are the same, except for the ids of what is known."""
    documents = [
        call("GET", address(chapter, f"world?turn={number}")).json() for chapter in (one, other)
    ]
    for document in documents:
        for person in document["characters"]:
            for known in person["knowledge"]:
                del known["id"]
    return bool(documents[0] == documents[1])
