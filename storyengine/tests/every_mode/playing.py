"""Functions by which the tests of every mode begin a chapter and play it through the API."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from agents.llm.providers.scripted import Script
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import has_stage, mode_of
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from chaos.scenarios import Scenario
from sessions.models import Attempt, Session
from storyengine.api.tests.calling import address, call

SLOTS = (1, 2, 3)
# The most prompts of a stretch of memory, so that a short play has several.
STRETCH = 3
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Try:
    """A committed attempt: its row, what was sent, what the model wrote, and what was shown when
    it was committed. `then` is how it came to its end after the model had written."""

    row: Attempt
    sent: dict[str, Any]
    scripts: list[Script]
    events: list[dict[str, Any]]
    world: str
    then: str = ""
    # The text of each edit by which the attempt was made of another one.
    edits: tuple[str, ...] = ()


@dataclass
class Step:
    """A turn: its committed attempts, the chosen one, the acts after it, and the world then."""

    tries: list[Try]
    chosen: Try
    acts: list[dict[str, Any]] = field(default_factory=list)
    world: str = ""


def begin(scenario: Scenario) -> Session:
    """Begin a chapter in play, whose characters have secrets of their own."""
    made = call("POST", "/api/session", {"mode": scenario.mode})
    assert made.status_code == 201, made.content
    chapter = Session.objects.get(pk=made.json()["session_id"])
    tab1 = {
        "world_text": "A harbour.",
        "chapter_text": "Night.",
        "selected_agent_slots": SLOTS,
        "agent_names": {"1": "Mara", "2": "Tomas", "3": "Ilse"},
        "agent_identity_text_by_slot": {str(slot): f"Keeps sq{slot}." for slot in SLOTS},
    }
    for name, body in (("tab1", tab1), ("setup", scenario.setup)):
        saved = call("PUT", address(chapter, name), body)
        assert saved.status_code == 200, saved.content
    Session.objects.filter(pk=chapter.pk).update(chunk_size_prompts=STRETCH)
    start(chapter)
    return Session.objects.get(pk=chapter.pk)


def start(chapter: Session) -> None:
    """Let play begin, if the chapter's mode has a lock."""
    if has_stage(chapter.mode, Stage.LOCK):
        locked = call("POST", address(chapter, "lock"))
        assert locked.status_code in (200, 202), locked.content
        work_until_none_is_due()


def work_until_none_is_due(is_wanted: Callable[[uuid.UUID], bool] = lambda _job: True) -> None:
    Job.objects.filter(status=Job.Status.QUEUED).update(run_after=timezone.now())
    while job_id := next(filter(is_wanted, due_jobs().values_list("pk", flat=True)), None):
        work_on(job_id)


def chosen_events(chapter: Session, number: int) -> list[dict[str, Any]]:
    """Return the events of the turn's chosen attempt as the API tells them, with thoughts."""
    chosen = chapter.turns.get(number=number).chosen_id
    return events_by_attempt(chapter, number)[str(chosen)]


def events_by_attempt(chapter: Session, number: int) -> dict[str, list[dict[str, Any]]]:
    turn = call("GET", address(chapter, f"turns/{number}") + "?thoughts=1").json()
    return {one["attempt_id"]: one["events"] for one in turn["attempts"]}


def committed(chapter: Session, number: int) -> list[Attempt]:
    """Return the turn's committed attempts, oldest first."""
    attempts = chapter.attempts.filter(turn__number=number, status=Attempt.Status.COMMITTED)
    return list(attempts.select_related("turn").order_by("committed_at", "pk"))


def exported(chapter: Session) -> dict[str, Any]:
    answer = call("GET", address(chapter, "export"))
    assert answer.status_code == 200, answer.content
    file: dict[str, Any] = answer.json()
    return file


def world_now(chapter: Session) -> str:
    """Return the world as text, without ids, which a copy of its chapter has otherwise."""
    return _ID.sub("", repr(mode_of(chapter).world.now(Session.objects.get(pk=chapter.pk))))


def world_after(chapter: Session, number: int) -> str:
    world = mode_of(chapter).world.after_turn(Session.objects.get(pk=chapter.pk), number)
    return _ID.sub("", repr(world))
