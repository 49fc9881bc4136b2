from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from chaos.invariants import PATIENCE_SECONDS, find_violations
from chaos.journal import Journal, Reply, Words
from testing.session_data import Setup

NOW = 1_000_000.0
LONG_AGO = NOW - PATIENCE_SECONDS - 1
ID = "chapter-1"

Rows = dict[str, Any]
Break = Callable[[Rows], object]


def prompt_rows(index: int) -> tuple[Rows, Rows, Rows]:
    """Return the rows of a committed attempt and of its two events."""
    attempt = {
        "attempt_id": f"attempt-{index}",
        "key": f"key-{index}",
        "kind": "prompt",
        "status": "committed",
        "actor": 1,
        "words": f"Beat {index}.",
        "given": {"degrees": index},
        "run_id": f"run-{index}",
        "text_run_id": None,
        "submitted_at": LONG_AGO + 20 * index,
        "committed_at": LONG_AGO + 20 * index + 1,
        "number": index,
        "lease_until": LONG_AGO,
        "finished_calls": 1,
    }
    about = {"attempt_id": f"attempt-{index}", "prompt_index": index}
    user = {**about, "event_id": f"u{index}", "role": "user", "text": f"Beat {index}."}
    agent = {**about, "event_id": f"a{index}", "role": "agent", "text": f"I answer {index}."}
    return attempt, user, agent


def job_row(kind: str, status: str, first: int = 0, last: int = 0) -> Rows:
    return {
        "job_id": f"{kind} {first}-{last}",
        "result_kind": "",
        "result": None,
        "runs": 1,
        "kind": kind,
        "key": f"{first}-{last}",
        "attempt_id": f"attempt-{last}" if last else None,
        "status": status,
        "from_prompt_index": first,
        "to_prompt_index": last,
        "run_after": LONG_AGO,
        "lease_until": NOW,
        "updated_at": NOW,
    }


def block_row(kind: str, first: int, last: int, attempt_id: str | None) -> Rows:
    places = {"from_prompt_index": first, "to_prompt_index": last}
    audience = None if kind == "world_chapter_lock" else [1, 2, 3]
    return {"type": kind, "attempt_id": attempt_id, "audience": audience, "text": "", **places}


def chapter_rows(prompts: int = 9) -> Rows:
    """Return the rows of a chapter in play with this number of prompts. Its memory covers seven of
    them."""
    played = [prompt_rows(index) for index in range(1, prompts + 1)]
    return {
        "session_id": ID,
        "state": "ACTIVE",
        "prompt_index": prompts,
        "last_summarized_prompt_index": 7,
        "tab1_locked": True,
        "has_lock": True,
        "has_outcome": False,
        "most_turns_alone": 0,
        "changes": [],
        "is_remembered": True,
        "chunk_size_prompts": 7,
        "is_ending": False,
        "turn_in_flight": None,
        "updated_at": LONG_AGO,
        "origin_id": None,
        "fork_key": "",
        "forked_at_prompt": 0,
        "world_text": "A harbour.",
        "chapter_text": "Night.",
        "identities": {"1": "A pilot."},
        "events": [event for _attempt, *events in played for event in events],
        "blocks": [
            block_row("world_chapter_lock", 0, 0, None),
            block_row("turn_delta", 1, 7, "attempt-7"),
        ],
        "drafts": [{"draft_id": "draft-1", "text": "The chapter."}],
        "turns": [
            {"number": attempt["number"], "chosen": attempt["attempt_id"]}
            for attempt, *_events in played
        ],
        "attempts": [attempt for attempt, *_events in played],
        "jobs": [job_row("lock", "done"), job_row("summarize", "done", 1, 7)],
        "calls": [call_row("call-1", [100, 0, 20, 0, 0]), call_row("call-2", [0, 0, 0, 7, 5])],
        "spent": [{"of": ["scripted", "m"], "tokens": [100, 0, 20, 7, 5]}],
        "world": None,
        "first_world": None,
    }


