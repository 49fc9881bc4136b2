"""An exploration is played through the API, with a scripted narrator."""

import json
from uuid import UUID

import pytest

from agents.calling.model_access import AgentModel
from agents.llm.providers.base import ToolCall
from agents.llm.providers.scripted import Script, ScriptedProvider
from explorer.tests.playing import (
    TAVERN,
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
from sessions.models import Attempt, Session
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


@pytest.mark.parametrize(
    ("name", "text", "is_met"),
    [
        ("李梅", "帘子动了一下，李梅走了出来。", True),  # noqa: RUF001
        ("Will", "Will you sit? She waits.", False),
        ("Will", "Somebody laughs. It is Will.", True),
        ("Marta", "Marta Quill nods.", False),
    ],
)
def test_somebody_hidden_is_met_where_the_text_names_nobody_else(
    scripted: ScriptedProvider, name: str, text: str, is_met: bool
) -> None:
    hidden = {"name": name, "is_discovered": False}
    chapter = begin({**TAVERN, "people": [hidden, {"name": "Marta Quill"}]})
    scripted.enqueue(text)
    play(chapter)
    assert world_of(chapter).people[name].is_discovered is is_met


def test_a_turn_without_a_word_fails_and_changes_nothing(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", move("The Mill")), Script(" "))

    answer = call("POST", address(chapter, "prompt"), {"user_text": "I go."})

    assert answer.status_code == 502
    assert world_of(chapter).player_location == "The Ferry Inn"


def resolved(place: str | None, name: str, confidence: float) -> Script:
    """Return the answer to the question which place is meant."""
    arguments = {"matchedClusterId": place, "canonicalName": name, "confidence": confidence}
    return Script("", tool_calls=(ToolCall("r", "resolveLocation", json.dumps(arguments)),))


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        (resolved("place-2", "The Landing", 0.9), "The Landing"),
        (resolved("place-2", "The Landing", 0.6), "The Landing"),
        (resolved("place-2", "Old Quay", 0.59), "Old Quay"),
        (resolved(None, "The Cellar", 0.9), "The Cellar"),
        (Script("I cannot tell."), "Jetty Old River"),
    ],
)
def test_a_model_says_which_place_is_meant(
    scripted: ScriptedProvider, answer: Script, place: str
) -> None:
    chapter = begin()
    again = [answer] if not answer.tool_calls else []
    scripted.enqueue(
        calls("", move("the jetty by the old river")), answer, *again, "Here.", "There."
    )

    play(chapter)

    assert world_of(chapter).player_location == place


