from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from bench.session_data import Setup
from chaos.invariants import PATIENCE_SECONDS, find_violations
from chaos.journal import Journal, Reply, Words

NOW = 1_000_000.0
LONG_AGO = NOW - PATIENCE_SECONDS - 1
ID = "chapter-1"

Rows = dict[str, Any]
Break = Callable[[Rows], object]


def prompt_rows(index: int) -> tuple[Rows, Rows, Rows]:
    """A committed turn with its two events."""
    turn = {
        "turn_id": f"turn-{index}",
        "key": f"key-{index}",
        "kind": "prompt",
        "status": "committed",
        "agent_slot": 1,
        "text": f"Beat {index}.",
        "prompt_index": index,
        "lease_until": LONG_AGO,
        "finished_calls": 1,
    }
    user = {"event_id": f"u{index}", "prompt_index": index, "role": "user"}
    agent = {"event_id": f"a{index}", "prompt_index": index, "role": "agent"}
    return turn, {**user, "text": f"Beat {index}."}, {**agent, "text": f"I answer {index}."}


def job_row(kind: str, status: str, first: int = 0, last: int = 0) -> Rows:
    return {
        "kind": kind,
        "key": f"{first}-{last}",
        "status": status,
        "from_prompt_index": first,
        "to_prompt_index": last,
        "run_after": LONG_AGO,
        "lease_until": NOW,
        "updated_at": NOW,
    }


def chapter_rows(prompts: int = 9) -> Rows:
    """A chapter in play that memory follows as far as it should."""
    played = [prompt_rows(index) for index in range(1, prompts + 1)]
    return {
        "session_id": ID,
        "state": "ACTIVE",
        "prompt_index": prompts,
        "last_summarized_prompt_index": 7,
        "tab1_locked": True,
        "is_ending": False,
        "turn_in_flight": None,
        "rerolling_prompt_index": None,
        "updated_at": LONG_AGO,
        "world_text": "A harbour.",
        "chapter_text": "Night.",
        "identities": {"1": "A pilot."},
        "events": [event for _turn, *events in played for event in events],
        "blocks": [
            {"type": "world_chapter_lock", "from_prompt_index": 0, "to_prompt_index": 0},
            {"type": "turn_delta", "from_prompt_index": 1, "to_prompt_index": 7},
        ],
        "drafts": [{"draft_id": "draft-1", "text": "The chapter."}],
        "turns": [turn for turn, *_events in played],
        "jobs": [job_row("lock", "done"), job_row("summarize", "done", 1, 7)],
    }


def journal() -> Journal:
    return Journal(
        setups={ID: Setup("A harbour.", "Night.", {"1": "A pilot."}, {"1": "Mara"})},
        kept={(ID, "key-9"): Words(1, "Beat 9.")},
        answered={(ID, "key-9"): Reply(9, "a9", "I answer 9.")},
        drafts={"draft-1": (ID, "The chapter.")},
        called_once={(ID, "key-9")},
    )


def broken_rules(*chapters: Rows) -> set[str]:
    snapshot = {"read_at": NOW, "chapters": list(chapters)}
    return {violation.rule for violation in find_violations(snapshot, journal())}


def running(turn: Rows, **changes: Any) -> Rows:
    return {**turn, "turn_id": "turn-x", "key": "x", "status": "running", **changes}


def run_turn(chapter: Rows, *, lease_until: float = NOW, state: str = "ACTIVE") -> None:
    """A prompt in flight."""
    turn = running(chapter["turns"][0], prompt_index=None, lease_until=lease_until)
    chapter["turns"].append(turn)
    chapter.update(turn_in_flight="turn-x", state=state)


def leave_alone(chapter: Rows, **changes: Any) -> None:
    """Nobody has done anything for long."""
    chapter.update(changes)
    for job in chapter["jobs"]:
        job["updated_at"] = LONG_AGO


def set_fields(row: Rows, **changes: Any) -> None:
    row.update(changes)


