"""Tab 1 of an exploration: its lists are changed by buttons that work without scripts."""

import json
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from explorer.setup import Exploration, exploration_of
from sessions.models import Session
from storyengine.tabs.tests.reading import fields_of, get_page
from testing.refusals import NOTHING_CHANGED

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter(client: Client) -> Session:
    client.post("/chapters/new", {"mode": "explorer"})
    return Session.objects.get()


def press(client: Client, chapter: Session, where: str) -> Exploration:
    answer = client.post(f"/modes/explorer/{chapter.pk}/{where}")
    assert answer.status_code == 302, answer.content
    return exploration_of(Session.objects.get())


def test_places_and_people_are_added_and_removed(client: Client, chapter: Session) -> None:
    press(client, chapter, "places")
    setup = press(client, chapter, "places")
    assert [one.name for one in setup.places] == ["A new place", "A new place 2"]
    press(client, chapter, "people")
    press(client, chapter, "people/0/facts")
    setup = press(client, chapter, "people")
    assert [one.name for one in setup.people] == ["Somebody new", "Somebody new 2"]
    assert len(setup.people[0].knowledge) == 1
    press(client, chapter, "people/0/facts/0/remove")
    setup = press(client, chapter, "people/1/remove")
    assert [(one.name, one.knowledge) for one in setup.people] == [("Somebody new", [])]


def test_a_scenario_file_over_the_limit_is_refused_on_the_page(
    client: Client, chapter: Session
) -> None:
    file = SimpleUploadedFile("scenario.json", b" " * 1_000_001)
    answer = client.post(f"/modes/explorer/{chapter.pk}/scenario/import", {"file": file})
    assert answer.status_code == 413
    assert NOTHING_CHANGED in answer.content.decode()


def test_a_place_that_is_renamed_is_renamed_wherever_it_is_named(
    client: Client, chapter: Session
) -> None:
    press(client, chapter, "places")
    press(client, chapter, "people")
    save_address = f"/chapters/{chapter.pk}/world/save"
    place = {"setup.people.0.location": "A new place", "setup.starting_place": "A new place"}
    assert client.post(save_address, place).status_code == 302
    assert exploration_of(Session.objects.get()).people[0].location == "A new place"
    assert client.post(save_address, {"setup.places.0.name": "The Mill"}).status_code == 302
    setup = exploration_of(Session.objects.get())
    assert setup.named_places() == ["The Mill"]


def test_a_scenario_comes_from_a_file_and_goes_into_one(client: Client, chapter: Session) -> None:
    content = json.dumps({"title": "Mine", "locations": [{"name": "Here"}]}).encode()
    sent = SimpleUploadedFile("scenario.json", content)
    address = f"/modes/explorer/{chapter.pk}/scenario"
    assert client.post(f"{address}/import", {"file": sent}).status_code == 302
    written = json.loads(client.get(address).content)
    assert (written["title"], written["locations"][0]["name"]) == ("Mine", "Here")
    bad = SimpleUploadedFile("scenario.json", b"{")
    assert client.post(f"{address}/import", {"file": bad}).status_code == 422


def test_every_field_of_tab_1_has_a_label(client: Client, chapter: Session) -> None:
    press(client, chapter, "ready/last-ferry")
    html = client.get(f"/chapters/{chapter.pk}/world").content.decode()
    for part in ("The Ferry Inn", "Osk Brandt", "(hidden)", "every other turn"):
        assert part in html


def test_examples_and_lore_are_added_edited_and_removed(client: Client, chapter: Session) -> None:
    for _ in range(2):
        press(client, chapter, "talk")
        press(client, chapter, "lore")
    fields = {
        "setup.note.text": "Slow dread.",
        "setup.note.depth": "2",
        "setup.note.role": "system",
        "setup.talk.1.name": "Osk",
        "setup.talk.1.text": "Aye.",
        "setup.lorebook.token_budget": "300",
        "setup.lorebook.entries.1.content": "The river takes one a year.",
        "setup.lorebook.entries.1.keywords": "river,  the water",
        "setup.lorebook.entries.1.constant": "true",
        "setup.lorebook.entries.1.scan_depth": "",
        "setup.lorebook.entries.1.insertion_order": "7",
    }
    assert client.post(f"/chapters/{chapter.pk}/world/save", fields).status_code == 302
    press(client, chapter, "talk/0/remove")
    setup = press(client, chapter, "lore/0/remove")
    assert (setup.note.text, setup.note.depth, setup.note.role) == ("Slow dread.", 2, "system")
    assert [(one.name, one.text) for one in setup.talk] == [("Osk", "Aye.")]
    [entry] = setup.lorebook.entries
    assert (entry.keywords, entry.constant, entry.insertion_order, entry.scan_depth) == (
        "river, the water",
        True,
        7,
        None,
    )
    page = client.get(f"/chapters/{chapter.pk}/world").content.decode()
    assert "The river takes one a year." in page
    bad = {"setup.note.depth": "101"}
    refused = client.post(f"/chapters/{chapter.pk}/world/save", bad)
    assert refused.status_code == 422
    assert "note.depth" in refused.content.decode()


