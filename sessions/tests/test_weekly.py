"""Tests of the choice of tests that are left to the weekly run."""

from typing import Any, cast

import pytest

from sessions.tests.weekly import (
    few,
    left_to_the_week,
)

PAGES = "storyengine/tabs/tests/test_it.py"
MEMORY = "memory/tests/test_it.py"


class Mark:
    def __init__(self, name: str) -> None:
        self.name = name


class Case:
    """What the choice reads of a test."""

    fixturenames: tuple[str, ...] = ()

    def __init__(self, name: str, *marks: str, file: str = MEMORY) -> None:
        self.nodeid = f"{file}::{name}"
        self._marks = marks

    def iter_markers(self) -> list[Mark]:
        return [Mark(name) for name in self._marks]


def tried(*cases: Case) -> list[Case]:
    left = left_to_the_week(cast(list[Any], cases))
    return [case for case in cases if case not in cast(list[Any], left)]


def functions(*marks: str, file: str = MEMORY) -> list[Case]:
    return [Case(f"test_{number}", *marks, file=file) for number in range(600)]


@pytest.fixture(autouse=True)
def _no_weekly_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORYENGINE_TEST_STRIDE", raising=False)


def test_of_a_function_with_the_database_one_case_is_tried_in_whichever_order_they_come() -> None:
    cases = [Case(f"test_it[{number}]", "django_db") for number in range(13)]
    assert len(tried(*cases)) == 1
    assert tried(*cases) == tried(*cases[::-1])


@pytest.mark.parametrize("marks", [("processes", "each_run"), ("browser", "each_run")])
def test_of_what_must_never_break_one_case_is_tried_if_it_starts_the_program(
    marks: tuple[str, ...],
) -> None:
    cases = [Case(f"test_it[{number}]", *marks) for number in range(13)]
    assert len(tried(*cases)) == 1


def test_weekly_ones_are_not_tried() -> None:
    other, weekly = Case("test_it"), Case("test_also", "weekly")
    assert tried(other, weekly) == [other]
    assert few(3, 9) == 3


def test_the_weekly_run_tries_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORYENGINE_TEST_STRIDE", "1")
    cases = [*functions("browser"), *functions("weekly"), *functions("django_db", file=PAGES)]
    assert tried(*cases) == cases
    assert few(3, 9) == 9
