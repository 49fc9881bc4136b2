"""Chooses the tests that each run tries and those that it leaves to the weekly run.

The weekly run tries each case of each test: STORYENGINE_TEST_STRIDE=1 make test. A run after each
change has to be quick. So it leaves out

- of a function with the mark `sweep`, which tries one rule with many values, all but one case in
  `ONE_IN`
- each test with the mark `weekly`: it tries a migration, which nobody changes any more

and of a play that chance makes, it plays `few` instead of many.
"""

import math
import os
import zlib
from collections.abc import Collection

import pytest

ONE_IN = 6


def is_weekly() -> bool:
    return os.environ.get("STORYENGINE_TEST_STRIDE") == "1"


def few(each_time: int, weekly: int) -> int:
    """Return the number of examples or turns: `weekly` in the weekly run, and otherwise
    `each_time`."""
    return weekly if is_weekly() else each_time


def left_to_the_week(tests: Collection[pytest.Function]) -> list[pytest.Function]:
    if is_weekly():
        return []
    sweeps: dict[str, list[pytest.Function]] = {}
    left = []
    for test in tests:
        if test.get_closest_marker("weekly"):
            left.append(test)
        elif test.get_closest_marker("sweep"):
            sweeps.setdefault(test.nodeid.partition("[")[0], []).append(test)
    for cases in sweeps.values():
        # A checksum of the case's name puts the cases in an order. So the choice is the same in
        # every run and in every process, and it is not always the first and simplest case.
        cases.sort(key=lambda case: (zlib.crc32(case.nodeid.encode()), case.nodeid))
        left += cases[math.ceil(len(cases) / ONE_IN) :]
    return left
