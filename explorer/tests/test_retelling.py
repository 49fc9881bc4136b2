"""An exploration becomes a story of the player's person, and the next chapter begins with its
world."""

import json
import re
from typing import Any

import pytest

from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import answer_in_form, turn_delta
from explorer.tests.playing import begin, calls, discover, move, play, scripted, wait, world_of
from sessions.models import Session
from storyengine.api.tests.calling import RunJobs, address, call

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


@pytest.fixture
def ended(scripted: ScriptedProvider, run_jobs: RunJobs) -> Session:
    """Return an ended exploration: at night at the landing, with Osk and Marta, after a new place
    was found. Memory wrote down what somebody learned, and that waits to be taken."""
    chapter = begin()
    told = [{"who": "Osk", "what": "Edda is afraid.", "source": "told", "from": "Edda Linn"}]
    tied = [{"who": "Osk", "name": "Edda Linn", "description": "He pities her."}]

    cut = [{"place": "The Landing", "condition": "the rope is cut", "at": [2]}]

    def answer(request: ModelRequest) -> str:
        if "turn_delta" in request.messages[0].content:
            found = {"learned": told, "relationships": tied, "conditions": cut}
            return json.dumps(turn_delta(1, 3, **found))
        return answer_in_form(request)

    scripted.fallback = answer
    resolved = calls("", ("resolveLocation", {"canonicalName": "The Cellar", "confidence": 0.9}))
    scripted.enqueue(
        calls("", move("the cellar"), move("The Ferry Inn")),
        resolved,
        "Barrels. You go up again.",
        calls("You take your coat.", move("The Landing", "Osk"), discover("the ringer")),
        calls("", wait("Midnight", 3)),
        "Black water. She nods.",
        "Still.",
    )
    play(chapter, "I look into the cellar.")
    play(chapter, "I go down with Osk.")
    play(chapter, "")
    call("POST", address(chapter, "end"))
    run_jobs()
    return Session.objects.get(pk=chapter.pk)


def test_the_story_is_one_of_the_players_person_without_tools_and_ticks(
    ended: Session, scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    remembered = next(one for one in scripted.history if "turn_delta" in one.messages[0].content)
    before = len(scripted.history)
    call("POST", address(ended, "build-narrative"))
    run_jobs()

    assert call("GET", address(ended)).json()["narrative_drafts"]
    told = scripted.history[before]
    for request in (remembered, told):
        asked = "\n".join(message.content for message in request.messages)
        assert '"I" is Edda Linn' in asked
        assert '"you" is Edda Linn' in asked
        assert not re.search(r"moveToLocation|advanceTime|discoverCharacter|\btick", asked)
        # What the player never heard is in no request either.
        assert "MARKER" not in asked
    assert "The story of Edda Linn" in told.messages[0].content
    assert "Black water. She nods." in told.messages[1].content


def test_the_next_chapter_begins_with_this_ones_world(
    ended: Session, scripted: ScriptedProvider
) -> None:
    begun = call("POST", f"/api/story/{ended.story_id}/chapter").json()
    following = Session.objects.get(pk=begun["session_id"])
    assert following.mode == "explorer"
    assert call("POST", address(following, "lock")).status_code in (200, 202)

    before, after = world_of(ended), world_of(following)
    assert (after.tick, after.narrative_time) == (before.tick, "Midnight")
    assert list(after.places) == list(before.places)
    assert "The Cellar" in after.places
    landing = after.places["The Landing"]
    assert set(landing.ways) == set(before.places["The Landing"].ways) == {"The Ferry Inn"}
    # Memory told it too late for the chapter before.
    assert [one.text for one in landing.conditions] == ["the rope is cut"]
    assert {name: one.location for name, one in after.people.items()} == {
        name: one.location for name, one in before.people.items()
    }
    assert met(after.people) == met(before.people) >= {"Marta Quill"}
    # Also what waited to be taken when the chapter ended.
    osk = after.people["Osk"]
    assert "Edda is afraid." in [one.content for one in osk.knowledge]
    assert osk.relationships["Edda Linn"] == "He pities her."
    assert "MARKER-TOMAS-LIVES" in [one.content for one in after.people["Marta Quill"].knowledge]
    happened = {one.description for one in before.happenings}
    assert happened <= {one.description for one in after.happenings}

    scripted.enqueue("You wake.")
    play(Session.objects.get(pk=following.pk), "I open my eyes.")
    asked = scripted.history[-1].messages[1].content
    assert "CURRENT LOCATION: The Landing" in asked
    assert f"TIME: Midnight (tick {before.tick + 1})" in asked
    assert "Edda is afraid." in asked


def met(people: Any) -> set[str]:
    return {name for name, one in people.items() if one.is_discovered}
