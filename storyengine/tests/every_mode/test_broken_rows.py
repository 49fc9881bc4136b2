"""Tests that the rules of chaos notice each violation.

A chapter that was really played breaks no rule. Then its rows are changed, one mistake at a time,
and the rule has to name the mistake.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import pytest
from django.utils import timezone

from chaos.follow_ups import MOST_RUNS
from chaos.invariants import find_violations
from chaos.journal import Journal, Reply, Words
from chaos.rows import rows_of
from sessions.models import Session
from storyengine.api.tests.calling import address, call
from storyengine.tests.every_mode.installed import LIGHTHOUSE, Install
from storyengine.tests.every_mode.installed import installed as installed
from storyengine.tests.every_mode.playing import begin, work_until_none_is_due
from storyengine.tests.every_mode.scripted_model import ScriptedModel, calls
from storyengine.tests.lighthouse.keeper import WATCH
from testing.session_data import Setup

pytestmark = pytest.mark.django_db

Rows = dict[str, Any]
Break = Callable[[Rows], object]
# The rules look at a chapter an hour after it was played.
LATER = 3_600.0
DRAFT = {"draft_id": "draft", "text": "The lamp was dark."}
SECRET = "[secret of Marta Quill] Tomas lives."
PROMPTS = 5


def say(chapter: Session, slot: int | None = 1, words: str = "Go on.", key: str = "") -> Rows:
    headers = {"Idempotency_Key": key} if key else {}
    body = {"agent_slot": slot, "user_text": words}
    answer = call("POST", address(chapter, "prompt"), body, **headers)
    assert answer.status_code == 201, answer.content
    document: Rows = answer.json()
    return document


def read(chapter: Session) -> Rows:
    return rows_of(Session.objects.get(pk=chapter.pk))


def broken(*chapters: Rows, journal: Journal | None = None, later: float = LATER) -> set[str]:
    snapshot = {"read_at": timezone.now().timestamp() + later, "chapters": list(chapters)}
    return {one.rule for one in find_violations(snapshot, journal or Journal())}


def assert_noticed(
    rows: Rows, breaks: Mapping[str, Sequence[Break]], journal: Journal | None = None
) -> None:
    """Check that the rows break no rule, and that each of the changes breaks the rule."""
    assert broken(rows, journal=journal) == set()
    for rule, changes in breaks.items():
        for number, change in enumerate(changes):
            changed = deepcopy(rows)
            change(changed)
            assert rule in broken(changed, journal=journal), (rule, number)


def chosen(chapter: Rows, number: int) -> Rows:
    [turn] = [one for one in chapter["turns"] if one["number"] == number]
    [found] = [one for one in chapter["attempts"] if one["attempt_id"] == turn["chosen"]]
    row: Rows = found
    return row


def event(chapter: Rows, number: int, role: str = "agent") -> Rows:
    attempt = chosen(chapter, number)["attempt_id"]
    found = (one for one in chapter["events"] if one["attempt_id"] == attempt)
    return next(one for one in found if one["role"] == role)


def run(chapter: Rows, like: int = 1, **changes: Any) -> None:
    """Add a running attempt, which the chapter's row names unless `is_named` is false."""
    if changes.pop("is_named", True):
        chapter["turn_in_flight"] = "attempt-x"
    chapter["state"] = changes.pop("state", chapter["state"])
    soon = timezone.now().timestamp() + LATER
    running = {"attempt_id": "attempt-x", "key": "x", "status": "running", "lease_until": soon}
    chapter["attempts"].append({**chosen(chapter, like), "number": None, **running, **changes})


def job(chapter: Rows, kind: str) -> Rows:
    return next(one for one in chapter["jobs"] if one["kind"] == kind)


def delta(chapter: Rows) -> Rows:
    return next(one for one in chapter["blocks"] if one["type"] == "turn_delta")


def forget(chapter: Rows) -> None:
    chapter["last_summarized_prompt_index"] = 0
    chapter["blocks"].remove(delta(chapter))


def add_reply(chapter: Rows, number: int, kind: str) -> Rows:
    """Add another committed attempt with its events, which is not chosen."""
    attempt, other = chosen(chapter, number), {"attempt_id": "attempt-y"}
    told = [one for one in chapter["events"] if one["attempt_id"] == attempt["attempt_id"]]
    chapter["attempts"].append({**attempt, **other, "key": "y", "kind": kind})
    chapter["events"] += [{**one, **other, "event_id": f"{one['event_id']}-y"} for one in told]
    turn: Rows = chapter["turns"][number - 1]
    return turn


def set_all(rows: Sequence[Rows], **changes: Any) -> None:
    for one in rows:
        one.update(changes)


