"""The rows of a chapter's cast, and what is derived from them."""

import pytest
from pytest_django import DjangoAssertNumQueries

from sessions.access import get_chapter, get_chapter_with_cast
from sessions.chapters import SetupChange, copy_setup, create_chapter, save_setup
from sessions.models import CastMember
from sessions.roster import Character
from sessions.tests.factories import make_cast, make_chapter

pytestmark = pytest.mark.django_db


def test_a_new_chapter_has_three_characters() -> None:
    chapter = create_chapter()
    assert chapter.selected_agent_slots == [1, 2, 3]
    assert chapter.agent_names == {"1": "Agent Red", "2": "Agent Orange", "3": "Agent Yellow"}
    assert [one.is_selected for one in chapter.cast] == [True, True, True]


def test_a_deselected_character_keeps_its_texts_and_is_told_to_nobody() -> None:
    chapter = make_chapter(agent_names={"3": "Tom"})
    saved = save_setup(chapter.pk, SetupChange(selected_agent_slots=[1, 2]))
    assert [one.slot for one in saved.everybody] == saved.selected_agent_slots == [1, 2]
    assert saved.agent_texts("identity_text")["3"] == "A child."
    assert saved.character(3) == Character(3, "yellow", "Tom")
    assert saved.character(7) == Character(7, "violet", "Agent Violet")


def test_people_without_a_panel_stand_behind_the_characters() -> None:
    chapter = make_chapter()
    CastMember.objects.create(session=chapter, name="Ilse", pronouns="she/her")
    make_cast(chapter, [1, 2])
    assert chapter.selected_agent_slots == [1, 2]
    assert chapter.everybody == (*chapter.characters, Character(0, "", "Ilse", "she/her"))
    copy = copy_setup(chapter.pk)
    assert copy.everybody == chapter.everybody
    assert copy.agent_texts("identity_text") == chapter.agent_texts("identity_text")


def test_the_cast_is_one_query_and_none_where_it_came_with_the_chapter(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    pk = make_chapter().pk
    with django_assert_num_queries(2):
        chapter = get_chapter(pk)
        assert (chapter.selected_agent_slots, len(chapter.everybody)) == ([1, 2, 3], 3)
        assert chapter.character(2).name == chapter.agent_names["2"]
    chapter = get_chapter_with_cast(pk)
    with django_assert_num_queries(0):
        assert chapter.selected_agent_slots == [1, 2, 3]