def call_row(call_id: str, tokens: list[int]) -> dict[str, Any]:
    sent = {"sent": "e3b0", "joined": "e3b0", "text": "", "of": ["scripted", "m"]}
    return {"call_id": call_id, "tokens": tokens, **sent}


def journal() -> Journal:
    return Journal(
        setups={ID: Setup("A harbour.", "Night.", {"1": "A pilot."}, {"1": "Mara"})},
        kept={(ID, "key-9"): Words(1, "Beat 9.", {"degrees": 9})},
        answered={(ID, "key-9"): Reply(9, (("a9", "I answer 9."),))},
        drafts={"draft-1": (ID, "The chapter.")},
        called_once={(ID, "key-9")},
    )


def broken_rules(*chapters: Rows) -> set[str]:
    snapshot = {"read_at": NOW, "chapters": list(chapters)}
    return {violation.rule for violation in find_violations(snapshot, journal())}


def running(attempt: Rows, **changes: Any) -> Rows:
    started = {"attempt_id": "attempt-x", "key": "x", "status": "running", "lease_until": NOW}
    return {**attempt, **started, **changes}


def run_prompt(chapter: Rows, *, lease_until: float = NOW, state: str = "ACTIVE") -> None:
    """Add an attempt that is in flight. It has no turn yet."""
    prompt = running(chapter["attempts"][0], number=None, lease_until=lease_until)
    chapter["attempts"].append(prompt)
    chapter.update(turn_in_flight="attempt-x", state=state)


def add_reply(chapter: Rows, number: int, kind: str = "reroll") -> None:
    """Add another committed attempt at the turn with this number. It is not chosen."""
    attempt, *events = prompt_rows(number)
    other = {"attempt_id": "attempt-y"}
    chapter["attempts"].append({**attempt, **other, "key": "y", "kind": kind})
    chapter["events"] += [{**one, **other, "event_id": f"{one['event_id']}-y"} for one in events]


def leave_out_the_reply(chapter: Rows) -> None:
    add_reply(chapter, 9, "trial")
    chapter["events"].pop()


def choose(chapter: Rows, number: int, attempt_id: str) -> None:
    chapter["turns"][number - 1]["chosen"] = attempt_id


def forget(chapter: Rows) -> None:
    """Remove the chapter's only delta, and set the summary pointer to 0."""
    chapter.update(last_summarized_prompt_index=0)
    chapter["blocks"].pop()


def leave_alone(chapter: Rows, **changes: Any) -> None:
    """Set fields of the chapter, and set the time of the last change of each job to long ago."""
    chapter.update(changes)
    for job in chapter["jobs"]:
        job["updated_at"] = LONG_AGO


def set_fields(row: Rows, **changes: Any) -> None:
    row.update(changes)


