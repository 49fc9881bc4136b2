"""Tests of who the people of a chapter were in the chapter before, as Tab 1 says it."""

import pytest

from sessions.chapter.chapters import SetupChange, save_setup
from sessions.chapter.people import numbers_before, persons_before
from sessions.chapter.stories import begin_next_chapter
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


@pytest.mark.parametrize("number", [4, 0, 99])
def test_only_people_who_were_there_can_be_named(chapter: Session, number: int) -> None:
    with pytest.raises(InvalidInput, match=f"Nobody had the number {number}"):
        choose(chapter, slot2=number)
