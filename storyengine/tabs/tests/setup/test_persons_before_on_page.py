"""Tests that Tab 1 of a next chapter says who its people were in the chapter before."""

import pytest
from django.test import Client

from sessions.chapter.stories import begin_next_chapter
from sessions.models import Session, State
from sessions.tests.factories import make_active_chapter
from storyengine.tabs.seen_values import mark_of
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, get_page, read

pytestmark = pytest.mark.django_db


@pytest.fixture
def following() -> Session:
    names = {"1": "Mara", "2": "Tom", "3": "Ilse"}
    before = make_active_chapter(prompt_index=3, agent_names=names)
    return begin_next_chapter(before.story_id)


def test_tab_1_says_who_is_the_same_person(client: Client, following: Session) -> None:
    html = get_page(client, following, "world")
    [choice] = all_of(html, "select", id="before-2")
    within = (one for one in read(html) if one.tag == "option")
    options = [one for one in within if one.parents[-1].attributes == choice.attributes]
    assert [one.words for one in options] == [
        "The same person as Mara, who remembers it",
        "The same person as Tom, who remembers it",
        "The same person as Ilse, who remembers it",
        "Somebody new, who knows only what everybody knew",
    ]
    assert ["selected" in one.attributes for one in options] == [False, True, False, False]


def test_somebody_new_is_saved_and_told_after_the_lock(
    client: Client, htmx: Client, following: Session
) -> None:
    saved = htmx.post(address(following, "save-world"), {"before_2": ""})
    assert (saved.status_code, saved["X-Seen"]) == (204, mark_of(""))
    Session.objects.filter(pk=following.pk).update(state=State.ACTIVE, tab1_locked=True)
    html = get_page(client, following, "world")
    assert by_id(html, "before-1").words == (
        "The same person as Mara in the chapter before, who remembers it."
    )
    assert by_id(html, "before-2").words.startswith("Somebody new in this chapter")
