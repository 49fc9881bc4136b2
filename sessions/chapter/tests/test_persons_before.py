"""Tests of who the people of a chapter were in the chapter before, as Tab 1 says it."""

import pytest

from sessions.chapter.chapters import SetupChange, copy_setup, save_setup
from sessions.chapter.people import followed, numbers_before, persons_before
from sessions.chapter.stories import begin_next_chapter, hide_chapter
from sessions.exceptions import InvalidInput
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def before() -> Session:
    return make_active_chapter(prompt_index=3, agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"})


@pytest.fixture
def chapter(before: Session) -> Session:
    return begin_next_chapter(before.story_id)


def choose(chapter: Session, **persons: int | None) -> None:
    by_slot = {name.removeprefix("slot"): number for name, number in persons.items()}
    save_setup(chapter.pk, SetupChange(agent_persons_before=by_slot))
    chapter.refresh_from_db()


def test_at_first_everybody_is_the_same_person(chapter: Session, before: Session) -> None:
    assert persons_before(chapter, before) == {1: 1, 2: 2, 3: 3}


def test_somebody_new_remembers_nobodys_memory(chapter: Session, before: Session) -> None:
    choose(chapter, slot2=None)
    assert persons_before(chapter, before) == {1: 1, 2: None, 3: 3}
    assert numbers_before(chapter, before) == {1: 1, 3: 3}
    choose(chapter, slot2=2)
    assert numbers_before(chapter, before) == {1: 1, 2: 2, 3: 3}


def test_two_people_can_change_their_places(chapter: Session, before: Session) -> None:
    choose(chapter, slot1=2, slot2=1)
    assert numbers_before(chapter, before) == {1: 2, 2: 1, 3: 3}


def test_nobody_is_the_same_person_twice(chapter: Session, before: Session) -> None:
    with pytest.raises(InvalidInput, match="Agent 1 is already the same person as Mara"):
        choose(chapter, slot2=1)
    with pytest.raises(InvalidInput, match="already the same person"):
        choose(chapter, slot1=3, slot2=3, slot3=None)
    assert persons_before(chapter, before) == {1: 1, 2: 2, 3: 3}


def test_who_takes_no_part_gives_way(chapter: Session, before: Session) -> None:
    save_setup(chapter.pk, SetupChange(selected_agent_slots=[1, 2]))
    choose(chapter, slot2=3)
    save_setup(chapter.pk, SetupChange(selected_agent_slots=[1, 2, 3]))
    chapter.refresh_from_db()
    assert persons_before(chapter, before) == {1: 1, 2: 3, 3: None}


@pytest.mark.parametrize("number", [4, 0, 99])
def test_only_people_who_were_there_can_be_named(chapter: Session, number: int) -> None:
    with pytest.raises(InvalidInput, match=f"Nobody had the number {number}"):
        choose(chapter, slot2=number)


def test_a_chapter_without_one_before_takes_nobody(chapter: Session, before: Session) -> None:
    alone = copy_setup(chapter.pk)
    assert followed(alone) is None
    with pytest.raises(InvalidInput):
        choose(alone, slot1=1)
    hide_chapter(before.pk)
    assert followed(chapter) is None