BREAKS: dict[str, list[Break]] = {
    "turns are numbered": [
        lambda c: set_fields(c["turns"][4], number=12),
        lambda c: c["turns"].pop(2),
        lambda c: c["turns"].append(dict(c["turns"][0])),
        lambda c: c.update(prompt_index=10),
        lambda c: choose(c, 9, "attempt-8"),
        lambda c: choose(c, 9, "attempt-x"),
        lambda c: set_fields(c["attempts"][8], status="failed"),
    ],
    "attempts are whole": [
        lambda c: set_fields(c["events"][0], text="Other words."),
        lambda c: set_fields(c["events"][4], prompt_index=12),
        lambda c: c["events"].pop(2),
        lambda c: c["events"].pop(3),
        lambda c: c["attempts"].pop(),
        lambda c: c["events"].append({**c["events"][1], "event_id": "again"}),
        lambda c: set_fields(c["attempts"][3], status="failed"),
        leave_out_the_reply,
    ],
    "memory tiles": [
        lambda c: c["blocks"].pop(),
        lambda c: c["blocks"].append(dict(c["blocks"][1])),
        lambda c: c.update(last_summarized_prompt_index=8),
        lambda c: set_fields(c["blocks"][1], from_prompt_index=2),
        lambda c: c.update(last_summarized_prompt_index=0),
        lambda c: set_fields(c["blocks"][1], attempt_id="attempt-y"),
        lambda c: c["blocks"].extend([block_row("turn_delta", 1, 9, "attempt-y")] * 2),
    ],
    "states are legal": [
        lambda c: c.update(state="RESETTING"),
        lambda c: c.update(state="ENDED"),
        lambda c: c.update(state="DRAFT_TAB1"),
        lambda c: c.update(tab1_locked=False),
        lambda c: c["blocks"].pop(0),
        lambda c: c.update(state="ENDED", is_ending=True),
    ],
    "one attempt in flight": [
        lambda c: c.update(turn_in_flight="attempt-9"),
        lambda c: c["attempts"].append(running(c["attempts"][0])),
        lambda c: (
            c["attempts"].append(running(c["attempts"][7], kind="reroll")),
            c.update(turn_in_flight="attempt-x"),
        ),
        lambda c: (
            c["attempts"].append(running(c["attempts"][8], kind="trial")),
            c.update(turn_in_flight="attempt-x"),
        ),
        lambda c: run_prompt(c, state="ENDED"),
    ],
    "memory is asked for": [
        forget,
    ],
    "nothing is stuck": [
        lambda c: run_prompt(c, lease_until=LONG_AGO),
        lambda c: c["attempts"].append(
            running(c["attempts"][8], kind="trial", lease_until=LONG_AGO)
        ),
        lambda c: c["jobs"].append({**job_row("narrate", "running"), "lease_until": LONG_AGO}),
        lambda c: c["jobs"].append({**job_row("narrate", "queued"), "updated_at": LONG_AGO}),
        lambda c: c["jobs"].append(
            {**job_row("summarize", "queued", 8, 9), "updated_at": LONG_AGO}
        ),
        lambda c: c["jobs"].append(
            {**job_row("summarize", "running", 8, 9), "attempt_id": "y", "lease_until": LONG_AGO}
        ),
        lambda c: leave_alone(c, state="SUMMARIZING"),
        lambda c: leave_alone(c, is_ending=True),
    ],
    "prompts are there": [lambda c: set_fields(c["calls"][0], joined="no text 'x'")],
    "spending is a sum": [
        lambda c: c["calls"].pop(),
        lambda c: c["spent"].pop(),
        lambda c: c["spent"].append(c["spent"][0]),
        lambda c: set_fields(c["spent"][0], tokens=[100, 0, 20, 7, 6]),
        lambda c: set_fields(c["calls"][0], of=["scripted", "another"]),
    ],
    "accepted words are kept": [
        lambda c: set_fields(c["attempts"][8], key="another"),
        lambda c: set_fields(c["attempts"][8], words="Beat 9"),
        lambda c: set_fields(c["attempts"][8], actor=2),
        lambda c: set_fields(c["attempts"][8], given=None),
        lambda c: c.update(session_id="another"),
    ],
    "answered attempts are committed": [lambda c: set_fields(c["attempts"][8], status="set_aside")],
    "replies are kept": [
        lambda c: set_fields(c["events"][17], text="I answer 9"),
        lambda c: set_fields(c["events"][17], event_id="another"),
    ],
    "no draft is lost": [
        lambda c: c["drafts"].clear(),
        lambda c: set_fields(c["drafts"][0], text="The chapter"),
    ],
    "a form sent again is one call": [lambda c: set_fields(c["attempts"][8], finished_calls=2)],
    "the setup is kept": [
        lambda c: c.update(world_text="A harbou"),
        lambda c: c.update(chapter_text=""),
        lambda c: c.update(identities={}),
    ],
}