BREAKS: dict[str, list[Break]] = {
    "prompts are numbered": [
        lambda c: set_fields(c["events"][4], prompt_index=12),
        lambda c: c["events"].pop(2),
        lambda c: c["events"].pop(3),
        lambda c: c["events"].append({**c["events"][0], "event_id": "again"}),
        lambda c: c.update(prompt_index=10),
    ],
    "turns are whole": [
        lambda c: set_fields(c["events"][0], text="Other words."),
        lambda c: c["turns"].pop(),
        lambda c: c["events"].append({**c["events"][1], "event_id": "again"}),
        lambda c: set_fields(c["turns"][3], status="failed"),
    ],
    "memory tiles": [
        lambda c: c["blocks"].pop(),
        lambda c: c["blocks"].append(dict(c["blocks"][1])),
        lambda c: c.update(last_summarized_prompt_index=8),
        lambda c: set_fields(c["blocks"][1], from_prompt_index=2),
        lambda c: c.update(last_summarized_prompt_index=0),
    ],
    "states are legal": [
        lambda c: c.update(state="RESETTING"),
        lambda c: c.update(state="ENDED"),
        lambda c: c.update(state="DRAFT_TAB1"),
        lambda c: c.update(tab1_locked=False),
        lambda c: c["blocks"].pop(0),
        lambda c: c.update(state="ENDED", is_ending=True),
    ],
    "one turn in flight": [
        lambda c: c.update(turn_in_flight="turn-9"),
        lambda c: c["turns"].append(running(c["turns"][0])),
        lambda c: c.update(rerolling_prompt_index=9),
        lambda c: run_turn(c, state="ENDED"),
    ],
    "memory is asked for": [
        lambda c: (c.update(last_summarized_prompt_index=0), c["blocks"].pop()),
    ],
    "nothing is stuck": [
        lambda c: run_turn(c, lease_until=LONG_AGO),
        lambda c: c["jobs"].append({**job_row("narrate", "running"), "lease_until": LONG_AGO}),
        lambda c: c["jobs"].append({**job_row("narrate", "queued"), "updated_at": LONG_AGO}),
        lambda c: leave_alone(c, state="SUMMARIZING"),
        lambda c: leave_alone(c, is_ending=True),
    ],
    "accepted words are kept": [
        lambda c: set_fields(c["turns"][8], key="another"),
        lambda c: set_fields(c["turns"][8], text="Beat 9"),
        lambda c: set_fields(c["turns"][8], agent_slot=2),
        lambda c: c.update(session_id="another"),
    ],
    "answered turns are committed": [lambda c: set_fields(c["turns"][8], status="set_aside")],
    "replies are kept": [
        lambda c: set_fields(c["events"][17], text="I answer 9"),
        lambda c: set_fields(c["events"][17], event_id="another"),
    ],
    "no draft is lost": [
        lambda c: c["drafts"].clear(),
        lambda c: set_fields(c["drafts"][0], text="The chapter"),
    ],
    "a form sent again is one call": [lambda c: set_fields(c["turns"][8], finished_calls=2)],
    "the setup is kept": [
        lambda c: c.update(world_text="A harbou"),
        lambda c: c.update(chapter_text=""),
        lambda c: c.update(identities={}),
    ],
}


def test_a_chapter_in_order_breaks_no_rule() -> None:
    chapter = chapter_rows()
    assert broken_rules(chapter) == set()
    run_turn(chapter)
    assert broken_rules(chapter) == set()


def test_work_that_was_put_off_on_purpose_is_not_stuck() -> None:
    chapter = chapter_rows(prompts=14)
    chapter["jobs"].append(
        {**job_row("summarize", "queued", 8, 14), "run_after": NOW + 10, "updated_at": LONG_AGO}
    )
    assert broken_rules(chapter) == set()


@pytest.mark.parametrize(
    ("rule", "number"),
    [(rule, number) for rule, breaks in BREAKS.items() for number in range(len(breaks))],
)
def test_every_rule_notices_what_breaks_it(rule: str, number: int) -> None:
    chapter = deepcopy(chapter_rows())
    BREAKS[rule][number](chapter)
    assert rule in broken_rules(chapter)
