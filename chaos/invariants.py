"""Checks rules that hold for every chapter at every moment.

The rules read the rows that chaos.rows prints. Each rule yields a sentence for each violation. This
module uses no code of the program, so that a mistake in the program cannot hide itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from chaos.follow_ups import late_results, turns_alone
from chaos.journal import Journal, Violation
from chaos.states import AFTER_PLAY, BEFORE_PLAY, BEING_STORED, IN_PLAY, WORK_OF_STATE
from chaos.worlds import (
    nobody_is_double,
    secrets_are_kept,
    simulations_are_told,
    simulations_were_asked_for,
    world_is_a_fold,
)

Rows = dict[str, Any]
Rule = Callable[[Rows, float], Iterator[str]]

# Work that has waited for more than this number of seconds counts as stuck.
PATIENCE_SECONDS = 60.0
# If the process that stores a chapter stores nothing for this number of seconds, the unfinished
# chapter is removed.
STORING_SECONDS = 120.0

LIVE = ("queued", "running")


def find_violations(snapshot: Rows, journal: Journal) -> list[Violation]:
    """Return every violation: each mistake in the rows of the chapters, and each difference between
    the rows and the answers that the client has received."""
    read_at = float(snapshot["read_at"])
    stored = [chapter for chapter in snapshot["chapters"] if chapter["state"] != BEING_STORED]
    found = [
        Violation(name, chapter["session_id"], detail)
        for chapter in stored
        for name, rule in RULES.items()
        for detail in rule(chapter, read_at)
    ]
    found += [
        Violation("nothing is stuck", chapter["session_id"], "nobody stores or removes it")
        for chapter in snapshot["chapters"]
        if chapter["state"] == BEING_STORED
        and chapter["updated_at"] < read_at - STORING_SECONDS - PATIENCE_SECONDS
    ]
    by_id = {chapter["session_id"]: chapter for chapter in stored}
    return [*found, *_strayed_forks(by_id), *_broken_promises(by_id, journal)]


def numbered_turns(chapter: Rows, _read_at: float) -> Iterator[str]:
    """The turns have the numbers 1 to n. The chosen attempt of each turn is one of the turn's
    committed attempts."""
    numbers = [turn["number"] for turn in chapter["turns"]]
    if numbers != list(range(1, chapter["prompt_index"] + 1)):
        yield f"turns are {numbers}, prompt_index is {chapter['prompt_index']}"
    attempts = {attempt["attempt_id"]: attempt for attempt in chapter["attempts"]}
    for turn in chapter["turns"]:
        chosen = attempts.get(turn["chosen"])
        if chosen is None or (chosen["number"], chosen["status"]) != (turn["number"], "committed"):
            yield f"turn {turn['number']} goes by {chosen}"


def attempts_and_events(chapter: Rows, _read_at: float) -> Iterator[str]:
    """A committed attempt has its words as its first event, if it has words. All other events are
    its reply.

    The reply is one event, or at least one event if the mode makes events of its own. An attempt
    that is not committed has no event.
    """
    said: dict[str, list[Rows]] = {}
    for event in chapter["events"]:
        said.setdefault(event["attempt_id"], []).append(event)
    for attempt in chapter["attempts"]:
        events = said.pop(attempt["attempt_id"], [])
        is_committed = attempt["status"] == "committed"
        asked = ["user"] if attempt["words"] and is_committed else []
        roles = [event["role"] for event in events]
        told = roles[len(asked) :]
        numbers = {event["prompt_index"] for event in events}
        is_told = bool(told) if chapter["has_outcome"] else len(told) == 1
        is_whole = (is_told, numbers) == (True, {attempt["number"]}) if is_committed else not told
        if roles[: len(asked)] != asked or "user" in told or not is_whole:
            yield f"attempt {attempt['attempt_id']} ({attempt['status']}) has {roles} at {numbers}"
        elif asked and events[0]["text"] != attempt["words"]:
            yield f"attempt {attempt['attempt_id']} has other words than its event"
    if said:
        yield f"events of no attempt: {sorted(said)}"


def tiled_memory(chapter: Rows, _read_at: float) -> Iterator[str]:
    """The deltas that count cover each prompt up to the summary pointer exactly once. An attempt
    has at most one delta of a stretch for each audience."""
    chosen = {turn["chosen"] for turn in chapter["turns"]}
    every = [block for block in chapter["blocks"] if block["type"] == "turn_delta"]
    deltas = sorted(
        {
            (block["from_prompt_index"], block["to_prompt_index"])
            for block in every
            if block["attempt_id"] in chosen
        }
    )
    pointer = chapter["last_summarized_prompt_index"]
    covered = [index for first, last in deltas for index in range(first, last + 1)]
    if covered != list(range(1, pointer + 1)) or any(last < first for first, last in deltas):
        yield f"deltas {deltas} do not tile 1 to {pointer}"
    if pointer > chapter["prompt_index"]:
        yield f"memory covers {pointer} prompts of {chapter['prompt_index']}"
    size = chapter["chunk_size_prompts"]
    if any((last - first + 1) > size for first, last in deltas):
        yield f"deltas {deltas} are longer than {size} prompts"
    told = Counter(
        (block["attempt_id"], block["from_prompt_index"], tuple(block["audience"]))
        for block in every
    )
    for (attempt, first, audience), count in told.items():
        if count > 1:
            yield f"{count} blocks for {audience} from prompt {first} on end with {attempt}"


def legal_state(chapter: Rows, _read_at: float) -> Iterator[str]:
    """The chapter has an allowed state, and its rows fit this state."""
    state, pointer = chapter["state"], chapter["last_summarized_prompt_index"]
    if state not in (*BEFORE_PLAY, *IN_PLAY, *AFTER_PLAY):
        yield f"there is no such state: {state}"
    locks = sum(block["type"] == "world_chapter_lock" for block in chapter["blocks"])
    has_begun = state not in BEFORE_PLAY
    is_locked = has_begun and chapter["has_lock"]
    if (bool(chapter["tab1_locked"]), locks) != (is_locked, int(is_locked)):
        yield f"{state} with tab1_locked {chapter['tab1_locked']} and {locks} first blocks"
    if not has_begun and (chapter["events"] or chapter["attempts"]):
        yield f"{state} with events or attempts"
    is_behind = chapter["is_remembered"] and pointer != chapter["prompt_index"]
    if state in AFTER_PLAY and is_behind:
        yield f"{state}, but memory covers {pointer} prompts of {chapter['prompt_index']}"
    if chapter["is_ending"] and state not in IN_PLAY:
        yield f"is_ending in {state}"


def one_attempt_in_flight(chapter: Rows, _read_at: float) -> Iterator[str]:
    """If an attempt is in flight, no other is, and the row of the chapter names this attempt. If no
    attempt is in flight, the row names none."""
    running = [
        attempt
        for attempt in chapter["attempts"]
        if attempt["status"] == "running" and attempt["kind"] != "trial"
    ]
    in_flight = [chapter["turn_in_flight"]] if chapter["turn_in_flight"] else []
    if [attempt["attempt_id"] for attempt in running] != in_flight:
        yield f"{len(running)} attempts run, and the chapter names {in_flight}"
    if any(
        attempt["kind"] == "reroll" and attempt["number"] != chapter["prompt_index"]
        for attempt in running
    ):
        yield "a re-roll runs that is not of the latest turn"
    if running and chapter["state"] not in IN_PLAY:
        yield f"an attempt runs in {chapter['state']}"


def memory_is_asked_for(chapter: Rows, _read_at: float) -> Iterator[str]:
    """If memory does not cover a full stretch, there is a summary job that waits, runs or has
    failed.

    After a fork, or after another attempt at the latest turn, the summary job may be missing,
    because the next prompt makes it.
    """
    if chapter["forked_at_prompt"] == chapter["prompt_index"] > 0 or not chapter["is_remembered"]:
        return
    first = chapter["last_summarized_prompt_index"] + 1
    last, latest = first + chapter["chunk_size_prompts"] - 1, chapter["prompt_index"]
    committed = [
        attempt
        for attempt in chapter["attempts"]
        if attempt["number"] == latest and attempt["status"] == "committed"
    ]
    if last > latest or (last == latest and len(committed) > 1):
        return
    chosen = {turn["chosen"] for turn in chapter["turns"]}
    due = [
        job for job in chapter["jobs"] if job["kind"] == "summarize" and job["attempt_id"] in chosen
    ]
    if not any(
        job["from_prompt_index"] == first and job["status"] in (*LIVE, "failed") for job in due
    ):
        yield f"nobody was asked to remember prompts {first} to {last}"


def nothing_stuck(chapter: Rows, read_at: float) -> Iterator[str]:
    """No work waits for more than a minute because its process died or its notice was lost."""
    late = read_at - PATIENCE_SECONDS
    for attempt in chapter["attempts"]:
        if attempt["status"] == "running" and attempt["lease_until"] < late:
            yield f"attempt {attempt['attempt_id']} is running, its lease ran out long ago"
    chosen = {turn["chosen"] for turn in chapter["turns"]}
    for job in chapter["jobs"]:
        name = f"job {job['kind']} {job['key']}"
        # If an attempt is not chosen, its job may wait until the attempt is chosen again.
        may_wait = bool(job["attempt_id"]) and job["attempt_id"] not in chosen
        if job["status"] == "running" and (job["lease_until"] or 0) < late:
            yield f"{name} is running, its lease ran out long ago"
        elif job["status"] != "queued" or may_wait:
            continue
        elif max(job["run_after"], job["updated_at"]) < late:
            yield f"{name} has been due for more than a minute"
    yield from _idle_state(chapter, late)


def _idle_state(chapter: Rows, late: float) -> Iterator[str]:
    """Yield a violation if the chapter's state says that a job is doing some work, and there is no
    job for this work."""
    touched = max([chapter["updated_at"], *(job["updated_at"] for job in chapter["jobs"])])
    live = {job["kind"] for job in chapter["jobs"] if job["status"] in LIVE}
    kind = WORK_OF_STATE.get(chapter["state"])
    if chapter["is_ending"]:
        kind = "summarize"
    if kind is not None and kind not in live and touched < late:
        yield f"{chapter['state']} (ending: {chapter['is_ending']}) without a {kind} job"


def prompts_as_sent(chapter: Rows, _read_at: float) -> Iterator[str]:
    """If the layers of a stored call are joined, they give the messages that were sent."""
    for call in chapter["calls"]:
        if call["joined"] != call["sent"]:
            yield f"call {call['call_id']} is recorded with {call['joined']}, not {call['sent']}"


def spending_is_a_sum(chapter: Rows, _read_at: float) -> Iterator[str]:
    """What a chapter has spent at a model is the sum over the records of its calls."""
    sums: dict[tuple[str, ...], list[int]] = {}
    for call in chapter["calls"]:
        before = sums.get(tuple(call["of"]), [0] * len(call["tokens"]))
        sums[tuple(call["of"])] = [a + b for a, b in zip(before, call["tokens"], strict=True)]
    expected = {of: tokens for of, tokens in sums.items() if any(tokens)}
    spent = {tuple(one["of"]): one["tokens"] for one in chapter["spent"]}
    if spent != expected or len(spent) < len(chapter["spent"]):
        yield f"it has spent {chapter['spent']}, and its calls used {expected}"


RULES: dict[str, Rule] = {
    "turns are numbered": numbered_turns,
    "attempts are whole": attempts_and_events,
    "memory tiles": tiled_memory,
    "states are legal": legal_state,
    "one attempt in flight": one_attempt_in_flight,
    "memory is asked for": memory_is_asked_for,
    "nothing is stuck": nothing_stuck,
    "late results are taken once": late_results,
    "who acts alone does so once": turns_alone,
    "prompts are there": prompts_as_sent,
    "spending is a sum": spending_is_a_sum,
    "the world is a fold": world_is_a_fold,
    "nobody is double": nobody_is_double,
    "secrets are kept": secrets_are_kept,
    "simulations were asked for": simulations_were_asked_for,
    "simulations are told": simulations_are_told,
}


def _strayed_forks(chapters: dict[str, Rows]) -> Iterator[Violation]:
    """Yield a violation for each fork that differs from its origin before the turn of the fork. The
    two must agree there, because another attempt can be chosen only at a chapter's latest turn."""
    for fork in chapters.values():
        origin = chapters.get(fork["origin_id"] or "")
        if origin is None:
            continue
        common = range(1, fork["forked_at_prompt"])
        if _told(fork, common) != _told(origin, common):
            detail = f"of {origin['session_id']} at prompt {fork['forked_at_prompt']}"
            yield Violation("forks read as their origin", fork["session_id"], detail)