def test_a_chapter_in_order_breaks_no_rule() -> None:
    chapter = chapter_rows()
    assert broken_rules(chapter) == set()
    run_prompt(chapter)
    assert broken_rules(chapter) == set()


@pytest.mark.parametrize("state", ["ACTIVE", "ENDED"])
def test_a_trial_runs_beside_play_and_after_it(state: str) -> None:
    chapter = chapter_rows(prompts=7)
    chapter.update(state=state)
    chapter["attempts"].append(running(chapter["attempts"][6], kind="trial"))
    snapshot = {"read_at": NOW, "chapters": [chapter]}
    assert find_violations(snapshot, Journal()) == []


@pytest.mark.parametrize("kind", ["reroll", "trial", "edit"])
def test_other_attempts_may_stand_beside_the_chosen_one(kind: str) -> None:
    chapter = chapter_rows()
    add_reply(chapter, 9, kind)
    assert broken_rules(chapter) == set()
    choose(chapter, 9, "attempt-y")
    assert broken_rules(chapter) == set()


def test_memory_of_an_attempt_that_is_not_chosen_waits_for_its_choice() -> None:
    """The newly chosen attempt has no summary job. The next prompt makes one."""
    chapter = chapter_rows(prompts=7)
    add_reply(chapter, 7)
    choose(chapter, 7, "attempt-y")
    chapter.update(last_summarized_prompt_index=0)
    chapter["jobs"][1].update(status="queued", updated_at=LONG_AGO)
    snapshot = {"read_at": NOW, "chapters": [chapter]}
    assert find_violations(snapshot, Journal()) == []
    _add_turn(chapter, 8)
    found = find_violations(snapshot, Journal())
    assert [violation.rule for violation in found] == ["memory is asked for"]


def _add_turn(chapter: Rows, number: int) -> None:
    attempt, *events = prompt_rows(number)
    chapter["attempts"].append(attempt)
    chapter["events"] += events
    chapter["turns"].append({"number": number, "chosen": attempt["attempt_id"]})
    chapter.update(prompt_index=number)


def test_work_that_was_put_off_on_purpose_is_not_stuck() -> None:
    chapter = chapter_rows(prompts=14)
    chapter["jobs"].append(
        {**job_row("summarize", "queued", 8, 14), "run_after": NOW + 10, "updated_at": LONG_AGO}
    )
    assert broken_rules(chapter) == set()


def fork_rows(number: int, **changes: Any) -> Rows:
    """Return the rows of a fork of the usual chapter, made after the prompt with this number."""
    fork = chapter_rows(prompts=number)
    for row in (*fork["attempts"], *fork["events"], *fork["blocks"]):
        row["attempt_id"] = row["attempt_id"] and f"{row['attempt_id']}-f"
    for turn in fork["turns"]:
        turn["chosen"] += "-f"
    about = {"session_id": "fork-1", "origin_id": ID, "fork_key": "form"}
    return {**fork, "forked_at_prompt": number, "jobs": [], **about, **changes}


