"""Tests of the choice of tests that run on both stacks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storyengine.tests.both_stacks import on_both_stacks

VALUES = ["a", "b", "c"]


@dataclass
class Case:
    """What the choice reads of a test."""

    value: object
    path: str = "sessions/tests/test_it.py"
    marks: tuple[pytest.Mark, ...] = ()
    fixturenames: tuple[str, ...] = ("db",)
    callspec: Any = field(init=False)

    def __post_init__(self) -> None:
        self.callspec = SimpleNamespace(params={"value": self.value})

    @property
    def nodeid(self) -> str:
        return f"{self.path}::test_it[{self.value!r}]"

    def iter_markers(self, name: str | None = None) -> Iterator[pytest.Mark]:
        return (mark for mark in self.marks if name in (None, mark.name))


def chosen(values: list[Any], **about: Any) -> list[object]:
    cases = cast(list[pytest.Function], [Case(value, **about) for value in values])
    return [cast(Case, case).value for case in on_both_stacks(cases)]


@pytest.fixture(autouse=True)
def _no_weekly_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORYENGINE_TEST_STRIDE", raising=False)


def test_one_case_stands_for_the_others_in_whichever_order_they_come() -> None:
    [one] = chosen(VALUES)
    assert chosen(VALUES[::-1]) == [one]


@pytest.mark.parametrize(
    "about",
    [
        {"path": "storyengine/stack/tests/test_it.py"},
        {"marks": (pytest.mark.processes.mark,)},
        {"marks": (pytest.mark.each_case.mark, pytest.mark.django_db.mark)},
        {"marks": (pytest.mark.django_db(transaction=True).mark,)},
        {"fixturenames": ("transactional_db",)},
    ],
    ids=["of servers", "processes", "each case", "commits", "commits in a fixture"],
)
def test_all_cases_are_tried_of_what_is_about_servers_or_commits(about: dict[str, Any]) -> None:
    assert chosen(VALUES, **about) == VALUES


def test_the_weekly_run_tries_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORYENGINE_TEST_STRIDE", "1")
    assert chosen(VALUES) == VALUES
