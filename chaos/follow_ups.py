"""Checks of late results, and of turns in which somebody acts without a prompt.

These are further rules of `chaos.invariants`. They too use nothing but the rows.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from chaos.states import AFTER_PLAY, IN_PLAY

Rows = dict[str, Any]

# If a late result was finished this many seconds before a run began, the run must take it.
# Both times are of the processes that stored them, whose clocks may differ by 15 seconds.
STORED_SECONDS = 25.0
# A job whose workers died is given up after this many runs.
MOST_RUNS = 6
# The kind of job in which somebody acts without a prompt, and the beginning of the key of an
# attempt that such a job makes.
GO_ON, AFTER = "go_on", "after "


def late_results(chapter: Rows, _read_at: float) -> Iterator[str]:
    """If a chosen attempt asked for a late result, a later chosen attempt has taken the result
    once, or the result waits for the next run, or it is void."""
    chosen = chosen_attempts(chapter)
    results = {job["job_id"]: job for job in chapter["jobs"] if job["result_kind"]}
    taken: Counter[str] = Counter()
    for change in chapter["changes"]:
        taker = chosen.get(change["attempt_id"])
        if change["result"] and taker is not None and change["run_id"] == taker["run_id"]:
            taken[change["result"]] += 1
            yield from _wrongly_taken(change, taker, results.get(change["result"]), chosen)
    for job_id, job in results.items():
        asker = chosen.get(job["attempt_id"])
        if taken[job_id] > 1:
            yield f"{job_id} was taken {taken[job_id]} times"
        elif asker is not None and job["status"] == "cancelled" and chapter["state"] in AFTER_PLAY:
            yield f"{job_id} was not asked for again"
        elif asker is not None and job["status"] == "done" and not taken[job_id]:
            yield from _left(job, asker, chosen)


def _wrongly_taken(
    change: Rows, taker: Rows, job: Rows | None, chosen: dict[str, Rows]
) -> Iterator[str]:
    asker = chosen.get(job["attempt_id"]) if job else None
    is_due = asker is not None and asker["number"] < taker["number"]
    if job is None or job["status"] != "done" or not is_due:
        yield f"turn {taker['number']} took {change['result']}: {job}"
    elif (job["result_kind"], job["result"]) != (change["kind"], change["payload"]):
        yield f"turn {taker['number']} made {change['payload']} of {job['result']}"


def _left(job: Rows, asker: Rows, chosen: dict[str, Rows]) -> Iterator[str]:
    """Yield a violation for each run that did not take the late result, although the result was
    finished before the run began."""
    for later in chosen.values():
        # A reply that was edited, or kept after it broke off, has the changes of an earlier run.
        # Its own run takes no late result.
        is_run = later["kind"] != "edit" and later["text_run_id"] != later["run_id"]
        began = later["submitted_at"] - STORED_SECONDS
        if is_run and later["number"] > asker["number"] and began > job["updated_at"]:
            yield f"turn {later['number']} left {job['job_id']}"


def turns_alone(chapter: Rows, _read_at: float) -> Iterator[str]:
    """Each attempt without a prompt was made by a job of the turn before.

    Each of these jobs was done once, or ended because something else was played first. There are
    never more turns without a prompt in a row than the mode allows.
    """
    attempts = {attempt["attempt_id"]: attempt for attempt in chapter["attempts"]}
    jobs = {job["attempt_id"]: job for job in chapter["jobs"] if job["kind"] == GO_ON}
    for attempt in attempts.values():
        if not attempt["key"].startswith(AFTER):
            continue
        before = attempts.get(attempt["key"].removeprefix(AFTER))
        if before is None or before["attempt_id"] not in jobs or attempt["words"]:
            yield f"nobody asked for {attempt}"
        elif attempt["status"] == "committed" and attempt["number"] != before["number"] + 1:
            yield f"turn {attempt['number']} follows turn {before['number']}"
    for attempt_id, job in jobs.items():
        yield from _ended_otherwise(chapter, job, attempts[attempt_id])
    alone = 0
    for one in chosen_attempts(chapter).values():
        alone = alone + 1 if one["key"].startswith(AFTER) else 0
        if alone > chapter["most_turns_alone"]:
            yield f"turn {one['number']} is number {alone} of those without a prompt"


def _ended_otherwise(chapter: Rows, job: Rows, before: Rows) -> Iterator[str]:
    if job["status"] in ("cancelled", "void"):
        yield f"{job['job_id']} is {job['status']}"
    elif job["status"] == "failed" and job["runs"] < MOST_RUNS:
        yield f"{job['job_id']} failed after {job['runs']} runs"
    elif job["status"] == "done":
        was_played = any(
            one["key"] == f"{AFTER}{before['attempt_id']}"
            or one["submitted_at"] > before["committed_at"]
            for one in chapter["attempts"]
        )
        is_chosen = before["attempt_id"] in chosen_attempts(chapter)
        is_in_play = chapter["state"] in IN_PLAY and not chapter["is_ending"]
        if is_chosen and is_in_play and not was_played:
            yield f"{job['job_id']} is done, and nobody acted"


def chosen_attempts(chapter: Rows) -> dict[str, Rows]:
    """Return the chosen attempts in the order of their turns. The keys are the ids of the
    attempts."""
    attempts = {attempt["attempt_id"]: attempt for attempt in chapter["attempts"]}
    chosen = [turn["chosen"] for turn in chapter["turns"]]
    return {one: attempts[one] for one in chosen if one in attempts}
