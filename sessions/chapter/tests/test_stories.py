import uuid
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions.chapter import stories, storing_imports
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import (
    SetupChange,
    create_chapter,
    delete_chapter,
    reset_chapter,
    save_setup,
)
from sessions.chapter.stories import (
    KEPT_AFTER_DELETION,
    begin_next_chapter,
    chapter_before,
    chapters_of,
    choose_chapter,
    deletions,
    get_story,
    hide_chapter,
    hide_story,
    remove_deleted,
    restore_chapter,
    restore_story,
    title_of,
)
from sessions.exceptions import UnknownChapter, UnknownStory
from sessions.models import Event, Session, Story
from sessions.tests.factories import (
    add_prompts,
    make_active_chapter,
    make_cast,
    make_chapter,
)
from sessions.tests.racing import Work, at_once

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture
def story() -> Story:
    """A story of two chapters, the first of which has a fork."""
    first = make_active_chapter(title="One")
    make_active_chapter(title="Fork", story=first.story, is_chosen=False)
    make_chapter(title="Two", story=first.story, place=2)
    return first.story


def titles(story: Story) -> list[str]:
    return [one.title for one in chapters_of(story)]


def chosen(story: Story) -> list[str]:
    return [one.title for one in chapters_of(story) if one.is_chosen]


def delete_at(time: datetime) -> None:
    Session.everything.exclude(deleted_at=None).update(deleted_at=time)


def named(title: str) -> Session:
    return Session.everything.get(title=title)


class TestStory:
    def test_a_chapter_begun_alone_is_a_story_of_one(self) -> None:
        chapter, other = create_chapter("The Lamp"), create_chapter()
        assert chapter.story_id != other.story_id
        assert (chapter.place, chapter.is_chosen) == (1, True)
        assert title_of(chapter.story) == "The Lamp"

    def test_its_chapters_come_by_place_the_chosen_one_first(self, story: Story) -> None:
        assert titles(story) == ["One", "Fork", "Two"]
        choose_chapter(named("Fork").pk)
        assert titles(story) == ["Fork", "One", "Two"]
        assert chosen(story) == ["Fork", "Two"]

    def test_a_place_has_one_chosen_chapter(self, story: Story) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            Session.objects.filter(title="Fork").update(is_chosen=True)

    def test_the_next_chapter_has_world_and_cast_and_an_empty_scene(self, story: Story) -> None:
        last = named("Two")
        make_cast(last, name={"2": "Tom"})
        save_setup(last.pk, SetupChange(chunk_size_prompts=5))
        chapter = begin_next_chapter(story.pk)
        assert (chapter.place, chapter.is_chosen, chapter.is_untitled) == (3, True, True)
        assert chapter.tab1.world_text == last.tab1.world_text
        assert chapter.tab1.chapter_text == ""
        assert chapter.chunk_size_prompts == 5
        assert [one.name for one in chapter.characters] == ["Agent Red", "Tom", "Agent Yellow"]
        assert chapter.agent_texts("identity_text") == last.agent_texts("identity_text")
        assert [one.origin for one in chapter.cast] == list(Session.objects.get(pk=last.pk).cast)
        assert chapter_before(chapter) == last
        assert chapter_before(named("One")) is None

    def test_it_follows_the_chosen_one_and_stands_behind_what_is_deleted(
        self, story: Story
    ) -> None:
        hide_chapter(named("Two").pk)
        choose_chapter(named("Fork").pk)
        chapter = begin_next_chapter(story.pk)
        assert chapter.place == 3
        assert chapter_before(chapter) == named("Fork")
        restore_chapter(named("Two").pk)
        assert chapter_before(chapter) == named("Two")


