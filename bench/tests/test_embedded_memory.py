import json
from pathlib import Path
from typing import Any

import pytest

from bench.embedded_memory import (
    RESULTS,
    check_same_run,
    earlier_results,
    memory_figures,
    where_to_go_on,
)
from testing.http_calls import RunError


def results(kind: str, valid: int, broken: int, seconds: float = 30.0) -> list[dict[str, Any]]:
    one = {"kind": kind, "seconds": seconds, "calls": 1, "is_valid": True}
    return [one] * valid + [{**one, "calls": 2, "is_valid": False}] * broken


def verdicts(played: list[dict[str, Any]]) -> list[bool | None]:
    return [figure.passed for figure in memory_figures(played)]


def test_thirty_eight_of_forty_are_enough() -> None:
    assert verdicts(results("lock", 38, 2) + results("delta", 40, 0)) == [True] * 4
    assert verdicts(results("lock", 37, 3)) == [False, True]


def test_a_slow_median_is_missed() -> None:
    assert verdicts(results("delta", 21, 0, 46.0) + results("delta", 19, 0)) == [True, False]


def test_a_run_that_was_cut_short_tells_what_there_is() -> None:
    assert [figure.value for figure in memory_figures(results("lock", 2, 0))] == [
        "2 of 2 (0 of them repaired)",
        "30.0 s (worst 30.0 s)",
    ]
    assert memory_figures([]) == []


def test_a_kept_folder_tells_what_earlier_runs_found(tmp_path: Path) -> None:
    found = results("lock", 1, 1)
    (tmp_path / RESULTS).write_text("".join(json.dumps(one) + "\n" for one in found))
    assert earlier_results(tmp_path) == found
    assert earlier_results(tmp_path / "new") == []


def test_a_run_goes_on_with_what_is_missing() -> None:
    lock, delta, invalid = (*results("lock", 1, 0), *results("delta", 1, 0), *results("lock", 0, 1))
    assert where_to_go_on([]) == (0, 0)
    assert where_to_go_on([lock]) == (0, 1)
    assert where_to_go_on([lock, delta]) == (1, 1)
    assert where_to_go_on([lock, delta, invalid]) == (1, 2)


def test_a_kept_folder_takes_no_other_run(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    check_same_run(folder, "a session")
    check_same_run(folder, "a session")
    with pytest.raises(RunError, match="keeps a run of a session, not of another"):
        check_same_run(folder, "another")
