"""The title and the people of an exploration before play, on pages, in lists and in files."""

import pytest
from django.test import Client

from agents.flows.beginning.next_chapter import begin_next, reset_and_hand_on
from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import TAVERN, begin, calls, play, scripted, world_of
from explorer.tests.test_notes import noted
from sessions.models import Session, State
from storyengine.api.tests.calling import address, call
from storyengine.exchange.exporting import export_chapter

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


@pytest.fixture
def draft() -> Session:
    made = call("POST", "/api/session", {"mode": "explorer"}).json()
    return Session.objects.get(pk=made["session_id"])


def names_of(chapter: Session) -> list[str]:
    return [one.name for one in Session.objects.get(pk=chapter.pk).everybody]


def test_an_empty_one_has_the_player_alone(client: Client, draft: Session) -> None:
    assert names_of(draft) == ["The traveller"]
    assert "Agent Red" not in client.get("/").content.decode()


def test_title_and_people_are_those_of_the_scenario(client: Client, draft: Session) -> None:
    call("PUT", address(draft, "setup"), TAVERN)
    people = ["Edda Linn", "Osk", "Ib", "Runa"]
    assert names_of(draft) == people
    for page in ("/", f"/chapters/{draft.pk}/world"):
        html = client.get(page).content.decode()
        assert "The Last Ferry" in html, page
        assert "Agent Red" not in html
        assert "Untitled chapter" not in html
    exported = export_chapter(draft.pk).chapter
    assert exported.title == "The Last Ferry"
    assert [one.name for one in exported.cast] == people


def test_the_lock_s_question_says_what_is_sent(client: Client, draft: Session) -> None:
    call("PUT", address(draft, "setup"), TAVERN)
    html = client.get(f"/chapters/{draft.pk}/world").content.decode()
    assert "the place where you are with the people and things there" in " ".join(html.split())
    assert "and of each character the name" not in html


class TestNextChapter:
    @pytest.fixture
    def following(self, scripted: ScriptedProvider) -> Session:
        chapter = begin()
        scripted.enqueue(calls("", noted(what="The key", holder="you")), "You have it.")
        play(chapter)
        Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        return begin_next(chapter.story_id)

    def test_it_has_the_people_of_the_story_and_no_title_yet(self, following: Session) -> None:
        assert names_of(following) == ["Edda Linn", "Osk", "Ib", "Runa"]
        assert following.is_untitled

    def test_a_reset_brings_back_the_world_with_which_it_began(self, following: Session) -> None:
        before = world_of(following)
        assert "The key" in before.things
        call("PUT", address(following, "setup"), {"title": "Emptied"})
        again = reset_and_hand_on(following.pk)
        assert world_of(again) == before
        assert names_of(again) == ["Edda Linn", "Osk", "Ib", "Runa"]