OF_PLAY: dict[str, list[Break]] = {
    "turns are numbered": [
        lambda c: c["turns"][3].update(number=12),
        lambda c: c["turns"].pop(2),
        lambda c: c["turns"].append(dict(c["turns"][0])),
        lambda c: c.update(prompt_index=PROMPTS + 1),
        lambda c: c["turns"][4].update(chosen=c["turns"][3]["chosen"]),
        lambda c: chosen(c, 5).update(status="failed"),
    ],
    "attempts are whole": [
        lambda c: event(c, 1, "user").update(text="Other words."),
        lambda c: event(c, 3).update(prompt_index=12),
        lambda c: c["events"].remove(event(c, 2, "user")),
        lambda c: c["events"].remove(event(c, 2)),
        lambda c: c["attempts"].pop(),
        lambda c: c["events"].append({**event(c, 1), "event_id": "again"}),
        lambda c: chosen(c, 4).update(status="failed"),
        lambda c: (add_reply(c, 5, "trial"), c["events"].pop()),
    ],
    "memory tiles": [
        lambda c: c["blocks"].remove(delta(c)),
        lambda c: c["blocks"].append(dict(delta(c))),
        lambda c: c.update(last_summarized_prompt_index=4),
        lambda c: c.update(last_summarized_prompt_index=0),
        lambda c: delta(c).update(from_prompt_index=2),
        lambda c: delta(c).update(attempt_id="attempt-y"),
    ],
    "states are legal": [
        lambda c: c.update(state="RESETTING"),
        lambda c: c.update(state="ENDED"),
        lambda c: c.update(state="DRAFT_TAB1"),
        lambda c: c.update(tab1_locked=False),
        lambda c: c.update(blocks=[delta(c)]),
    ],
    "one attempt in flight": [
        lambda c: c.update(turn_in_flight=c["turns"][4]["chosen"]),
        lambda c: run(c, is_named=False),
        lambda c: run(c, kind="reroll", number=3),
        lambda c: run(c, kind="trial", number=5),
        lambda c: run(c, state="ENDED"),
    ],
    "memory is asked for": [forget],
    "nothing is stuck": [
        lambda c: run(c, lease_until=0),
        lambda c: run(c, kind="trial", number=5, lease_until=0, is_named=False),
        lambda c: job(c, "summarize").update(status="running", lease_until=1),
        lambda c: job(c, "summarize").update(status="queued"),
        lambda c: c.update(state="SUMMARIZING"),
        lambda c: c.update(is_ending=True),
        lambda c: c.update(state="IMPORTING"),
    ],
    "prompts are there": [lambda c: c["calls"][0].update(joined="no text 'x'")],
    "spending is a sum": [
        lambda c: c["calls"].pop(0),
        lambda c: c["spent"].pop(),
        lambda c: c["spent"].append(c["spent"][0]),
        lambda c: c["calls"][0].update(of=["scripted", "another"]),
    ],
    "accepted words are kept": [
        lambda c: chosen(c, 5).update(key="another"),
        lambda c: chosen(c, 5).update(words="Go on"),
        lambda c: chosen(c, 5).update(actor=2),
        lambda c: c.update(session_id="another"),
    ],
    "answered attempts are committed": [lambda c: chosen(c, 5).update(status="set_aside")],
    "replies are kept": [
        lambda c: event(c, 5).update(text="Another."),
        lambda c: event(c, 5).update(event_id="another"),
    ],
    "no draft is lost": [lambda c: c["drafts"].clear(), lambda c: set_all(c["drafts"], text="")],
    "a form sent again is one call": [lambda c: chosen(c, 5).update(finished_calls=2)],
    "the setup is kept": [
        lambda c: c.update(world_text="A harbou"),
        lambda c: c.update(chapter_text=""),
        lambda c: c.update(identities={}),
    ],
}


def test_each_violation_of_play_is_noticed(installed: Install) -> None:
    model = installed("gamemaster")
    chapter = begin(model.scenario)
    for _ in range(PROMPTS):
        told = say(chapter, key="last" if chapter.prompt_index == PROMPTS - 1 else "")
        chapter.refresh_from_db()
    work_until_none_is_due()
    rows = read(chapter)
    rows["drafts"].append(dict(DRAFT))
    form = (str(chapter.pk), "last")
    journal = Journal(
        setups={
            form[0]: Setup(rows["world_text"], rows["chapter_text"], rows["identities"], {}),
        },
        kept={form: Words(1, "Go on.")},
        answered={
            form: Reply(PROMPTS, tuple((one["event_id"], one["text"]) for one in told["events"]))
        },
        drafts={DRAFT["draft_id"]: (form[0], DRAFT["text"])},
        called_once={form},
    )
    assert_noticed(rows, OF_PLAY, journal)
    for kind in ("reroll", "trial", "edit"):
        other = deepcopy(rows)
        turn = add_reply(other, PROMPTS, kind)
        assert broken(other) == set()
        turn["chosen"] = "attempt-y"
        assert broken(other) == set()
    assert_forks_are_compared(chapter, rows)


def assert_forks_are_compared(chapter: Session, rows: Rows) -> None:
    answer = call("POST", address(chapter, "fork"), {"number": 4}, Idempotency_Key="form")
    fork = read(Session.objects.get(pk=answer.json()["session_id"]))
    journal = Journal(forks={(str(chapter.pk), "form"): fork["session_id"]})
    assert broken(rows, fork, journal=journal) == set()
    strayed, other = deepcopy(fork), deepcopy(fork)
    event(strayed, 2)["text"] = "Something else."
    assert broken(rows, strayed, journal=journal) == {"forks read as their origin"}
    # At their latest turns both may choose otherwise.
    event(other, 4)["text"] = "Something else."
    assert broken(rows, other, journal=journal) == set()
    other["session_id"] = "another"
    assert broken(rows, fork, other, journal=journal) == {"a form sent again is one fork"}


