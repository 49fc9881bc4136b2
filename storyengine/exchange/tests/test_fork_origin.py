"""Tests that a fork also counts the spending of its origin, even after the origin was deleted."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents.calling.spending import check_budget, inherited_spending, spending_of
from agents.exceptions import BudgetSpent
from agents.tests.recorded_calls import add_call
from sessions.chapter.chapters import delete_chapter, reset_chapter
from sessions.exceptions import UnknownChapter
from sessions.models import Session
from sessions.tests.racing import at_once
from storyengine.exchange import forking
from storyengine.exchange import importing as file_importing
from storyengine.exchange.exporting import export_chapter, export_until
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.tests.chapters import (
    exported,
    make_whole_chapter,
)

pytestmark = pytest.mark.django_db


class TestSpending:
    @pytest.fixture
    def origin(self) -> Session:
        origin = make_whole_chapter()
        add_call(origin, input=600, output=100, cached=0)
        add_call(origin, "o4-mini", input=1_000_000, output=1_000, cached=400_000)
        return origin

    def test_what_either_spends_afterwards_is_its_own(self, origin: Session) -> None:
        fork = fork_chapter(origin.pk, 4)
        add_call(origin, input=50, output=0, cached=0)
        add_call(fork, input=7, output=0, cached=0)
        assert spending_of(fork.pk).tokens == 1_001_707
        assert inherited_spending(fork).tokens == 1_001_700
        assert spending_of(origin.pk).tokens == 1_001_750

    def test_a_fork_of_a_fork_has_inherited_both(self, origin: Session) -> None:
        first = fork_chapter(origin.pk, 4)
        add_call(first, input=7, output=0, cached=0)
        second = fork_chapter(first.pk, 2)
        delete_chapter(first.pk)
        delete_chapter(origin.pk)
        assert spending_of(second.pk).tokens == 1_001_707

    def test_it_counts_towards_both_caps(self, origin: Session, settings: Any) -> None:
        fork = fork_chapter(origin.pk, 4)
        settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = 0, 700
        with pytest.raises(BudgetSpent, match="700 tokens of the 700"):
            check_budget(fork.pk)
        settings.CHAPTER_TOKENS = 701
        check_budget(fork.pk)
        settings.CHAPTER_BUDGET = inherited_spending(fork).dollars
        with pytest.raises(BudgetSpent):
            check_budget(fork.pk)

    def test_a_file_has_none_of_it(self, origin: Session) -> None:
        fork = fork_chapter(origin.pk, 4)
        content = export_chapter(fork.pk).to_json()
        again = file_importing.import_chapter(content)
        assert spending_of(again.pk).tokens == 0
        assert (again.is_fork, again.origin_id) == (False, None)


class TestItsOrigin:
    @pytest.mark.parametrize("end", [delete_chapter, reset_chapter])
    def test_a_fork_outlives_it(self, end: Callable[[Any], object]) -> None:
        origin = make_whole_chapter()
        fork = fork_chapter(origin.pk, 4)
        content = exported(fork)
        end(origin.pk)
        fork.refresh_from_db()
        assert exported(fork) == content
        assert (fork.origin_id, fork.origin_title) == (None, "The Dark Lamp")
        assert fork.forked_at_prompt == 4

    def test_one_that_goes_while_it_is_read_has_no_fork(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = make_whole_chapter()
        read = export_until

        def delete_afterwards(*args: Any) -> Any:
            found = read(*args)
            delete_chapter(origin.pk)
            return found

        monkeypatch.setattr(forking, "export_until", delete_afterwards)
        with pytest.raises(UnknownChapter, match="Nothing was stored"):
            fork_chapter(origin.pk, 4)
        assert not Session.everything.exists()

    @pytest.mark.django_db(transaction=True)
    def test_forks_and_a_deletion_at_once_end_well(self) -> None:
        origin = make_whole_chapter()
        results = at_once(
            lambda: fork_chapter(origin.pk, 4),
            lambda: delete_chapter(origin.pk),
            lambda: fork_chapter(origin.pk, 5),
        )
        made = [one for one in results if isinstance(one, Session)]
        assert set(Session.everything.all()) == set(made)
        assert not Session.everything.filter(origin__isnull=False).exists()
        connection.check_constraints()
