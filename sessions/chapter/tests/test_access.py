import pytest

from sessions.chapter.access import MAX_READINGS, read_at_one_moment
from sessions.chapter.chapters import rename_chapter
from sessions.models import Session
from sessions.tests.factories import make_chapter

pytestmark = pytest.mark.django_db


def test_a_chapter_that_changes_while_it_is_read_is_read_again() -> None:
    def read(chapter: Session) -> str:
        if chapter.title == "Before":
            rename_chapter(chapter.pk, "After")
        return chapter.title

    assert read_at_one_moment(make_chapter(title="Before").pk, read) == "After"


def test_a_chapter_that_never_rests_is_read_a_few_times() -> None:
    read_titles: list[str] = []

    def read(chapter: Session) -> str:
        read_titles.append(chapter.title)
        rename_chapter(chapter.pk, f"{chapter.title} on")
        return chapter.title

    assert read_at_one_moment(make_chapter(title="On").pk, read) == read_titles[-1]
    assert len(set(read_titles)) == MAX_READINGS
