"""What must hold of every chapter at every moment, proved from its rows alone.

Rows are as chaos.rows prints them. Every rule yields what is wrong, in words; nothing else of the
program is used, so that a mistake there cannot hide itself here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from chaos.journal import Journal, Violation

Rows = dict[str, Any]
Rule = Callable[[Rows, float], Iterator[str]]

CHUNK_PROMPTS = 7
# Whatever waits for somebody longer than this is stuck.
PATIENCE_SECONDS = 60.0

BEFORE_PLAY = ("DRAFT_TAB1", "LOCKING")
IN_PLAY = ("ACTIVE", "SUMMARIZING")
AFTER_PLAY = ("ENDED", "NARRATING")
LIVE = ("queued", "running")
# What a state says that somebody is working on.
WORK_OF_STATE = {"LOCKING": "lock", "SUMMARIZING": "summarize", "NARRATING": "narrate"}


def find_violations(snapshot: Rows, journal: Journal) -> list[Violation]:
    """Everything that is wrong in all chapters, and with what the client was told."""
    read_at = float(snapshot["read_at"])
    found = [
        Violation(name, chapter["session_id"], detail)
        for chapter in snapshot["chapters"]
        for name, rule in RULES.items()
        for detail in rule(chapter, read_at)
    ]
    by_id = {chapter["session_id"]: chapter for chapter in snapshot["chapters"]}
    return found + list(_broken_promises(by_id, journal))


def numbered_prompts(chapter: Rows, _read_at: float) -> Iterator[str]:
    """Prompts 1 to n, each with one user event and at least one reply."""
    wanted = list(range(1, chapter["prompt_index"] + 1))
    asked = sorted(e["prompt_index"] for e in chapter["events"] if e["role"] == "user")
    if asked != wanted:
        yield f"user events stand at {asked}, prompt_index is {chapter['prompt_index']}"
    answered = {e["prompt_index"] for e in chapter["events"] if e["role"] == "agent"}
    if sorted(answered) != wanted:
        yield f"replies stand at {sorted(answered)}, prompt_index is {chapter['prompt_index']}"


def turns_and_events(chapter: Rows, _read_at: float) -> Iterator[str]:
    """One committed turn behind each user event, with its words, and one behind each reply."""
    committed = [turn for turn in chapter["turns"] if turn["status"] == "committed"]
    prompts = [turn for turn in committed if turn["kind"] == "prompt"]
    said = sorted((e["prompt_index"], e["text"]) for e in chapter["events"] if e["role"] == "user")
    if sorted((turn["prompt_index"] or 0, turn["text"]) for turn in prompts) != said:
        yield "the committed prompts are not the user events"
    replies = Counter(e["prompt_index"] for e in chapter["events"] if e["role"] == "agent")
    if replies != Counter(turn["prompt_index"] for turn in committed):
        yield f"replies {dict(replies)} are not those of the committed turns"


def tiled_memory(chapter: Rows, _read_at: float) -> Iterator[str]:
    """Blocks cover prompts 1 to m once each, and m is the summary pointer."""
    deltas = sorted(
        (block["from_prompt_index"], block["to_prompt_index"])
        for block in chapter["blocks"]
        if block["type"] == "turn_delta"
    )
    pointer = chapter["last_summarized_prompt_index"]
    covered = [index for first, last in deltas for index in range(first, last + 1)]
    if covered != list(range(1, pointer + 1)) or any(last < first for first, last in deltas):
        yield f"deltas {deltas} do not tile 1 to {pointer}"
    if pointer > chapter["prompt_index"]:
        yield f"memory covers {pointer} prompts of {chapter['prompt_index']}"
    if any((last - first + 1) > CHUNK_PROMPTS for first, last in deltas):
        yield f"deltas {deltas} are longer than {CHUNK_PROMPTS} prompts"


def legal_state(chapter: Rows, _read_at: float) -> Iterator[str]:
    """The state is one of those that last, and what is there belongs to it."""
    state, pointer = chapter["state"], chapter["last_summarized_prompt_index"]
    if state not in (*BEFORE_PLAY, *IN_PLAY, *AFTER_PLAY):
        yield f"there is no such state: {state}"
    locks = sum(block["type"] == "world_chapter_lock" for block in chapter["blocks"])
    has_begun = state not in BEFORE_PLAY
    if (bool(chapter["tab1_locked"]), locks) != (has_begun, int(has_begun)):
        yield f"{state} with tab1_locked {chapter['tab1_locked']} and {locks} first blocks"
    if not has_begun and (chapter["events"] or chapter["turns"]):
        yield f"{state} with events or turns"
    if state in AFTER_PLAY and pointer != chapter["prompt_index"]:
        yield f"{state}, but memory covers {pointer} prompts of {chapter['prompt_index']}"
    if chapter["is_ending"] and state not in IN_PLAY:
        yield f"is_ending in {state}"


def one_turn_in_flight(chapter: Rows, _read_at: float) -> Iterator[str]:
    """The chapter names the one running turn, and none when nothing runs."""
    running = [turn for turn in chapter["turns"] if turn["status"] == "running"]
    in_flight = [chapter["turn_in_flight"]] if chapter["turn_in_flight"] else []
    if [turn["turn_id"] for turn in running] != in_flight:
        yield f"{len(running)} turns run, and the chapter names {in_flight}"
    rerolled = [turn["prompt_index"] for turn in running if turn["kind"] == "reroll"]
    named = chapter["rerolling_prompt_index"]
    if rerolled != ([] if named is None else [named]):
        yield f"re-rolls of {rerolled} run, and the chapter names {named}"
    if running and chapter["state"] not in IN_PLAY:
        yield f"a turn runs in {chapter['state']}"


def memory_is_asked_for(chapter: Rows, _read_at: float) -> Iterator[str]:
    """A full chunk that memory does not cover has a job, waiting, working or failed."""
    first = chapter["last_summarized_prompt_index"] + 1
    chunk_end = -(-first // CHUNK_PROMPTS) * CHUNK_PROMPTS
    if chunk_end > chapter["prompt_index"]:
        return
    due = [job for job in chapter["jobs"] if job["kind"] == "summarize"]
    if not any(
        job["from_prompt_index"] == first and job["status"] in (*LIVE, "failed") for job in due
    ):
        yield f"nobody was asked to remember prompts {first} to {chunk_end}"


def nothing_stuck(chapter: Rows, read_at: float) -> Iterator[str]:
    """Nobody waits for a minute for a process that died or a notice that was lost."""
    late = read_at - PATIENCE_SECONDS
    for turn in chapter["turns"]:
        if turn["status"] == "running" and turn["lease_until"] < late:
            yield f"turn {turn['turn_id']} is running, its lease ran out long ago"
    for job in chapter["jobs"]:
        name = f"job {job['kind']} {job['key']}"
        if job["status"] == "running" and (job["lease_until"] or 0) < late:
            yield f"{name} is running, its lease ran out long ago"
        elif job["status"] == "queued" and max(job["run_after"], job["updated_at"]) < late:
            yield f"{name} has been due for more than a minute"
    yield from _idle_state(chapter, late)


def _idle_state(chapter: Rows, late: float) -> Iterator[str]:
    """A state that says that something is being done, and nobody to do it."""
    touched = max([chapter["updated_at"], *(job["updated_at"] for job in chapter["jobs"])])
    live = {job["kind"] for job in chapter["jobs"] if job["status"] in LIVE}
    kind = WORK_OF_STATE.get(chapter["state"])
    if chapter["is_ending"]:
        kind = "summarize"
    if kind is not None and kind not in live and touched < late:
        yield f"{chapter['state']} (ending: {chapter['is_ending']}) without a {kind} job"


RULES: dict[str, Rule] = {
    "prompts are numbered": numbered_prompts,
    "turns are whole": turns_and_events,
    "memory tiles": tiled_memory,
    "states are legal": legal_state,
    "one turn in flight": one_turn_in_flight,
    "memory is asked for": memory_is_asked_for,
    "nothing is stuck": nothing_stuck,
}


def _broken_promises(chapters: dict[str, Rows], journal: Journal) -> Iterator[Violation]:
    yield from _lost_setups(chapters, journal)
    for (session_id, key), words in journal.kept.items():
        turn = _turn_of(chapters, session_id, key)
        if turn is None or (turn["agent_slot"], turn["text"]) != (words.agent_slot, words.text):
            yield Violation("accepted words are kept", session_id, f"submission {key}: {turn}")
    for (session_id, key), reply in journal.answered.items():
        turn = _turn_of(chapters, session_id, key)
        events = chapters[session_id]["events"] if session_id in chapters else []
        texts = {(e["event_id"], e["prompt_index"]): e["text"] for e in events}
        if turn is None or turn["status"] != "committed":
            yield Violation("answered turns are committed", session_id, f"submission {key}: {turn}")
        if texts.get((reply.event_id, reply.prompt_index)) != reply.text:
            yield Violation("replies are kept", session_id, f"submission {key}: {reply}")
    for draft_id, (session_id, text) in journal.drafts.items():
        drafts = chapters[session_id]["drafts"] if session_id in chapters else []
        if {"draft_id": draft_id, "text": text} not in drafts:
            yield Violation("no draft is lost", session_id, f"draft {draft_id}")
    for session_id, key in sorted(journal.called_once):
        turn = _turn_of(chapters, session_id, key)
        if turn is not None and turn["finished_calls"] > 1:
            detail = f"submission {key}: {turn['finished_calls']} calls for one reply"
            yield Violation("a form sent again is one call", session_id, detail)


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


def _turn_of(chapters: dict[str, Rows], session_id: str, key: str) -> Rows | None:
    if session_id not in chapters:
        return None
    turns: list[Rows] = chapters[session_id]["turns"]
    return next((turn for turn in turns if turn["key"] == key), None)
