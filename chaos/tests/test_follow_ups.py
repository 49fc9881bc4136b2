"""The rules for late results and for turns without a prompt notice what breaks them."""

from collections.abc import Callable
from typing import Any

import pytest

from chaos.follow_ups import MOST_RUNS, late_results, turns_alone
from chaos.tests.test_invariants import LONG_AGO, Rows, chapter_rows, job_row, set_fields

LEVEL = {"level": 3}


def with_late_result() -> Rows:
    """Return a chapter in which turn 3 asked for a result, which turn 5 has taken."""
    chapter = chapter_rows()
    chapter["jobs"].append(result_of(3))
    chapter["changes"].append(taking(5))
    return chapter


def result_of(number: int, **changes: Any) -> Rows:
    """Return the job of a result that was finished before turn 5 began."""
    named = {"kind": "tide", "result_kind": "tide_came", "result": LEVEL, "job_id": "result"}
    job = job_row("tide", "done", number, number)
    return {**job, **named, "updated_at": LONG_AGO + 81, **changes}


def taking(number: int, run: str = "") -> Rows:
    return {
        "attempt_id": f"attempt-{number}",
        "run_id": run or f"run-{number}",
        "kind": "tide_came",
        "payload": LEVEL,
        "result": "result",
    }


def with_turn_alone() -> Rows:
    """Return a chapter whose turn 5 had no prompt, and followed turn 4."""
    chapter = chapter_rows()
    chapter["most_turns_alone"] = 1
    act_alone(chapter, 5)
    return chapter


def act_alone(chapter: Rows, number: int) -> None:
    before = number - 1
    chapter["attempts"][before].update(key=f"after attempt-{before}", words="")
    job = job_row("go_on", "done", 0, 0)
    chapter["jobs"].append({**job, "attempt_id": f"attempt-{before}"})


def job(chapter: Rows) -> Rows:
    found: Rows = chapter["jobs"][-1]
    return found


def answer_nobody(chapter: Rows) -> None:
    """Let the job after the latest turn be done although nothing came after this turn."""
    chapter["jobs"].append({**job_row("go_on", "done"), "attempt_id": "attempt-9"})


def end_without(chapter: Rows) -> None:
    """End the chapter although the result was never worked out."""
    chapter["changes"].clear()
    job(chapter)["status"] = "cancelled"
    chapter["state"] = "ENDED"


RESULTS: list[Callable[[Rows], object]] = [
    lambda c: c["changes"].append(taking(6)),
    lambda c: c["changes"].append({**taking(5), "payload": {}}),
    lambda c: set_fields(job(c), result={"level": 4}),
    lambda c: set_fields(job(c), result_kind="wind"),
    lambda c: set_fields(job(c), status="void"),
    lambda c: set_fields(job(c), status="queued"),
    lambda c: set_fields(job(c), attempt_id="attempt-x"),
    lambda c: set_fields(job(c), attempt_id="attempt-5"),
    lambda c: c["jobs"].pop(),
    lambda c: c["changes"].pop(),
    # A change of an earlier run does not count.
    lambda c: set_fields(c["changes"][-1], run_id="an earlier run"),
    end_without,
]
ALONE: list[Callable[[Rows], object]] = [
    lambda c: c["jobs"].pop(),
    lambda c: set_fields(c["attempts"][4], words="Go on."),
    lambda c: set_fields(c["attempts"][4], key="after attempt-3"),
    lambda c: set_fields(c["attempts"][4], key="after attempt-x"),
    lambda c: set_fields(job(c), status="cancelled"),
    lambda c: set_fields(job(c), status="failed"),
    lambda c: c.update(most_turns_alone=0),
    lambda c: act_alone(c, 6),
    answer_nobody,
]


def test_a_result_that_was_taken_once_waits_or_is_void_breaks_no_rule() -> None:
    assert list(late_results(with_late_result(), 0)) == []
    chapter = with_late_result()
    # It waits for a run that begins later, and so it does while its attempt is not chosen.
    chapter["changes"].clear()
    job(chapter)["updated_at"] = LONG_AGO + 171
    assert list(late_results(chapter, 0)) == []
    job(chapter).update(updated_at=LONG_AGO, attempt_id="attempt-x")
    assert list(late_results(chapter, 0)) == []
    job(chapter).update(attempt_id="attempt-3", status="void")
    assert list(late_results(chapter, 0)) == []


def test_a_kept_or_an_edited_reply_takes_nothing_new() -> None:
    chapter = with_late_result()
    chapter["changes"].clear()
    for one in chapter["attempts"][4:]:
        one["kind"] = "edit"
    assert list(late_results(chapter, 0)) == []
    for one in chapter["attempts"][4:]:
        one.update(kind="prompt", text_run_id=one["run_id"])
    assert list(late_results(chapter, 0)) == []


@pytest.mark.parametrize("number", range(len(RESULTS)))
def test_the_rule_for_late_results_notices_what_breaks_it(number: int) -> None:
    chapter = with_late_result()
    RESULTS[number](chapter)
    assert list(late_results(chapter, 0))


def test_a_turn_without_a_prompt_breaks_no_rule() -> None:
    assert list(turns_alone(with_turn_alone(), 0)) == []


def test_a_job_may_end_because_the_user_came_first_or_the_chapter_is_over() -> None:
    chapter = with_turn_alone()
    chapter["jobs"].append({**job_row("go_on", "done"), "attempt_id": "attempt-7"})
    assert list(turns_alone(chapter, 0)) == []
    answer_nobody(chapter)
    chapter["state"] = "ENDED"
    assert list(turns_alone(chapter, 0)) == []
    chapter.update(state="ACTIVE", is_ending=True)
    assert list(turns_alone(chapter, 0)) == []


def test_a_job_that_ended_all_its_workers_is_given_up() -> None:
    chapter = with_turn_alone()
    job(chapter).update(status="failed", runs=MOST_RUNS)
    assert list(turns_alone(chapter, 0)) == []


@pytest.mark.parametrize("number", range(len(ALONE)))
def test_the_rule_for_turns_without_a_prompt_notices_what_breaks_it(number: int) -> None:
    chapter = with_turn_alone()
    ALONE[number](chapter)
    assert list(turns_alone(chapter, 0))
