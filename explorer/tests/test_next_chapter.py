"""What the next chapter's Tab 1 has from the chapter before, and what becomes of it there."""

from typing import Any

import pytest
from django.test import Client

from agents.flows.beginning.next_chapter import begin_next
from agents.llm.providers.scripted import ScriptedProvider
from explorer.setup import exploration_of
from explorer.tests.playing import TAVERN, begin, calls, move, play, scripted, world_of
from explorer.tests.test_notes import noted
from sessions.models import Session, State
from storyengine.api.tests.calling import address, call

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]

TIED = TAVERN | {
    "people": [
        TAVERN["people"][0] | {"relationships": [{"name": "Ib", "description": "Feeds him."}]},
        *TAVERN["people"][1:],
    ]
}


@pytest.fixture
def ended(scripted: ScriptedProvider) -> Session:
    chapter = begin(TIED)
    scripted.enqueue(
        calls(
            "",
            noted(what="A knife", holder="Osk"),
            noted(person="Osk", condition="limps"),
            noted(place="here", condition="the window is broken"),
        ),
        "He limps.",
        calls("", move("The Mill")),
        "You are there.",
    )
    play(chapter)
    play(chapter)
    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
    return Session.objects.get(pk=chapter.pk)


def following(ended: Session) -> Session:
    return begin_next(ended.story_id)


def save(chapter: Session, change: Any) -> None:
    setup = call("GET", address(chapter, "setup")).json()
    change(setup)
    assert call("PUT", address(chapter, "setup"), setup).status_code == 200


def test_goals_knowledge_and_ties_stand_on_tab_1(client: Client, ended: Session) -> None:
    chapter = following(ended)
    osk = exploration_of(chapter).people[0]
    assert osk.goals == TAVERN["people"][0]["goals"]
    assert [(one.content, one.is_kept) for one in osk.knowledge] == [
        ("The ferry left with two lanterns.", True)
    ]
    assert [(one.name, one.description) for one in osk.relationships] == [("Ib", "Feeds him.")]
    assert exploration_of(chapter).places[0].ways == ["The Mill"]
    html = client.get(f"/chapters/{chapter.pk}/world").content.decode()
    assert "The ferry left with two lanterns." in html


def test_unchanged_it_is_the_same_world_and_nothing_is_doubled(ended: Session) -> None:
    chapter = following(ended)
    before, after = world_of(ended), world_of(chapter)
    assert after == before
    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
    assert world_of(following(chapter)) == before


def test_a_renamed_person_keeps_everything(ended: Session) -> None:
    chapter = following(ended)
    saved = f"/chapters/{chapter.pk}/world/save"
    names = {"setup.people.0.name": "Oskar", "setup.places.0.name": "The Old Inn"}
    assert Client().post(saved, names).status_code == 302
    before, after = world_of(ended), world_of(chapter)
    osk, oskar = before.people["Osk"], after.people["Oskar"]
    assert "Osk" not in after.people
    assert oskar.knowledge == osk.knowledge
    assert oskar.relationships == osk.relationships
    assert (oskar.conditions, oskar.seen_at) == (osk.conditions, "The Old Inn")
    assert after.things["A knife"].holder == "Oskar"
    assert after.places["The Old Inn"].conditions == before.places["The Ferry Inn"].conditions
    assert after.places["The Mill"].ways == ("The Old Inn",)


def test_what_is_taken_off_tab_1_is_forgotten(ended: Session) -> None:
    chapter = following(ended)
    save(chapter, lambda setup: setup["people"][0].update(knowledge=[], relationships=[]))
    osk = world_of(chapter).people["Osk"]
    assert (osk.knowledge, osk.relationships) == ((), {})
    assert [one.text for one in osk.conditions] == ["limps"]


def test_the_narrator_reads_what_the_chapter_is_about(
    ended: Session, scripted: ScriptedProvider
) -> None:
    chapter = following(ended)
    save(chapter, lambda setup: setup.update(about="Who cut the chain?"))
    call("POST", address(chapter, "lock"))
    scripted.enqueue("You wake.")
    play(Session.objects.get(pk=chapter.pk))
    assert "Who cut the chain?" in scripted.history[-1].messages[0].content
