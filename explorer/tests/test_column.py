"""The column beside an exploration: what the player has, owes and knows of places and people."""

import re

import pytest
from django.test import Client

from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import begin, calls, move, play, scripted, world_of
from explorer.tests.test_notes import goes, noted
from explorer.view import PlayersView
from sessions.models import Session
from storyengine.tabs.tests.reading import all_of, get_page

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


@pytest.fixture
def chapter(scripted: ScriptedProvider) -> Session:
    """An exploration in which the first prompt notes things, and in the second Osk leaves."""
    chapter = begin()
    scripted.enqueue(
        calls(
            "",
            noted(what="The mill key", holder="you", state="bent"),
            noted(what="The lantern", place="here", state="still burning"),
            noted(what="A knife", holder="Osk"),
            noted(what="MARKER-ELSEWHERE", place="The Mill"),
            noted(person="You", condition="has promised Osk to be back"),
            noted(person="Osk", condition="limps"),
            noted(place="here", condition="the window is broken"),
        ),
        "He lets you go.",
        "He waits.",
    )
    play(chapter, "I take the key.")
    play(chapter)
    return chapter


def test_it_shows_what_was_noted_with_the_prompt_that_made_it(
    client: Client, chapter: Session
) -> None:
    html = get_page(client, chapter, "play")
    column = re.sub(r"\s+", " ", " ".join(one.words for one in all_of(html, "div", "view")))
    for told in (
        "You have The mill key: bent 1",
        "has promised Osk to be back 1",
        "The lantern: still burning 1",
        "the window is broken 1",
        "A knife 1",
        "limps 1",
    ):
        assert told in column, column
    assert "MARKER-ELSEWHERE" not in html
    links = {one.attributes["href"] for one in all_of(html, "a", "made-by")}
    assert links == {f"/chapters/{chapter.pk}/turns/1"}


def test_people_are_where_the_player_last_saw_them(
    client: Client, chapter: Session, scripted: ScriptedProvider
) -> None:
    scripted.enqueue(calls("", goes("Osk", "The Landing")), "He goes.")
    play(chapter)
    scripted.enqueue(calls("", move("The Mill")), "You are there.")
    play(chapter)
    view = PlayersView(world_of(chapter), chapter)
    assert {one.name: one.people for one in view.places} == {
        "The Ferry Inn": "",
        "The Landing": "Osk",
    }
    drawn = {one.name: one.people for one in view.map.circles}
    assert drawn == {"The Ferry Inn": (), "The Landing": ("Osk",), "The Mill": ("Ib", "Runa")}
    # Where one has gone, a way is drawn.
    assert len(view.map.lines) == 1
    html = get_page(client, chapter, "play")
    assert html.count('data-suggests="I go to The Landing."') == 2
    assert 'data-suggests="I go to The Mill."' not in html
    assert "style=" not in html[html.index('<svg class="map"') :].split("</svg>")[0]