def test_a_button_without_scripts_keeps_what_was_typed(client: Client, chapter: Session) -> None:
    press(client, chapter, "places")
    press(client, chapter, "people")
    form = fields_of(get_page(client, chapter, "world"), "setup")
    form |= {"setup.title": "Mine", "setup.places.0.name": "The Mill"}
    answer = client.post(f"/modes/explorer/{chapter.pk}/people", form)
    assert answer.status_code == 302
    setup = exploration_of(Session.objects.get())
    assert (setup.title, setup.places[0].name, len(setup.people)) == ("Mine", "The Mill", 2)


def test_a_button_does_not_overwrite_what_another_window_has_changed(
    client: Client, chapter: Session
) -> None:
    form = fields_of(get_page(client, chapter, "world"), "setup")
    client.post(f"/chapters/{chapter.pk}/world/save", {"setup.title": "Theirs"})
    answer = client.post(f"/modes/explorer/{chapter.pk}/people", form | {"setup.title": "Mine"})
    assert answer.status_code == 412
    setup = exploration_of(Session.objects.get())
    assert (setup.title, setup.people) == ("Theirs", [])


def test_a_list_that_another_window_has_changed_loses_nothing(
    client: Client, chapter: Session
) -> None:
    for _ in range(3):
        press(client, chapter, "people")
    form = fields_of(get_page(client, chapter, "world"), "setup")
    press(client, chapter, "people/0/remove")
    press(client, chapter, "people")
    answer = client.post(f"/modes/explorer/{chapter.pk}/people/1/remove", form)
    assert answer.status_code == 422
    assert "Another window" in answer.content.decode()
    left = [one.name for one in exploration_of(Session.objects.get()).people]
    assert left == ["Somebody new 2", "Somebody new 3", "Somebody new"]


def test_enter_in_a_field_presses_no_button_of_a_list(client: Client, chapter: Session) -> None:
    press(client, chapter, "places")
    html = client.get(f"/chapters/{chapter.pk}/world").content.decode()
    form = html[html.index('<form id="setup"') :]
    first, second = re.findall(r"<button[^>]*>", form)[:2]
    assert "formaction" not in first + second
    assert "disabled" in second


def test_ways_other_names_pronouns_ties_and_sources_are_edited(
    client: Client, chapter: Session
) -> None:
    press(client, chapter, "ready/last-ferry")
    press(client, chapter, "people/1/ties")
    fields = {
        "setup.places.3.ways": "The Landing\n\nThe Mill\nThe Landing",
        "setup.people.1.aliases": "the boy\nIbsen",
        "setup.people.1.pronouns": "they/them",
        "setup.people.1.relationships.0.name": "Osk Brandt",
        "setup.people.1.relationships.0.description": "Feeds them.",
        "setup.people.1.knowledge.0.source": "told",
        "setup.deeds": "I wait.\nI run.",
    }
    saved = f"/chapters/{chapter.pk}/world/save"
    assert client.post(saved, fields).status_code == 302
    setup = exploration_of(Session.objects.get())
    ib = setup.people[1]
    assert setup.places[3].ways == ["The Landing", "The Mill"]
    assert (ib.aliases, ib.pronouns) == (["the boy", "Ibsen"], "they/them")
    assert [(one.name, one.description) for one in ib.relationships] == [
        ("Osk Brandt", "Feeds them.")
    ]
    assert ib.knowledge[0].source == "told"
    assert setup.deeds == ["I wait.", "I run."]
    html = get_page(client, chapter, "world")
    assert "Ibsen" in html
    # The whole page, as a browser without scripts sends it, changes nothing.
    assert client.post(saved, fields_of(html, "setup")).status_code == 302
    assert exploration_of(Session.objects.get()) == setup
    # Ties follow new names, and a way that leads nowhere is refused.
    client.post(saved, {"setup.people.0.name": "Oskar"})
    assert exploration_of(Session.objects.get()).people[1].relationships[0].name == "Oskar"
    assert client.post(saved, {"setup.places.0.ways": "Nowhere"}).status_code == 422
    setup = press(client, chapter, "people/1/ties/0/remove")
    assert setup.people[1].relationships == []
    setup = press(client, chapter, "places/1/remove")
    assert setup.places[2].ways == ["The Mill"]


def test_the_home_page_begins_an_exploration_from_a_scenario_file(client: Client) -> None:
    def send(content: bytes) -> int:
        sent = SimpleUploadedFile("it.json", content)
        return client.post("/chapters/import", {"file": sent}).status_code

    scenario = {"title": "Mine", "characters": [{"name": "Osk"}]}
    assert send(json.dumps(scenario | {"characters": [{"name": ""}]}).encode()) == 422
    assert send(b'{"something": 1}') != 302
    assert not Session.objects.exists()
    assert send(json.dumps(scenario).encode()) == 302
    chapter = Session.objects.get()
    assert (chapter.mode, chapter.title, chapter.state) == ("explorer", "Mine", "DRAFT_TAB1")
    assert [one.name for one in exploration_of(chapter).people] == ["Osk"]
    assert "a scenario" in client.get("/").content.decode()
