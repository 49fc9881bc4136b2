"""Tests of the choice of tests that run on both stacks."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storyengine.tests.both_stacks import is_at_an_edge, on_both_stacks

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


def test_of_pages_one_function_in_eight_is_tried_and_all_in_the_week(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = [f"storyengine/tabs/tests/test_{number}.py" for number in range(400)]
    tried = [path for path in paths if chosen(["a"], path=path)]
    assert 30 < len(tried) < 70
    monkeypatch.setenv("STORYENGINE_TEST_STRIDE", "1")
    assert all(chosen(["a"], path=path) for path in paths)


def test_a_value_that_databases_may_treat_differently_is_tried_too() -> None:
    [one] = chosen(VALUES)
    assert {"a\x00b", 2**63} <= set(chosen([*VALUES, "a\x00b", 2**63])) <= {one, "a\x00b", 2**63}


def test_other_code_is_tried_too() -> None:
    assert {len, sum} <= set(chosen([len, sum, "a"]))


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


@pytest.mark.parametrize(
    "about",
    [{"fixturenames": ()}, {"marks": (pytest.mark.one_stack.mark,)}],
    ids=["no database", "one stack"],
)
def test_what_meets_no_server_is_not_tried_again(about: dict[str, Any]) -> None:
    assert chosen(VALUES, **about) == []


@pytest.mark.parametrize(
    "value",
    [
        *("a\x00b", "a\x1bb", "Wörter", "\ud800", "%00", b"\xff", "x" * 41, "9" * 30, "\\u0000"),
        *(2**15, -(2**15), 10**400, 1e308, math.nan, math.inf),
        *([1, [2**63]], {"deep": {"er": ("\x00",)}}, {"a\x00": 1}),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_databases_may_treat_such_a_value_differently(value: object) -> None:
    assert is_at_an_edge(value)


@pytest.mark.parametrize("value", ["a word\n", "", "100 %", 7, -1, 2.5, None, True, [1, "x"], {}])
def test_databases_treat_such_a_value_alike(value: object) -> None:
    assert not is_at_an_edge(value)