class TestForks:
    def broken(self, *chapters: Rows) -> list[str]:
        journal = Journal(forks={(ID, "form"): "fork-1"})
        snapshot = {"read_at": NOW, "chapters": list(chapters)}
        return [violation.rule for violation in find_violations(snapshot, journal)]

    def test_one_in_order_breaks_no_rule(self) -> None:
        assert self.broken(chapter_rows(), fork_rows(8)) == []
        assert self.broken(chapter_rows(), fork_rows(8, origin_id=None)) == [
            "a form sent again is one fork"
        ]

    def test_what_it_lacks_is_asked_for_with_its_next_prompt(self) -> None:
        fork = fork_rows(7)
        forget(fork)
        assert self.broken(chapter_rows(), fork) == []
        _add_turn(fork, 8)
        assert self.broken(chapter_rows(), fork) == ["memory is asked for"]

    def test_one_that_tells_something_else_is_noticed(self) -> None:
        fork = fork_rows(8)
        fork["events"][5]["text"] = "Something else."
        assert self.broken(chapter_rows(), fork) == ["forks read as their origin"]

    def test_at_their_latest_turns_both_may_choose_otherwise(self) -> None:
        fork = fork_rows(8)
        fork["events"][15]["text"] = "Another reply."
        assert self.broken(chapter_rows(), fork) == []

    def test_two_of_one_form_are_noticed(self) -> None:
        other = fork_rows(8, session_id="fork-2")
        assert self.broken(chapter_rows(), fork_rows(8), other) == ["a form sent again is one fork"]

    @pytest.mark.parametrize(("age", "rules"), [(170, []), (190, ["nothing is stuck"])])
    def test_one_that_is_being_stored_may_take_its_lease_and_a_minute(
        self, age: int, rules: list[str]
    ) -> None:
        half = fork_rows(8, session_id="fork-2", fork_key="new", state="IMPORTING", turns=[])
        half["updated_at"] = NOW - age
        assert self.broken(chapter_rows(), fork_rows(8), half) == rules


@pytest.mark.parametrize(
    ("rule", "number"),
    [(rule, number) for rule, breaks in BREAKS.items() for number in range(len(breaks))],
)
def test_every_rule_notices_what_breaks_it(rule: str, number: int) -> None:
    chapter = deepcopy(chapter_rows())
    BREAKS[rule][number](chapter)
    assert rule in broken_rules(chapter)


def test_an_attempt_comes_to_what_its_mode_makes_of_it() -> None:
    """An attempt without words has no event of the user. A mode may make several events of a
    reply."""
    chapter = chapter_rows()
    chapter["attempts"][3]["words"] = ""
    assert broken_rules(chapter) == {"attempts are whole"}
    words = chapter["events"].pop(6)
    assert broken_rules(chapter) == set()
    chapter["events"].insert(6, {**chapter["events"][6], "event_id": "a4-2", "text": "A wave."})
    assert broken_rules(chapter) == {"attempts are whole"}
    chapter["has_outcome"] = True
    assert broken_rules(chapter) == set()
    chapter["events"].insert(7, words)
    assert broken_rules(chapter) == {"attempts are whole"}
    del chapter["events"][6:9]
    assert broken_rules(chapter) == {"attempts are whole"}


def test_what_the_client_was_told_of_each_event_stands() -> None:
    told = journal()
    told.answered[ID, "key-9"] = Reply(9, (("u9", "Beat 9."), ("a9", "I answer 9.")))
    chapter = chapter_rows()
    snapshot = {"read_at": NOW, "chapters": [chapter]}
    assert find_violations(snapshot, told) == []
    chapter["events"][16]["event_id"] = "another"
    assert [one.rule for one in find_violations(snapshot, told)] == ["replies are kept"]


def test_acts_that_the_client_was_told_of_are_kept() -> None:
    told = journal()
    told.acts[ID] = 2
    chapter = chapter_rows()
    act: Rows = {
        "attempt_id": "attempt-9",
        "run_id": None,
        "kind": "oil",
        "payload": {},
        "result": None,
    }
    chapter["changes"] = [act, {**act, "run_id": "run-9"}]
    snapshot = {"read_at": NOW, "chapters": [chapter]}
    assert [one.rule for one in find_violations(snapshot, told)] == ["acts are kept"]
    chapter["changes"].append(act)
    assert find_violations(snapshot, told) == []


def test_a_chapter_without_lock_and_memory_needs_neither() -> None:
    chapter = chapter_rows()
    chapter.update(tab1_locked=False, last_summarized_prompt_index=0, blocks=[])
    assert find_violations({"read_at": 0.0, "chapters": [chapter]}, Journal())
    chapter.update(has_lock=False, is_remembered=False)
    found = find_violations({"read_at": 0.0, "chapters": [chapter]}, Journal())
    assert [one.rule for one in found] == []
