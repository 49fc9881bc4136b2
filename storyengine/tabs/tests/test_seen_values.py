"""Tests that a window of Tab 1 overwrites nothing that it has not seen."""

import json
from typing import Any

import pytest
from django.test import Client

from sessions.chapter.access import get_chapter
from sessions.models import Session, State
from storyengine.tabs.seen_values import mark_of, values_of_narrator
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, fields_of, get_page, read

pytestmark = pytest.mark.django_db


def save(htmx: Client, chapter: Session, seen: str, **fields: str) -> Any:
    return htmx.post(address(chapter, "save-world"), fields, headers={"X-Seen": seen})


def marks(htmx: Client, chapter: Session) -> dict[str, str]:
    setup = by_id(get_page(htmx, chapter, "world"), "setup")
    found: dict[str, str] = json.loads(setup.attributes["data-seen-values"])
    return found


def test_a_page_marks_every_value_that_it_saves(htmx: Client, draft: Session) -> None:
    html = get_page(htmx, draft, "world")
    fields = [one for one in read(html) if "data-autosave" in one.attributes]
    # The title and the language are saved by themselves, at any time.
    saved = {one.attributes["name"] for one in fields} - {"title", "language"}
    assert len(saved) > 25
    assert saved <= set(marks(htmx, draft))


@pytest.mark.parametrize(
    ("field", "theirs", "mine"),
    [
        ("world_text", "Theirs.", "Mine."),
        ("name_1", "Ada", "Bea"),
        ("pronouns_2", "she/her", "he/him"),
        ("public_1", "A pilot.", "A priest."),
        ("identity_7", "Theirs.", "Mine."),
        ("agent_count", "5", "2"),
        ("chunk_size", "9", "4"),
    ],
)
def test_a_value_of_another_window_is_shown_and_stays(
    htmx: Client, draft: Session, field: str, theirs: str, mine: str
) -> None:
    seen = marks(htmx, draft)[field]
    assert save(htmx, draft, seen, **{field: theirs}).status_code == 204
    refused = save(htmx, draft, seen, **{field: mine})
    assert refused.status_code == 412
    [shown] = all_of(refused.content.decode(), "p", "other-words")
    assert shown.text == theirs
    [own, _other] = all_of(refused.content.decode(), "button")
    assert marks(htmx, draft)[field] == own.attributes["data-seen"] == mark_of(theirs)
    # Whoever has seen it may overwrite it.
    assert save(htmx, draft, own.attributes["data-seen"], **{field: mine}).status_code == 204
    assert marks(htmx, draft)[field] == mark_of(mine)


def sent_without_scripts(client: Client, chapter: Session, page: str, form: str) -> dict[str, str]:
    """Return the fields that a browser without scripts sends if nothing is changed."""
    return fields_of(get_page(client, chapter, page), form)


def test_without_scripts_the_user_chooses_between_the_two_texts(
    client: Client, draft: Session
) -> None:
    mine = sent_without_scripts(client, draft, "world", "setup")
    theirs = dict(mine)
    theirs |= {"world_text": "Theirs.\nOf two lines.", "pronouns_2": "she/her"}
    client.post(address(draft, "save-world"), theirs)

    mine |= {"world_text": "Mine.", "chapter_text": "A pier."}
    refused = client.post(address(draft, "save-world"), mine)
    assert refused.status_code == 412
    html = refused.content.decode()
    assert "Changed elsewhere" in html
    choices = [one for one in read(html) if one.attributes.get("type") == "radio"]
    assert [one.attributes["value"] for one in choices] == ["Mine.", "Theirs.\nOf two lines."]
    draft.tab1.refresh_from_db()
    # What only one of the windows has changed is saved.
    assert draft.tab1.world_text == "Theirs.\nOf two lines."
    assert draft.tab1.chapter_text == "A pier."
    assert get_chapter(draft.pk).character(2).pronouns == "she/her"

    [marks_field] = [one for one in read(html) if one.attributes.get("name") == "seen_values"]
    chosen = {"seen_values": marks_field.attributes["value"], "world_text": "Mine."}
    assert client.post(address(draft, "save-world"), chosen).status_code == 302
    draft.tab1.refresh_from_db()
    assert draft.tab1.world_text == "Mine."


@pytest.mark.parametrize(
    ("field", "theirs", "mine"),
    [("definition_text", "Dry.", "Warm."), ("target_words", "900", "1200")],
)
def test_the_narrators_instructions_are_not_overwritten_unseen(
    client: Client, htmx: Client, draft: Session, field: str, theirs: str, mine: str
) -> None:
    Session.objects.filter(pk=draft.pk).update(state=State.ACTIVE, tab1_locked=True)
    save_address = address(draft, "save-draft")
    form = sent_without_scripts(client, draft, "draft", "narrator")
    seen = json.loads(form["seen_values"])[field]
    saved = htmx.post(save_address, {field: theirs}, headers={"X-Seen": seen})
    assert saved.status_code == 204
    assert saved["X-Seen"] == mark_of(theirs)

    refused = htmx.post(save_address, {field: mine}, headers={"X-Seen": seen})
    assert refused.status_code == 412
    [shown] = all_of(refused.content.decode(), "p", "other-words")
    assert shown.text == theirs

    refused = client.post(save_address, form | {field: mine})
    assert refused.status_code == 412
    choices = [
        one for one in read(refused.content.decode()) if one.attributes.get("type") == "radio"
    ]
    assert [one.attributes["value"] for one in choices] == [mine, theirs]
    assert str(values_of_narrator(get_chapter(draft.pk))[field]) == theirs
    # A form in which nothing was changed overwrites nothing either.
    assert client.post(save_address, form).status_code == 302
    assert values_of_narrator(get_chapter(draft.pk))[field] == theirs


def test_each_save_brings_the_mark_for_the_next(htmx: Client, draft: Session) -> None:
    seen = marks(htmx, draft)["world_text"]
    for words in ("Night.", "  Night and day. ", "", "Night.\r\nAnd day."):
        response = save(htmx, draft, seen, world_text=words)
        assert response.status_code == 204
        seen = response["X-Seen"]
        assert seen == marks(htmx, draft)["world_text"]