def _told(chapter: Rows, numbers: range) -> list[tuple[int, str, str]]:
    chosen = {turn["chosen"] for turn in chapter["turns"]}
    return sorted(
        (event["prompt_index"], event["role"], event["text"])
        for event in chapter["events"]
        if event["attempt_id"] in chosen and event["prompt_index"] in numbers
    )


def _broken_promises(chapters: dict[str, Rows], journal: Journal) -> Iterator[Violation]:
    yield from _lost_setups(chapters, journal)
    yield from _lost_forks(chapters, journal)
    yield from _lost_acts(chapters, journal)
    yield from _lost_answers(chapters, journal)
    for draft_id, (session_id, text) in journal.drafts.items():
        drafts = chapters[session_id]["drafts"] if session_id in chapters else []
        if {"draft_id": draft_id, "text": text} not in drafts:
            yield Violation("no draft is lost", session_id, f"draft {draft_id}")
    for session_id, key in sorted(journal.called_once):
        attempt = _attempt_of(chapters, session_id, key)
        if attempt is not None and attempt["finished_calls"] > 1:
            detail = f"submission {key}: {attempt['finished_calls']} calls for one reply"
            yield Violation("a form sent again is one call", session_id, detail)


def _lost_acts(chapters: dict[str, Rows], journal: Journal) -> Iterator[Violation]:
    for session_id, count in journal.acts.items():
        changes = chapters[session_id]["changes"] if session_id in chapters else []
        done = sum(change["run_id"] is None for change in changes)
        if done < count:
            yield Violation("acts are kept", session_id, f"{done} of {count}")


