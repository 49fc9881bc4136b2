"""Tests of the figures of bench.scale that need no running program."""

import pytest

from bench.scale import Followed, figures_of
from bench.scale_backlog import PATIENCE_SECONDS, lock_figure
from bench.scale_caps import CAP, cap_figure
from bench.scale_turns import count_statements, turn_figure

LOG = """
2026-11-28 09:00:00.000 UTC [1] LOG:  statement: BEGIN
2026-11-28 09:00:00.001 UTC [1] LOG:  statement: SELECT "sessions_session"."title" FROM
        "sessions_session"
2026-11-28 09:00:00.002 UTC [1] LOG:  execute <unnamed>: update "sessions_attempt" SET "words" = 'a'
2026-11-28 09:00:00.002 UTC [1] DETAIL:  parameters: $1 = 'INSERT'
2026-11-28 09:00:00.003 UTC [1] LOG:  statement: COMMIT
2026-11-28 09:00:00.004 UTC [1] LOG:  received SIGHUP, reloading configuration files
"""


def test_statements_are_counted_without_the_ends_of_transactions() -> None:
    assert count_statements(LOG) == (2, 1)
    assert count_statements("") == (0, 0)


def test_a_turn_has_the_median_of_its_statements() -> None:
    figure = turn_figure(10_300.0, [(48, 14), (50, 15), (90, 30)], "here")
    assert "10 KB" in figure.value
    assert "50 statements of the prompt, 15 of them writes" in figure.value


@pytest.mark.parametrize(
    ("seconds", "passed", "told"),
    [
        ([0.1, 1.9], True, "1.00 and 1.90 s"),
        ([0.1, 2.1], False, "1.10 and 2.10 s"),
        ([0.1, PATIENCE_SECONDS], False, "not within 60 s"),
    ],
)
def test_the_worst_lock_decides(seconds: list[float], passed: bool, told: str) -> None:
    figure = lock_figure(seconds, 3_000, "here")
    assert (figure.passed, figure.value) == (passed, told)


@pytest.mark.parametrize(("through", "above"), [(CAP - 1, 0), (CAP, 0), (CAP + 3, 3)])
def test_calls_above_the_cap_are_counted(through: int, above: int) -> None:
    figure = cap_figure(through, [201] * through + [429] * (2 * CAP - through), "here")
    assert (figure.measured, figure.passed) == (above, above == 0)


def test_elsewhere_the_first_words_may_take_twice_as_long() -> None:
    writer, near, far = Followed(), Followed(), Followed()
    for followed, first in ((writer, 1.0), (near, 1.9), (far, 2.1)):
        followed.take([first, first + 0.1])
    assert figures_of("here", writer)[0].passed is None
    assert figures_of("there", near, beside=writer)[0].passed
    assert not figures_of("there", far, beside=writer)[0].passed
