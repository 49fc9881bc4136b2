"""Builds chapters for bench.load directly in the database, and counts the queries of pages.

This is a separate program (python -m bench.load_chapters play 20), because it needs Django's
settings. It prints JSON on its last line.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import django

from testing.tab2_chapters import CHUNK, build_chapter, count_queries

if TYPE_CHECKING:
    from sessions.models import Session

# The least number of prompts of a chapter. Chapters have up to six more, so that all of them soon
# need a summary, but not at the same moment.
PROMPTS_BEFORE = 8


def main(what: str, count: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    makers: dict[str, Callable[[int], Any]] = {
        "play": chapters_to_play,
        "due": due_summaries,
        "turns": lambda prompts: str(build_chapter(2 * prompts).pk),
        "library": fill_library,
        "pages": long_chapter,
    }
    print(json.dumps(makers[what](count)))


def chapters_to_play(count: int) -> list[str]:
    """Build chapters with different numbers of prompts after their last summary."""
    return [str(build_chapter(2 * (PROMPTS_BEFORE + n % CHUNK)).pk) for n in range(count)]


def due_summaries(count: int) -> int:
    """Build chapters of one stretch each, whose summary is due and was not told to the broker."""
    from django.db import transaction

    from agents.models import Job

    with transaction.atomic():
        for _ in range(count):
            chapter = build_chapter(2 * CHUNK, is_remembered=False)
            attempt = chapter.turns.get(number=CHUNK).chosen
            Job.objects.create(
                session=chapter,
                kind=Job.Kind.SUMMARIZE,
                key=f"1-{CHUNK} {attempt.pk}",
                attempt=attempt,
                from_prompt_index=1,
                to_prompt_index=CHUNK,
            )
    return count


def fill_library(count: int) -> dict[str, Any]:
    """Build short chapters until the library has `count` chapters."""
    from sessions.models import Session

    for number in range(count - Session.objects.count()):
        build_chapter(2 + 2 * (number % 5))
    count_queries("/")
    return {"path": "/", "queries": count_queries("/")}


def long_chapter(events: int) -> list[dict[str, Any]]:
    """Build two chapters with this number of events, one in play and one ended, and return their
    pages.

    Each page has a name, a path, the status of its answer, and the number of its queries.
    """
    played, ended = build_chapter(events), build_chapter(events)
    _end(ended)
    pages = [*_pages_in_play(played), *_pages_of_end(ended), _lock_poll()]
    for page in pages:
        # The queries of the first visit do not count, because it fills the caches of templates and
        # of memory.
        _count(page)
        page["queries"] = _count(page)
    return pages


def _pages_in_play(chapter: "Session") -> list[dict[str, Any]]:
    from storyengine.tabs.play_page import read_play

    at, prompt = f"/chapters/{chapter.pk}", chapter.prompt_index
    page = read_play(chapter.pk)
    return [
        _page("Tab 1", f"{at}/world"),
        _page("Tab 2", f"{at}/play"),
        _poll("Tab 2, poll", f"{at}/play/status?shape={page.shape}&seen={page.version}"),
        _page("Tab 3, in play", f"{at}/chapter"),
        _page("whole transcript", f"{at}/transcript"),
        _page("calls of a prompt", f"{at}/calls/prompts/{prompt}"),
        _page("calls of a memory block", f"{at}/calls/memory/2"),
        _page("usage", f"{at}/usage"),
        _page("End Chapter?", f"{at}/end/confirm"),
    ]


def _pages_of_end(chapter: "Session") -> list[dict[str, Any]]:
    from storyengine.tabs.chapter_page import read_page

    at = f"/chapters/{chapter.pk}"
    page = read_page(chapter.pk, "")
    seen = f"seen={page.version}&memory={page.memory_version}"
    return [
        _page("Tab 3", f"{at}/chapter"),
        _poll("Tab 3, poll", f"{at}/chapter/status?{seen}"),
        _page("Tab 3, Now view", f"{at}/chapter?show=now"),
        _page("estimate of a build", f"{at}/chapter/estimate"),
    ]


def _lock_poll() -> dict[str, Any]:
    from sessions.models import Session, State
    from storyengine.tabs.world import locking_context

    chapter = build_chapter(0)
    Session.objects.filter(pk=chapter.pk).update(state=State.LOCKING)
    version = locking_context(chapter, {})["version"]
    return _poll("lock, poll", f"/chapters/{chapter.pk}/lock/status?seen={version}")


def _end(chapter: "Session") -> None:
    from sessions.models import Session, State

    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)


def _page(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "path": path, "status": 200}


def _poll(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "path": path, "status": 204}


def _count(page: dict[str, Any]) -> int:
    return count_queries(page["path"], status=page["status"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