def test_lines_stand_between_the_paragraphs(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(
        calls("You open the door.", move("The Landing")),
        calls("The cold takes your breath.", discover("Marta Quill")),
        "She nods.",
    )

    play(chapter)

    assert [text for _, text in events_of(chapter, 1)[1:]] == [
        "You open the door.",
        "You go to The Landing. Night.",
        "The cold takes your breath.",
        "You meet Marta Quill.",
        "She nods.",
    ]


def test_the_world_is_told_as_json_now_and_after_a_turn(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue("A fire.", calls("", move("The Mill")), "Flour.")
    play(chapter)
    play(chapter)

    now = call("GET", address(chapter, "world")).json()
    before = call("GET", address(chapter, "world") + "?turn=1").json()

    assert (now["player_location"], now["tick"]) == ("The Mill", 7)
    assert (before["player_location"], before["tick"]) == ("The Ferry Inn", 1)
    assert now.keys() == {
        *("tick", "narrative_time", "player_location", "locations", "characters", "events"),
        "things",
    }
    [osk] = [one for one in now["characters"] if one["name"] == "Osk"]
    assert osk["knowledge"] == [
        {
            "id": "start.Osk.0",
            "content": "The ferry left with two lanterns.",
            "acquired_at": 0,
            "is_kept": True,
            "source": "witnessed",
            "source_character": "",
        }
    ]
    people = ("location", "is_discovered", "is_player", "knowledge", "relationships")
    assert all(one.keys() >= {"name", *people} for one in now["characters"])
    assert now["events"] == [
        {
            "description": "Edda Linn goes to The Mill.",
            "tick": 7,
            "location": "The Mill",
            "witnesses": ["Edda Linn", "Osk", "Ib", "Runa"],
        }
    ]
    first = call("GET", address(chapter, "world") + "?turn=0").json()
    assert (first["player_location"], first["tick"], first["events"]) == ("The Ferry Inn", 0, [])
    for turn in ("-1", "3"):
        assert call("GET", address(chapter, "world") + f"?turn={turn}").status_code == 404
    assert {one["name"] for one in now["characters"]} >= {"Marta Quill", "Edda Linn"}


def test_a_secret_stands_in_no_prompt_while_its_holder_is_elsewhere(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(
        "A fire.", calls("", move("The Landing")), calls("", discover("the ringer")), "Marta."
    )
    play(chapter)
    play(chapter)

    with_secret = ["MARKER" in str(request.messages) for request in scripted.history]
    assert with_secret == [False, False, False, True]


def test_an_edit_changes_the_whole_reply_and_leaves_the_lines_between(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(
        calls("You open the door.", move("The Landing")),
        calls("The cold takes your breath.\n\nYou wait.", discover("Marta Quill")),
        "She nods.",
    )
    play(chapter)
    world = world_of(chapter)

    for text, told in [
        (
            "A door.\n\nCold.\n\nWaiting.\n\nA nod.\n\nAnother.",
            ["A door.", LINE, "Cold.\n\nWaiting.", MEETING, "A nod.\n\nAnother."],
        ),
        ("A door.\n\nCold.", ["A door.", LINE, "Cold.", MEETING]),
        ("Nothing but this.", ["Nothing but this.", LINE, MEETING]),
    ]:
        answer = call("POST", address(chapter, "turns/1/edit"), {"text": text})
        assert answer.status_code == 201, answer.content
        assert [text for _, text in events_of(chapter, 1)[1:]] == told
    assert world_of(chapter) == world


LINE, MEETING = "You go to The Landing. Night.", "You meet Marta Quill."


def test_people_can_be_met_when_the_cast_is_full(
    scripted: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.tools.MAX_PEOPLE_IN_PLAY", 1)
    monkeypatch.setattr("sessions.play.played_world.MAX_PEOPLE_IN_PLAY", 1)
    chapter = begin()
    scripted.enqueue(
        calls("", discover("Guard"), discover("Child"), move("The Landing")),
        "The ringer is here.",
    )

    play(chapter)

    assert {"Guard", "Child", "Marta Quill"} <= {
        one.name for one in world_of(chapter).people.values() if one.is_discovered
    }
    assert [one["name"] for one in chapter.people_in_play()] == ["Guard"]


def test_a_trial_has_a_world_of_its_own_which_its_adoption_brings(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin()
    scripted.enqueue(calls("", move("The Mill")), "Flour.")
    play(chapter)
    tried = call("GET", address(chapter, "trial")).json()
    role = next(one for one in tried["layers"] if one["name"] == "YOUR_ROLE")
    scripted.enqueue(calls("", move("The Landing"), discover("the ringer")), "Black water.")

    body = {"layer": role["number"], "text": "Be brief.", "call_id": tried["call_id"]}
    trial = call("POST", address(chapter, "trial"), body, Prefer="wait=20").json()
    assert trial["status"] == "done", trial
    assert world_of(chapter).player_location == "The Mill"
    adopted = call("POST", address(chapter, f"trial/{trial['trial_id']}/adopt"))
    assert adopted.status_code == 201, adopted.content

    world = world_of(chapter)
    assert (world.player_location, world.tick) == ("The Landing", 6)
    assert world.people["Marta Quill"].is_discovered


@pytest.mark.parametrize("chance", [None, 0, 0.5, 1])
def test_a_chance_decides_whether_somebody_hidden_is_offered(
    scripted: ScriptedProvider, chance: float | None
) -> None:
    marta = {"name": "Marta Quill", "is_discovered": False, "encounter_chance": chance}
    chapter = begin({**TAVERN, "people": [marta]})
    # The draws of this test are the same in each run.
    Session.objects.filter(pk=chapter.pk).update(seed=SEED)
    offered = []
    for number in range(1, 6):
        scripted.enqueue("Quiet.", calls("", move("The Mill"), move("The Ferry Inn")), "Quiet.")
        play(chapter)
        call("POST", address(chapter, "reroll"), {})
        first, again, last = scripted.history[-3:]
        in_prompt = "HIDDEN (" in first.messages[1].content
        assert ("HIDDEN (" in again.messages[1].content) is in_prompt
        assert ("HIDDEN (" in last.messages[1].content) is in_prompt
        # No result names somebody hidden.
        told = [one.content for one in last.messages if one.role == "tool"]
        assert not any("Marta" in one for one in told)
        offered.append(in_prompt)
        assert world_of(chapter).tick == number * 11

    assert offered == (DRAWN if chance == 0.5 else [chance != 0] * 5)
    # The tool goes by the same draw.
    scripted.enqueue(calls("", discover("Marta Quill")), "Quiet.")
    play(chapter)
    is_offered = "HIDDEN (" in scripted.history[-2].messages[1].content
    assert world_of(chapter).people["Marta Quill"].is_discovered is is_offered
    assert len(world_of(chapter).people) == 2


# A seed of a chapter, and whether somebody with the chance 0.5 is offered in its first five turns.
SEED, DRAWN = UUID(int=2), [True, True, False, True, False]


def tool_results(provider: ScriptedProvider) -> list[str]:
    """Return what the tools said of the calls of the latest turn."""
    return [one.content for one in provider.history[-1].messages if one.role == "tool"]


BRANDTS = {
    **TAVERN,
    "people": [
        {"name": "Osk Brandt"},
        {"name": "Pia Brandt"},
        {"name": "Marta Quill", "location": "The Landing", "is_discovered": False},
        {"name": "Rusk", "location": "The Mill", "is_discovered": False, "aliases": ["the guard"]},
    ],
}


def test_somebody_hidden_elsewhere_is_refused_without_a_further_name(
    scripted: ScriptedProvider,
) -> None:
    chapter = begin(BRANDTS)
    scripted.enqueue(calls("", discover("the guard")), "Nobody answers.")

    play(chapter)

    [told] = tool_results(scripted)
    assert told.startswith("the guard is not to be found here")
    assert "Rusk" not in str(scripted.history[-1].messages)
    assert len(world_of(chapter).people) == 5


class TestAnAnswerThatDeclines:
    """A narrator that declines as a program tells nothing of the story."""

    REFUSAL = "I'm sorry, but I cannot continue this story as it violates my guidelines."

    @pytest.mark.parametrize("is_small", [True, False])
    def test_the_attempt_fails_then_and_changes_nothing(
        self, scripted: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, is_small: bool
    ) -> None:
        monkeypatch.setattr(AgentModel, "is_small", is_small)
        chapter = begin()
        before = world_of(chapter).player_location
        scripted.enqueue(*[self.REFUSAL] * (2 if is_small else 1))
        scripted.enqueue(calls("", move("the landing")), self.REFUSAL)
        for _ in range(2):
            answer = call("POST", address(chapter, "prompt"), {"user_text": "I go down."})
            assert answer.status_code == 502
            failed = chapter.attempts.order_by("submitted_at").last()
            assert failed is not None
            assert (failed.status, failed.partial_text) == (Attempt.Status.FAILED, "")
        assert world_of(chapter).player_location == before


def test_a_name_that_two_people_share_is_nobodys(scripted: ScriptedProvider) -> None:
    chapter = begin(BRANDTS)
    scripted.enqueue(calls("", move("The Mill", "Brandt", "Nobody")), "Flour.")

    play(chapter)

    assert world_of(chapter).people["Osk Brandt"].location == "The Ferry Inn"
    [told] = tool_results(scripted)
    assert "Not here, so they did not come along: Brandt, Nobody." in told


def test_time_passes_by_1_to_1000_ticks(scripted: ScriptedProvider) -> None:
    chapter = begin()
    waits = [wait(f"Hour {ticks}", ticks) for ticks in (0, 1_001, -1, 1, 1_000)]
    scripted.enqueue(calls("", *waits), "Snow.")

    play(chapter)

    refused = [one.startswith("It was not run") for one in tool_results(scripted)]
    assert refused == [True, True, True, False, False]
    assert world_of(chapter).tick == 1 + 1 + 1_000


def test_a_place_is_nobody_to_be_discovered(scripted: ScriptedProvider) -> None:
    chapter = begin()
    scripted.enqueue(calls("", discover("the landing")), "Nobody answers.")

    play(chapter, "I look for the landing.")

    assert "the landing" not in world_of(chapter).people
    assert "The Landing is a place" in scripted.history[1].messages[-1].content
