"""Stores an exploration of many turns in the database, and measures how long its world takes to
fold.

This is a separate program (python -m bench.world_fold TURNS), because it needs Django's settings.
It prints a JSON object with the number of changes and the median times in milliseconds: `read` of
reading the rows of the changes, and `fold` of reading them and folding the world, in a process
that keeps nothing of it.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

import django

from testing.session_data import reply_text
from testing.stored_turns import store_with_turns

if TYPE_CHECKING:
    from sessions.models import Session

TIMES = 15
# A move every third turn, what happened out of sight after it, and a stretch of memory.
MOVE_EVERY, TAKE_EVERY, MEMORY_EVERY = 3, 6, 7
LESSONS, EVENTS = 8, 3
Change = tuple[str, dict[str, Any]]


def main(turns: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    from agents.flows.locking import lock_without_a_model
    from agents.mode_fields import save_mode_setup
    from agents.modes import begin_chapter, world_now
    from explorer.ready import find_ready
    from sessions.models import Session
    from sessions.world import changes_that_count

    pk = begin_chapter("The Last Ferry", mode="explorer").pk
    # Without its opening, which would be the first turn.
    setup = find_ready("last-ferry").setup.model_copy(update={"opening": ""})
    save_mode_setup(pk, setup.model_dump(mode="json"))
    lock_without_a_model(pk)
    play(Session.objects.get(pk=pk), turns)

    def read() -> None:
        list(changes_that_count(Session.objects.get(pk=pk)))

    def fold() -> None:
        world_now(Session.objects.get(pk=pk))

    changes = changes_that_count(Session.objects.get(pk=pk)).count()
    print(
        json.dumps(
            {"changes": changes, "read": milliseconds_of(read), "fold": milliseconds_of(fold)}
        )
    )


def milliseconds_of(function: Callable[[], None]) -> float:
    """Return the median of several calls. The first call is not counted, because it also loads
    code."""
    times = []
    for _ in range(TIMES + 1):
        begun = time.perf_counter()
        function()
        times.append((time.perf_counter() - begun) * 1_000)
    return median(times[1:])


def play(chapter: "Session", turns: int) -> None:
    """Store turns with one committed attempt each, and the changes that such turns have."""
    from django.utils import timezone

    from agents.modes import world_now
    from sessions.models import Attempt, Session
    from sessions.models import Change as ChangeRow

    world = world_now(chapter)
    people = [one.name for one in world.people.values() if not one.is_player]
    places = list(world.places)
    player = world.player.name
    begun = timezone.now() - timedelta(days=1)
    attempts = [
        Attempt(
            session=chapter,
            submission_key=f"turn-{number}",
            status=Attempt.Status.COMMITTED,
            agent="explorer.narrator",
            words=f"Words {number}.",
            run_id=uuid.uuid4(),
            lease_until=begun,
            committed_at=begun + timedelta(seconds=number),
        )
        for number in range(1, turns + 1)
    ]
    store_with_turns(attempts)
    ChangeRow.objects.bulk_create(
        ChangeRow(
            session=chapter,
            attempt=attempt,
            run_id=attempt.run_id,
            position=position,
            kind=f"world.{kind}",
            payload=payload,
        )
        for number, attempt in enumerate(attempts, 1)
        for position, (kind, payload) in enumerate(changes_of(number, player, people, places))
    )
    Session.objects.filter(pk=chapter.pk).update(prompt_index=turns)


def changes_of(number: int, player: str, people: list[str], places: list[str]) -> Iterator[Change]:
    """Yield the changes of one turn."""
    if number % MEMORY_EVERY == 1 and number > 1:
        yield "remembered", told(number, people, places)
    if number % TAKE_EVERY == 1 and number > 1:
        place = places[number % len(places)]
        movement = {"who": people[number % len(people)], "to": places[(number + 1) % len(places)]}
        one = {"place": place, "tick": 2 * number, **told(number + 1, people[:2], places)}
        yield "simulated", {"places": [{**one, "movements": [movement]}], "skipped": []}
    yield "time", {"ticks": 1, "narrative_time": ""}
    if number % MOVE_EVERY == 0:
        who = [player, people[number % len(people)]]
        to = places[number // MOVE_EVERY % len(places)]
        yield "moved", {"who": who, "to": to, "ticks": 5, "narrative_time": f"Hour {number}"}


def told(number: int, people: list[str], places: list[str]) -> dict[str, Any]:
    """Return what a stretch of memory or a talk out of sight brings."""
    events = [
        {
            "description": reply_text(number * EVENTS + at, 14),
            "location": places[number % len(places)],
            "witnesses": people[:2],
            "is_learned": True,
        }
        for at in range(EVENTS)
    ]
    learned = [
        {
            "who": people[at % len(people)],
            "content": f"At {number}: {reply_text(number * LESSONS + at, 12)}",
            "source": "told",
            "from": people[(at + 1) % len(people)],
        }
        for at in range(LESSONS)
    ]
    ties = [{"who": people[0], "name": people[1], "description": reply_text(number, 8)}]
    return {"events": events, "learned": learned, "relationships": ties}


if __name__ == "__main__":
    main(int(sys.argv[1]))
