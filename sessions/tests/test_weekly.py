"""Tests of the choice of tests that are left to the weekly run."""

from typing import Any, cast

import pytest

from sessions.tests.weekly import few, left_to_the_week


class Case:
    """What the choice reads of a test."""

    def __init__(self, value: object, *marks: str) -> None:
        self.nodeid = f"sessions/tests/test_it.py::test_it[{value}]"
        self._marks = marks

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self._marks else None


def left(*cases: Case) -> list[Case]:
    return cast(list[Case], left_to_the_week(cast(list[pytest.Function], cases)))


@pytest.fixture(autouse=True)
def _no_weekly_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORYENGINE_TEST_STRIDE", raising=False)


def test_of_a_sweep_one_case_in_six_is_tried_in_whichever_order_they_come() -> None:
    cases = [Case(number, "sweep") for number in range(13)]
    tried = set(cases) - set(left(*cases))
    assert len(tried) == 3
    assert tried == set(cases) - set(left(*cases[::-1]))


def test_of_a_short_sweep_one_case_is_tried() -> None:
    assert len(left(Case(1, "sweep"), Case(2, "sweep"))) == 1


def test_other_tests_are_tried_and_weekly_ones_are_not() -> None:
    other, weekly = Case(1), Case(2, "weekly")
    assert left(other, weekly) == [weekly]
    assert few(3, 9) == 3


def test_the_weekly_run_tries_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORYENGINE_TEST_STRIDE", "1")
    assert left(Case(1, "sweep"), Case(2, "sweep"), Case(3, "weekly")) == []
    assert few(3, 9) == 9
