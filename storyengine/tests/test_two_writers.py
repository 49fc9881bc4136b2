"""Tests of Tab 1 when two clients write it at once: a program with PUT, and a page that saves what
was typed."""

from functools import partial
from typing import Any, cast

import pytest
from django.test import Client

from sessions.chapter.chapters import create_chapter
from sessions.models import Session
from sessions.tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

# The number of tries, in each of which one save might overwrite the other.
ROUNDS = range(12)
SAVED, SAVED_BY_PAGE = 200, 204


@pytest.fixture
def chapter() -> Session:
    return create_chapter()


def put(chapter: Session, **fields: Any) -> int:
    """Save the fields as a program does. Return the status of the answer."""
    address = f"/api/session/{chapter.pk}/tab1"
    return Client().put(address, fields, content_type="application/json").status_code


def autosave(chapter: Session, **fields: str) -> int:
    """Save the fields as the page's script does. Return the status of the answer."""
    htmx = Client(headers={"HX-Request": "true"})
    return htmx.post(f"/chapters/{chapter.pk}/world/save", fields).status_code


def of_agent_1(text: str) -> dict[str, Any]:
    """Return fields of a PUT that give the first character this name and this identity."""
    return {"agent_names": {"1": text}, "agent_identity_text_by_slot": {"1": text}}


def tab1(chapter: Session) -> dict[str, Any]:
    return cast(dict[str, Any], Client().get(f"/api/session/{chapter.pk}/tab1").json())


def test_at_once_neither_loses_what_only_one_of_them_wrote(chapter: Session) -> None:
    for number in ROUNDS:
        text = f"Number {number}."
        count = number % 5 + 3
        statuses = at_once(
            partial(put, chapter, **of_agent_1(text), world_text=text),
            partial(autosave, chapter, chapter_text=text),
            partial(autosave, chapter, name_2=f"Not {text}"),
            partial(autosave, chapter, identity_2=text),
            partial(autosave, chapter, agent_count=str(count)),
        )
        assert statuses == [SAVED, *[SAVED_BY_PAGE] * 4]
        saved = tab1(chapter)
        assert (saved["world_text"], saved["chapter_text"]) == (text, text)
        assert [saved["agent_names"][slot] for slot in "12"] == [text, f"Not {text}"]
        assert [saved["agent_identity_text_by_slot"][slot] for slot in "12"] == [text, text]
        assert saved["selected_agent_slots"] == list(range(1, count + 1))


def test_at_once_one_of_them_wins_whole(chapter: Session) -> None:
    fields = ("world_text", "chapter_text", "name_1", "identity_1")
    for _ in ROUNDS:
        statuses = at_once(
            partial(put, chapter, **of_agent_1("API"), world_text="API", chapter_text="API"),
            # Without scripts, the page sends all of its fields in one save.
            partial(autosave, chapter, **dict.fromkeys(fields, "page")),
        )
        assert statuses == [SAVED, SAVED_BY_PAGE]
        saved = tab1(chapter)
        written = {
            saved["world_text"],
            saved["chapter_text"],
            saved["agent_names"]["1"],
            saved["agent_identity_text_by_slot"]["1"],
        }
        assert written in ({"API"}, {"page"})