def _lost_answers(chapters: dict[str, Rows], journal: Journal) -> Iterator[Violation]:
    for (session_id, key), words in journal.kept.items():
        attempt = _attempt_of(chapters, session_id, key)
        sent = (words.agent_slot, words.text)
        is_kept = attempt is not None and (attempt["actor"], attempt["words"]) == sent
        if not is_kept or (attempt and words.given not in (None, attempt["given"])):
            yield Violation("accepted words are kept", session_id, f"submission {key}: {attempt}")
    for (session_id, key), reply in journal.answered.items():
        attempt = _attempt_of(chapters, session_id, key)
        events = chapters[session_id]["events"] if session_id in chapters else []
        texts = {(e["event_id"], e["prompt_index"]): e["text"] for e in events}
        if attempt is None or attempt["status"] != "committed":
            detail = f"submission {key}: {attempt}"
            yield Violation("answered attempts are committed", session_id, detail)
        for event_id, text in reply.events:
            if texts.get((event_id, reply.prompt_index)) != text:
                yield Violation("replies are kept", session_id, f"submission {key}: {reply}")


def _lost_setups(chapters: dict[str, Rows], journal: Journal) -> Iterator[Violation]:
    for session_id, setup in journal.setups.items():
        chapter = chapters.get(session_id)
        kept = chapter and (
            chapter["world_text"],
            chapter["chapter_text"],
            {slot: chapter["identities"].get(slot) for slot in setup.identities},
        )
        if kept != (setup.world_text, setup.chapter_text, setup.identities):
            yield Violation("the setup is kept", session_id, f"there is {str(kept)[:200]}")


def _lost_forks(chapters: dict[str, Rows], journal: Journal) -> Iterator[Violation]:
    for (session_id, key), fork in journal.forks.items():
        form = (session_id, key)
        made = [
            chapter["session_id"]
            for chapter in chapters.values()
            if (chapter["origin_id"], chapter["fork_key"]) == form
        ]
        if made != [fork]:
            detail = f"submission {key}: told of {fork}, there are {made}"
            yield Violation("a form sent again is one fork", session_id, detail)


def _attempt_of(chapters: dict[str, Rows], session_id: str, key: str) -> Rows | None:
    if session_id not in chapters:
        return None
    attempts: list[Rows] = chapters[session_id]["attempts"]
    return next((attempt for attempt in attempts if attempt["key"] == key), None)
