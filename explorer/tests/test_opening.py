"""An exploration opens with a written turn, and with what the player could do first."""

from typing import Any

import pytest
from django.test import Client

from agents.llm.providers.scripted import ScriptedProvider
from agents.models import AdmittedCall
from explorer.ready import ready_scenarios
from explorer.setup import exploration_of
from explorer.tests.playing import TAVERN, begin, events_of, play, scripted, world_of
from sessions.models import Session
from storyengine.api.tests.calling import address, call
from storyengine.tabs.tests.reading import all_of, by_id, get_page

__all__ = ["scripted"]
pytestmark = pytest.mark.django_db

OPENING = "The rain has put its whole weight on the roof.\n\nNobody talks over it."
OPENED = TAVERN | {"opening": OPENING, "deeds": ["I wait.", "I ask <Osk> for a room."]}


@pytest.fixture
def chapter(scripted: ScriptedProvider) -> Session:
    return begin(OPENED)


def test_the_opening_is_the_first_turn_and_no_model_wrote_it(chapter: Session) -> None:
    assert chapter.prompt_index == 1
    assert [text for _, text in events_of(chapter, 1)] == [OPENING]
    [attempt] = call("GET", address(chapter, "turns/1")).json()["attempts"]
    assert (attempt["words"], attempt["came_with_starter"]) == ("", True)
    assert world_of(chapter).tick == 0
    assert not AdmittedCall.objects.exists()


def test_the_narrator_reads_it_as_what_was_told(
    chapter: Session, scripted: ScriptedProvider
) -> None:
    scripted.enqueue("He nods.")
    assert play(chapter)["prompt_index"] == 2
    sent = "\n".join(message.content for message in scripted.history[-1].messages)
    assert "Nobody talks over it." in sent


def test_the_first_deeds_are_offered_under_the_opening_alone(
    client: Client, chapter: Session, scripted: ScriptedProvider
) -> None:
    html = get_page(client, chapter, "play")
    assert TAVERN["description"] in html
    deeds = [one for one in all_of(html, "button") if one.attributes.get("name") == "words"]
    assert [one.words for one in deeds] == ["I wait.", "I ask <Osk> for a room."]
    assert [one.attributes["data-suggests"] for one in deeds] == [one.words for one in deeds]
    # Without scripts a button asks for the page with its words in the box.
    again = get_page(client, chapter, "play", words=deeds[1].attributes["value"])
    assert by_id(again, "prompt-text").text.strip() == "I ask <Osk> for a room."
    scripted.enqueue("He nods.")
    play(chapter)
    assert 'data-suggests="I wait."' not in get_page(client, chapter, "play")


def test_no_file_has_the_number_of_a_turn_without_words(client: Client, chapter: Session) -> None:
    for extension in ("txt", "md"):
        where = f"/chapters/{chapter.pk}/downloads/transcript?format={extension}"
        answer = client.get(where)
        assert answer.status_code == 200, where
        text = answer.content.decode()
        assert "whole weight" in text
        assert "1)" not in text


@pytest.mark.parametrize("ready", ready_scenarios(), ids=lambda one: one.name)
def test_finished_worlds_open_with_words_that_reveal_nobody_hidden(ready: Any) -> None:
    setup = ready.setup
    assert 90 <= len(setup.opening.split()) <= 150
    assert 2 <= len(setup.deeds) <= 3
    assert all(one.pronouns for one in setup.people)
    assert any(place.ways for place in setup.places)
    told = " ".join([setup.opening, *setup.deeds])
    hidden = [
        name for one in setup.people if not one.is_discovered for name in (one.name, *one.aliases)
    ]
    assert not any(name in told for name in hidden)


class TestWhoYouAre:
    def begin(self, client: Client, **fields: str) -> Session:
        answer = client.post("/modes/explorer/begin/last-ferry", fields)
        assert answer.status_code == 302, answer.content
        return Session.objects.get()

    def test_it_fills_who_the_user_is(self, client: Client) -> None:
        told = {
            "name": "Edda Linn",
            "pronouns": "she/her",
            "seen_as": "Wet to the knees.",
            "description": "Looks for her brother.",
        }
        chapter = self.begin(client, **told)
        assert exploration_of(chapter).persona.model_dump() == told
        assert chapter.character(1).name == "Edda Linn"

    def test_a_name_that_somebody_has_is_refused_and_makes_nothing(self, client: Client) -> None:
        answer = client.post("/modes/explorer/begin/last-ferry", {"name": "osk brandt"})
        assert answer.status_code == 422
        assert not Session.objects.exists()


def test_a_reply_to_words_can_be_asked_for_again_without_words(
    chapter: Session, scripted: ScriptedProvider
) -> None:
    scripted.enqueue("He nods.", "He waits.")
    play(chapter)
    again = call("POST", address(chapter, "reroll"), {"user_text": ""})
    assert again.status_code == 201, again.content
    assert [text for _, text in events_of(chapter, 2)] == ["He waits."]
