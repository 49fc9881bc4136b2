import pytest

from agents.llm.providers.scripted import ScriptedProvider
from sessions.chapter.starters import all_starters
from sessions.models import DEFAULT_MODE, Session
from storyengine.api.tests.calling import address, call

pytestmark = pytest.mark.django_db

NAMES = [one.name for one in all_starters()]


def test_the_list_has_each_starter_with_its_cast_and_the_next_prompt() -> None:
    everything = call("GET", "/api/starters").json()
    listed = [one for one in everything if one["mode"] == DEFAULT_MODE]
    assert [one["name"] for one in listed] == NAMES
    for document, starter in zip(listed, all_starters(), strict=True):
        assert [one["name"] for one in document["characters"]] == [
            one.name for one in starter.characters
        ]
        assert [one["agent_slot"] for one in document["characters"]] == [1, 2, 3]
        assert document["next_prompt"] == {"agent_slot": 1, "user_text": starter.next.prompt}
        # The secrets are in the identities, which the list does not have.
        assert "Secret:" not in str(document)


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_from_a_starter_is_in_play(name: str, provider: ScriptedProvider) -> None:
    response = call("POST", "/api/session", {"starter": name, "title": "Mine"})
    assert response.status_code == 201
    document = response.json()
    assert (document["state"], document["prompt_index"]) == ("ACTIVE", 3)
    assert (document["starter"], document["title"]) == (name, "Mine")
    assert len(document["events"]) == 6
    assert [one["came_with_starter"] for one in document["memory_blocks"]] == [True]
    [turn] = [call("GET", f"{response.headers['Location']}/turns/3").json()]
    assert [one["came_with_starter"] for one in turn["attempts"]] == [True]
    assert not provider.history


def test_opened_for_change_it_waits_on_tab_1_and_unchanged_it_needs_no_call(
    provider: ScriptedProvider,
) -> None:
    asked = {"starter": NAMES[0], "change_first": True}
    document = call("POST", "/api/session", asked).json()
    assert (document["state"], document["prompt_index"]) == ("DRAFT_TAB1", 0)
    chapter = Session.objects.get()
    locked = call("POST", address(chapter, "lock"))
    assert locked.status_code == 200
    assert (locked.json()["state"], locked.json()["prompt_index"]) == ("ACTIVE", 3)
    assert not provider.history
