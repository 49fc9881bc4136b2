"""Chooses the tests that each run tries and those that it leaves to the weekly run.

The weekly run tries each case of each test: STORYENGINE_TEST_STRIDE=1 make test. A run after each
change has to be quick, so it tries

- each function that needs neither the database nor a process, with all its cases
- of a function that needs the database, one case, or all if the function has the mark `each_case`
- of the functions that need the database, all in the folders of `CORE`, one in `FRONT_ONE_IN` of
  those that ask pages, the API or files, and one in `OTHER_ONE_IN` of the rest
- of the functions that start a browser, the program or the embedded model, one in `LONG_ONE_IN`
- each function with the mark `each_run`, which is what must never break (but one case only of those
  that start a browser, the program or the embedded model), and on one stack each function with the
  mark `each_run_on_files` or `each_run_on_servers`
- no function with the mark `weekly`, which takes long

and of a play that chance makes, it plays `few` instead of many. Of modules that are named on the
command line nothing is left out: whoever changes something runs the tests of it whole.
"""

import os
import zlib
from collections.abc import Collection

import pytest

LONG_ONE_IN, FRONT_ONE_IN, OTHER_ONE_IN = 16, 4, 2
# The marks of tests that start processes and mostly wait for these processes.
LONG = frozenset({"browser", "processes", "real_model"})
# The folders in which turns, jobs and memory are stored, claimed and folded.
CORE = ("sessions/", "agents/running/", "memory/")
# The folders whose code stands in front of the others: gates, pages, the API and files.
FRONT = tuple(
    f"storyengine/{name}/"
    for name in ("access", "api", "books", "exchange", "operations", "tabs", "tests")
)
# The fixtures of pytest-django that a test requests if it reads or writes rows.
DATABASE = frozenset({"db", "transactional_db", "live_server"})


def is_weekly() -> bool:
    return os.environ.get("STORYENGINE_TEST_STRIDE") == "1"


def _stack() -> str:
    return "servers" if os.environ.get("STORYENGINE_TEST_DATABASE_URL") else "files"


def few(each_time: int, weekly: int) -> int:
    """Return the number of examples or turns: `weekly` in the weekly run, and otherwise
    `each_time`."""
    return weekly if is_weekly() else each_time


def left_to_the_week(tests: Collection[pytest.Function]) -> list[pytest.Function]:
    if is_weekly():
        return []
    functions: dict[str, list[pytest.Function]] = {}
    for test in tests:
        functions.setdefault(function_of(test), []).append(test)
    return [
        case
        for name, cases in functions.items()
        for case in (cases if _is_left(name, cases[0]) else _left_cases(cases))
    ]


def function_of(test: pytest.Function) -> str:
    return test.nodeid.partition("[")[0]


def marks_of(test: pytest.Function) -> set[str]:
    return {mark.name for mark in test.iter_markers()}


def needs_database(test: pytest.Function) -> bool:
    return "django_db" in marks_of(test) or not DATABASE.isdisjoint(test.fixturenames)


def checksum(name: str) -> int:
    """Return a number by which the choice is the same in every run and in every process, and is not
    always the first and simplest one."""
    return zlib.crc32(name.encode())


def choose_case(cases: Collection[pytest.Function]) -> pytest.Function:
    return min(cases, key=lambda case: (checksum(case.nodeid), case.nodeid))


def _is_left(name: str, test: pytest.Function) -> bool:
    marks = marks_of(test)
    if not marks.isdisjoint({"each_run", f"each_run_on_{_stack()}"}):
        return False
    if "weekly" in marks:
        return True
    if not LONG.isdisjoint(marks):
        return checksum(name) % LONG_ONE_IN != 0
    if not needs_database(test) or name.startswith(CORE):
        return False
    one_in = FRONT_ONE_IN if name.startswith(FRONT) else OTHER_ONE_IN
    return checksum(name) % one_in != 0


def _left_cases(cases: list[pytest.Function]) -> list[pytest.Function]:
    marks = marks_of(cases[0])
    is_long = not LONG.isdisjoint(marks)
    tries_all = "each_case" in marks or ("each_run" in marks and not is_long)
    if tries_all or not (is_long or needs_database(cases[0])):
        return []
    chosen = choose_case(cases)
    return [case for case in cases if case is not chosen]
