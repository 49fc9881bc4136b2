import json
from pathlib import Path
from typing import Any

from bench.embedded_memory import RESULTS, earlier_results, memory_figures


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
    assert earlier_results(None) == []