def late_result(chapter: Rows) -> Rows:
    return job(chapter, "lighthouse.tide")


def taken(chapter: Rows) -> Rows:
    return next(one for one in chapter["changes"] if one["result"])


def alone(chapter: Rows) -> list[Rows]:
    return [one for one in chapter["attempts"] if one["key"].startswith("after ")]


def end_without(chapter: Rows) -> None:
    chapter["changes"].remove(taken(chapter))
    late_result(chapter)["status"] = "cancelled"
    chapter["state"] = "ENDED"


def wait_long(chapter: Rows) -> None:
    """Let all runs begin long after the late result was there."""
    chapter["changes"].remove(taken(chapter))
    set_all([late_result(chapter)], updated_at=0)


LATE: dict[str, list[Break]] = {
    "late results are taken once": [
        lambda c: c["changes"].append(dict(taken(c))),
        lambda c: taken(c).update(payload={}),
        lambda c: late_result(c).update(result={"level": 40}),
        lambda c: late_result(c).update(result_kind="wind"),
        lambda c: late_result(c).update(status="void"),
        lambda c: late_result(c).update(attempt_id="attempt-x"),
        lambda c: late_result(c).update(attempt_id=c["turns"][1]["chosen"]),
        lambda c: c["jobs"].remove(late_result(c)),
        wait_long,
        end_without,
    ],
    "who acts alone does so once": [
        lambda c: c["jobs"].remove(job(c, "go_on")),
        lambda c: alone(c)[0].update(words="Go on."),
        lambda c: alone(c)[0].update(key=f"after {c['turns'][0]['chosen']}"),
        lambda c: alone(c)[0].update(key="after attempt-x"),
        lambda c: job(c, "go_on").update(status="cancelled"),
        lambda c: job(c, "go_on").update(status="failed"),
        lambda c: c.update(most_turns_alone=1),
        lambda c: c["jobs"].append({**job(c, "go_on"), "attempt_id": c["turns"][-1]["chosen"]}),
    ],
    "acts are kept": [lambda c: c["changes"].pop()],
}


def test_each_violation_of_what_follows_a_turn_is_noticed(installed: Install) -> None:
    model = installed(LIGHTHOUSE)
    chapter = begin(model.scenario)
    say(chapter, None)
    work_until_none_is_due()
    say(chapter, 1)
    say(chapter, 1, WATCH)
    work_until_none_is_due()
    done = call("POST", address(chapter, "act"), model.scenario.acts[-1])
    assert done.status_code == 201, done.content
    rows = read(chapter)
    journal = Journal()
    journal.acts[str(chapter.pk)] = 1
    # The act is the last one of the changes, so that a rule above can take it away.
    rows["changes"].sort(key=lambda one: one["run_id"] is None)
    assert len(alone(rows)) == 2
    assert_noticed(rows, LATE, journal)
    # A job that ended all its workers is given up, and a result may wait for the next run.
    given_up, waits = deepcopy(rows), deepcopy(rows)
    job(given_up, "go_on").update(status="failed", runs=MOST_RUNS)
    waits["changes"].remove(taken(waits))
    assert broken(given_up) == broken(waits) == set()


def double(chapter: Rows) -> None:
    """Add somebody of the same name to both worlds."""
    for name in ("world", "first_world"):
        chapter[name]["people"]["the osk"] = dict(chapter[name]["people"]["Osk"])


WORLDS: dict[str, list[Break]] = {
    "the world is a fold": [
        lambda c: c["world"].update(tick=1_000),
        lambda c: c["changes"].clear(),
        lambda c: c["world"]["places"].update({"Nowhere": {}}),
        lambda c: c["world"]["people"]["Osk"].update(location="The Landing"),
    ],
    "nobody is double": [double],
    "secrets are kept": [
        lambda c: c["blocks"][-1].update(text=SECRET),
        lambda c: c["calls"][-1].update(text=f"## WORLD_NOW\n{SECRET}"),
    ],
    "simulations were asked for": [
        lambda c: c["jobs"].remove(job(c, "explorer.simulation")),
    ],
    "simulations are told": [
        lambda c: job(c, "explorer.simulation").update(result={"places": []}),
        lambda c: job(c, "explorer.simulation").update(status="failed"),
    ],
}


def go(model: ScriptedModel, chapter: Session, to: str) -> None:
    [move] = [made for made in model.scenario.tools if made[1].get("destination") == to]
    [wait] = [made for made in model.scenario.tools if made[1].get("ticks") == 25]
    model.enqueue(calls("I wait.", wait), calls("I go.", move), "There.")
    say(chapter, None)


def test_each_violation_of_a_world_is_noticed(installed: Install) -> None:
    model = installed("explorer")
    chapter = begin(model.scenario)
    go(model, chapter, "the drying loft")
    work_until_none_is_due()
    assert_noticed(read(chapter), WORLDS)
