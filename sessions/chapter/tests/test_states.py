"""Tests that a chapter's state can change by each transition in the table and by no other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from sessions.chapter.states import (
    TRANSITIONS,
    move,
    try_move,
)
from sessions.exceptions import WrongState
from sessions.models import Session, State
from sessions.tests.factories import make_chapter


@pytest.mark.django_db
@pytest.mark.parametrize("source", State)
@pytest.mark.parametrize("target", State)
def test_only_the_table_s_transitions_take_place(source: State, target: State) -> None:
    row = Session.everything.filter(pk=make_chapter(state=source).pk)
    assert try_move(row, target) == (target in TRANSITIONS[source])
    assert row.get().state == (target if target in TRANSITIONS[source] else source)


@pytest.mark.django_db
def test_a_refused_move_says_why_and_changes_nothing() -> None:
    row = Session.everything.filter(pk=make_chapter(state=State.ENDED).pk)
    with pytest.raises(WrongState, match="not now"):
        move(row, State.LOCKING, refusal="not now", tab1_locked=True)
    assert not row.get().tab1_locked


class AnySequenceOfMoves(TestCase):
    @settings(max_examples=40)
    @given(targets=st.lists(st.sampled_from(State), max_size=12))
    def test_follows_the_table(self, targets: list[State]) -> None:
        row = Session.everything.filter(pk=make_chapter().pk)
        expected = State.DRAFT_TAB1
        for target in targets:
            if target in TRANSITIONS[expected]:
                expected = target
            try_move(row, target)
            assert row.get().state == expected