class TestDeletion:
    def test_a_deleted_chapter_is_hidden_and_whole_again_once_it_is_back(self) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        hide_chapter(chapter.pk)
        with pytest.raises(UnknownChapter):
            get_chapter(chapter.pk)
        with pytest.raises(UnknownStory):
            get_story(chapter.story_id)
        back = restore_chapter(chapter.pk)
        assert (back.prompt_index, back.turns.count(), back.is_chosen) == (2, 2, True)

    def test_another_one_of_its_place_is_chosen_until_it_is_back(self, story: Story) -> None:
        hide_chapter(named("One").pk)
        assert chosen(story) == ["Fork", "Two"]
        restore_chapter(named("One").pk)
        assert titles(story) == ["One", "Fork", "Two"]
        assert chosen(story) == ["One", "Two"]

    @pytest.mark.parametrize("order", [("One", "Fork"), ("Fork", "One")])
    def test_in_whichever_order_two_come_back_the_first_deleted_is_chosen(
        self, story: Story, order: tuple[str, str]
    ) -> None:
        for title in ("One", "Fork"):
            hide_chapter(named(title).pk)
        for title in order:
            restore_chapter(named(title).pk)
        assert chosen(story) == ["One", "Two"]

    def test_a_story_comes_back_as_it_was(self, story: Story) -> None:
        before = titles(story), chosen(story)
        hide_story(story.pk)
        assert not story.chapters.exists()
        restore_story(story.pk)
        assert (titles(story), chosen(story)) == before

    def test_what_was_deleted_before_the_story_stays_deleted(self, story: Story) -> None:
        hide_chapter(named("Two").pk)
        hide_story(story.pk)
        assert [len(one.chapters) for one in deletions().listed] == [2, 1]
        assert [one.title for one in deletions().listed] == ["One", "Two"]
        restore_story(story.pk)
        assert titles(story) == ["One", "Fork"]
        restore_chapter(named("Two").pk)
        assert titles(story) == ["One", "Fork", "Two"]

    def test_many_deletions_are_listed_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stories, "LISTED", 2)
        monkeypatch.setattr(stories, "COUNTED_FURTHER", 3)
        made = [make_chapter(title=f"{number}") for number in range(8)]
        second = make_chapter(title="7, second", story=made[7].story, place=2)
        last = timezone.now()
        # The fourth and the fifth were deleted at the same time.
        for hours, chapter in zip((0, 1, 2, 3, 3, 4, 5, 6, 6), (*made, second), strict=True):
            at = last - timedelta(hours=hours)
            Session.everything.filter(pk=chapter.pk).update(deleted_at=at)
        pieces = [deletions()]
        while pieces[-1].further:
            pieces.append(deletions(pieces[-1].last_at))
        titles = [sorted(one.title for one in piece.listed) for piece in pieces]
        assert titles == [["0", "1"], ["2", "3", "4"], ["5", "6"], ["7"]]
        assert [piece.further for piece in pieces] == [4, 3, 1, 0]
        assert [len(one.chapters) for one in pieces[-1].listed] == [2]
        assert deletions(pieces[-1].last_at).listed == []

    def test_after_a_day_it_is_gone_with_everything(self, story: Story) -> None:
        add_prompts(named("One"), 2)
        hide_story(story.pk)
        kept = make_active_chapter(title="Kept")
        assert remove_deleted() == 0
        delete_at(timezone.now() - KEPT_AFTER_DELETION - timedelta(seconds=1))
        # Nobody can bring it back any more. Its rows are removed a little later.
        with pytest.raises(UnknownChapter):
            restore_chapter(named("One").pk)
        assert deletions().listed == []
        assert remove_deleted() == 0
        delete_at(timezone.now() - KEPT_AFTER_DELETION - timedelta(hours=1))
        assert remove_deleted() == 3
        assert list(Session.everything.all()) == [kept]
        assert list(Story.objects.all()) == [kept.story]
        with pytest.raises(UnknownStory):
            restore_story(story.pk)

    def test_a_story_whose_chapters_are_all_gone_goes_too(self) -> None:
        chapter = make_chapter()
        delete_chapter(chapter.pk)
        remove_deleted()
        assert not Story.objects.exists()

    def test_a_large_chapter_is_removed_in_pieces(
        self, story: Story, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(storing_imports, "PIECE_ROWS", 2)
        one, fork = named("One"), named("Fork")
        Session.objects.filter(pk=fork.pk).update(origin=one)
        add_prompts(one, 5)
        hide_chapter(one.pk)
        delete_at(timezone.now() - timedelta(days=2))
        with CaptureQueriesContext(connection) as made:
            remove_deleted()
        deleted = [query for query in made if query["sql"].startswith("DELETE")]
        assert len(deleted) > 5
        assert titles(story) == ["Fork", "Two"]
        assert not Event.objects.exists()
        fork.refresh_from_db()
        assert fork.origin_id is None


@pytest.mark.django_db(transaction=True)
class TestRaces:
    """On SQLite these transactions run one after the other, and on PostgreSQL beside each other."""

    @pytest.mark.parametrize("act", [begin_next_chapter, hide_story])
    def test_a_story_that_is_deleted_meanwhile_is_unknown(
        self, story: Story, monkeypatch: pytest.MonkeyPatch, act: Callable[[uuid.UUID], object]
    ) -> None:
        def wait_for_another(story_id: uuid.UUID) -> None:
            monkeypatch.undo()
            hide_story(story_id)

        # The transaction that held the lock has deleted the story.
        monkeypatch.setattr(stories, "lock_story", wait_for_another)
        with pytest.raises(UnknownStory):
            act(story.pk)

    @pytest.mark.parametrize("_again", range(3))
    def test_to_bring_back_the_same_twice_at_once_chooses_it(
        self, story: Story, _again: int
    ) -> None:
        two = named("Two").pk
        hide_chapter(two)
        at_once(*[partial(restore_chapter, two)] * 3, partial(restore_story, story.pk))
        assert chosen(story) == ["One", "Two"]

    @pytest.mark.parametrize(
        "other", [hide_chapter, choose_chapter, reset_chapter, restore_chapter]
    )
    @pytest.mark.parametrize("_again", range(3))
    def test_whatever_comes_at_once_each_place_has_one_chosen_chapter(
        self, story: Story, other: Callable[[uuid.UUID], object], _again: int
    ) -> None:
        one, fork, two = (named(title).pk for title in ("One", "Fork", "Two"))
        Session.objects.filter(pk=fork).update(origin=one)
        works: list[Work] = [
            partial(reset_chapter, one),
            partial(other, fork),
            partial(choose_chapter, one),
        ]
        at_once(*works, partial(hide_chapter, one), partial(choose_chapter, two))
        at_once(partial(hide_story, story.pk), partial(other, two), partial(reset_chapter, two))
        by_place = Counter(one.place for one in chapters_of(story) if one.is_chosen)
        assert by_place == dict.fromkeys({one.place for one in chapters_of(story)}, 1)
