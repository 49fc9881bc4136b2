"""Chooses the tests that run on both stacks: on SQLite with files, and on PostgreSQL with Redis.

Each test function that meets a database or a broker runs on both stacks. Most cases of one function
run the same code with different values, and only some values can make a difference between the
stacks. So the second stack runs one case of a function, and also:

- each case that is given code, such as a function or a model, because its queries are other ones
- each case with a value at the edge of what databases take, such as a NUL or a large number
- each case of a function that really commits or that starts the program
- each case in the folders of tests that are about the database or the broker itself
- each case of a function with the mark `each_case`, if the values have names that hide them

What runs whole is `sessions`, where rows are claimed, locked and committed, the runner of
`agents/running`, the folders about the servers themselves, and what starts the program. Everything
else calls these: of its functions one in eight runs on the second stack.

A run leaves the rest to the weekly run, with STORYENGINE_TEST_STRIDE=1 (`sessions/tests/weekly.py`
says what it leaves on both stacks).
"""

import re
from collections.abc import Collection, Mapping

import pytest

from sessions.tests.weekly import (
    checksum,
    choose_case,
    function_of,
    is_weekly,
    marks_of,
    needs_database,
)

# The marks of tests that behave the same with each database and each broker. These tests look at
# pages, run the embedded model, or check requests that are refused before anything is stored.
_ONE_STACK = {"browser", "real_model", "one_stack"}
# The fixtures of pytest-django with which a test's rows are committed.
_COMMITTING = {"transactional_db", "live_server"}
_OF_SERVERS = ("storyengine/stack/", "storyengine/backups/")
# The folders whose functions all run on the second stack, and of how many others one does.
_WHOLE = ("sessions/", "agents/running/", *_OF_SERVERS)
_ONE_IN = 8
# PostgreSQL holds a text to the length of its column, of which the shortest has 40 characters.
_PLAIN_TEXT = re.compile(r"[\n -~]{0,40}")
# A character that is written as in an address or in JSON, such as %00 or \u0000, or a large number.
_TELLING = re.compile(r"%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\d{5}")
# PostgreSQL's smallest integers end here. SQLite's integers have eight bytes.
_LARGE = 2**15


def on_both_stacks(tests: Collection[pytest.Function]) -> list[pytest.Function]:
    functions: dict[str, list[pytest.Function]] = {}
    for test in tests:
        if _meets_servers(test):
            functions.setdefault(function_of(test), []).append(test)
    return [
        case
        for name, cases in functions.items()
        if _starts_program(cases) or not _is_left_to_the_week(name)
        for case in _that_may_differ(cases)
    ]


def _is_left_to_the_week(name: str) -> bool:
    """Return whether only the weekly run tries the function on the second stack."""
    return not (is_weekly() or name.startswith(_WHOLE)) and checksum(name) % _ONE_IN != 0


def _starts_program(cases: Collection[pytest.Function]) -> bool:
    return any("processes" in marks_of(case) for case in cases)


def _meets_servers(test: pytest.Function) -> bool:
    marks = marks_of(test)
    return (
        test.nodeid.startswith(_OF_SERVERS) or "processes" in marks or needs_database(test)
    ) and marks.isdisjoint(_ONE_STACK)


def _that_may_differ(cases: list[pytest.Function]) -> list[pytest.Function]:
    one = cases[0]
    if (
        is_weekly()
        or one.nodeid.startswith(_OF_SERVERS)
        or _starts_program(cases)
        or any("each_case" in marks_of(case) for case in cases)
        or _commits(one)
    ):
        return cases
    chosen = choose_case(cases)
    return [case for case in cases if case is chosen or _may_differ(case)]


def _commits(test: pytest.Function) -> bool:
    """Return whether the test's transactions are real ones, which other connections see."""
    return not _COMMITTING.isdisjoint(test.fixturenames) or any(
        mark.kwargs.get("transaction") for mark in test.iter_markers("django_db")
    )


def _may_differ(test: pytest.Function) -> bool:
    call = getattr(test, "callspec", None)
    if call is None:
        return False
    return any(callable(value) or is_at_an_edge(value) for value in call.params.values())


def is_at_an_edge(value: object) -> bool:
    """Return whether databases may treat this value differently, or a value inside it. Fields of
    objects are not looked into."""
    match value:
        case bytes():
            return is_at_an_edge(value.decode(errors="replace"))
        case str():
            return not _PLAIN_TEXT.fullmatch(value) or bool(_TELLING.search(value))
        case int() | float():
            return not -_LARGE < value < _LARGE
        case Mapping():
            return any(is_at_an_edge(part) for pair in value.items() for part in pair)
        case list() | tuple() | set() | frozenset():
            return any(map(is_at_an_edge, value))
    return False
