"""Measures what lists of stories and the sweep cost in a library of 100 and of 100,000 chapters:
python -m bench.many_chapters [--database postgres://… an empty one] [--chapters 100000]"""

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import django

from bench.figure import Figure
from bench.report import report
from testing.http_calls import RunError
from testing.program import open_processes

FEW, MANY = 100, 100_000
# A library of many chapters costs at most so many times what one of few chapters costs.
MOST_TIMES = 2.0
# Shorter times are those of the round trip, and are not compared.
LEAST_MS = 2.0
READINGS = 15
STEP = 1_000


def main(options: argparse.Namespace) -> int:
    load_before = os.getloadavg()[0]
    environment = {"DATABASE_URL": options.database} if options.database else {}
    with open_processes(environment) as processes:
        try:
            processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
            command = [sys.executable, "-m", "bench.many_chapters", "sample"]
            output = processes.run("sample", [*command, str(options.chapters)], timeout=3_600)
        except (RunError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    samples = json.loads(output.splitlines()[-1])
    return report(size_figures(samples), session="many-chapters", load_before=load_before)


def size_figures(samples: dict[str, dict[str, float]]) -> list[Figure]:
    """Return what each thing costs in the larger library, beside its cost in the smaller one."""
    few, many = (samples[size] for size in sorted(samples, key=int))
    figures = []
    for name, milliseconds in many.items():
        times = max(milliseconds, LEAST_MS) / max(few[name], LEAST_MS)
        shown = f"{milliseconds:.1f} ms instead of {few[name]:.1f}"
        figures.append(Figure(name, times, shown, f"{MOST_TIMES:.0f} times", times <= MOST_TIMES))
    return figures


def take_samples(many: int) -> dict[int, dict[str, float]]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    from django.db import connection

    samples = {}
    for size in (FEW, many):
        fill_library(size)
        # PostgreSQL looks at its tables by itself after a while, and SQLite never does.
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        samples[size] = {name: _milliseconds(act) for name, act in _acts().items()}
    return samples


def _acts() -> dict[str, Callable[[], object]]:
    """Return what is measured, by its name."""
    from django.test import Client

    from agents.running import database, recovery
    from agents.running.jobs import due_jobs, requeue_expired
    from memory.shelf import find_stories
    from sessions.breaking import recover_dead_attempts
    from sessions.importing import remove_left_behind
    from sessions.models import Session
    from sessions.stories import deletions, remove_deleted

    database.database_threads = None
    client = Client(SERVER_NAME="localhost")
    chapter = Session.objects.order_by("pk").values_list("pk", flat=True)[0]
    pages = {
        "Home page": "/",
        "Home page, page 4": "/?page=4",
        "Home page, stories in play": "/?state=in-play",
        "Home page, stories told": "/?state=told",
        "Home page, by beginning": "/?sort=begun",
        "Home page, by title": "/?sort=title",
        "Home page, by length": "/?sort=length",
        "Home page, by title, in play": "/?sort=title&state=in-play",
        "Home page, search of a word of all": "/?q=lamp",
        "Home page, search of a word of all replies": "/?q=boat",
        "Home page, search of a rare word": "/?q=zeppelin-777",
        "Home page, search of a word of none": "/?q=nowhere",
        "API, stories": "/api/story?limit=20",
        "API, stories from 50,000 on": "/api/story?limit=20&offset=50000",
        "API, chapters": "/api/session?limit=20",
        "API, chapters from 50,000 on": "/api/session?limit=20&offset=50000",
        "Tab 2": f"/chapters/{chapter}/play",
        "Metrics": "/metrics",
    }
    return {
        "Query of the stories played last": lambda: find_stories(places=slice(20)),
        **{name: partial(_get, client, path) for name, path in pages.items()},
        "What can be brought back": deletions,
        "Sweep: stuck chapters": lambda: recovery._free_from_summaries(None),
        "Sweep: dead replies": recover_dead_attempts,
        "Sweep: dead jobs": requeue_expired,
        "Sweep: due jobs": lambda: list(due_jobs().values_list("pk", flat=True)),
        "Sweep: unfinished imports": remove_left_behind,
        "Sweep: deleted chapters": remove_deleted,
    }


def _get(client: Any, path: str) -> None:
    answer = client.get(path)
    if answer.status_code != 200:
        raise SystemExit(f"GET {path}: {answer.status_code}")


def _milliseconds(act: Callable[[], object]) -> float:
    """Return the least milliseconds that a call takes. Other work on the machine only adds to
    them."""
    act()
    times = []
    for _ in range(READINGS):
        begun = time.perf_counter()
        act()
        times.append((time.perf_counter() - begun) * 1000)
        if sum(times) > 10_000:
            break
    return round(min(times), 2)


def fill_library(size: int) -> None:
    """Store chapters until there are `size` of them, each in a story of its own."""
    from django.db import transaction

    from sessions.models import Session

    stored = Session.objects.count()
    for first in range(stored, size, STEP):
        with transaction.atomic():
            _store(range(first, min(first + STEP, size)))


def _store(numbers: range) -> None:
    from django.apps import apps

    rows: dict[str, list[Any]] = {}
    for number in numbers:
        for row in _rows_of(number):
            rows.setdefault(row._meta.label, []).append(row)
    for label, of_model in rows.items():
        apps.get_model(label)._default_manager.bulk_create(of_model)


def _rows_of(number: int) -> Iterator[Any]:
    """Yield the rows of a chapter with one turn. Of ten chapters, seven are in play, one is being
    set up, one has ended and one is told."""
    from django.utils import timezone

    from agents.models import Job
    from memory.models import NarrativeDraft
    from sessions.models import Attempt, CastMember, Event, Session, State, Story, Tab1Inputs, Turn

    state = (State.DRAFT_TAB1, State.ENDED, State.ENDED, *[State.ACTIVE] * 7)[number % 10]
    played_at = timezone.now() - timedelta(days=30, minutes=-(number * 7919 % 40_000))
    story = Story(created_at=played_at)
    title = f"The Lamp {number * 7919 % 100_003}"
    chapter = Session(
        story=story, title=title, state=state, prompt_index=1, last_played_at=played_at,
        tab1_locked=state != State.DRAFT_TAB1,
    )  # fmt: skip
    chapter.updated_at = played_at
    attempt = Attempt(
        session=chapter, submission_key=uuid.uuid4().hex, actor=1, words=f"Beat {number}.",
        status=Attempt.Status.COMMITTED, lease_until=played_at, committed_at=played_at,
    )  # fmt: skip
    turn = attempt.turn = Turn(session=chapter, number=1, chosen=attempt)
    yield story
    yield chapter
    yield Tab1Inputs(session=chapter, world_text=f"A harbour with one light, {number}. " * 8)
    yield CastMember(session=chapter, slot=1, is_selected=True, name=f"Ada {number}")
    yield attempt
    yield turn
    for position, role in enumerate((Event.Role.USER, Event.Role.AGENT)):
        yield Event(
            session=chapter, attempt=attempt, position=position, role=role, prompt_index=1,
            agent_slot=1, witnesses=[1],
            text=f"The boat zeppelin-{number} came in at dusk, and nobody was aboard. " * 6,
        )  # fmt: skip
    yield Job(
        session=chapter, kind=Job.Kind.LOCK, key="lock", status=Job.Status.DONE,
        run_after=played_at, created_at=played_at, updated_at=played_at,
    )  # fmt: skip
    if number % 10 == 1:
        yield NarrativeDraft(
            session=chapter, attempt=attempt, target_words=500, source_snapshot={},
            chapter_text="Nobody had lit the lamp. " * 40,
        )  # fmt: skip


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.many_chapters", description=__doc__)
    parser.add_argument("--database", help="the address of an empty database on PostgreSQL")
    parser.add_argument("--chapters", type=int, default=MANY)
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["sample"]:
        print(json.dumps(take_samples(int(sys.argv[2]))))
        sys.exit()
    with suppress(KeyboardInterrupt):
        sys.exit(main(parse_options()))
    sys.exit(130)
