"""Measures how much processor time a search takes of a chapter, and of a story of several, and how
many bytes the terms of a chapter have: python -m bench.recalling"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import django

from bench.figure import Figure
from bench.report import report
from testing.http_calls import RunError
from testing.program import open_processes
from testing.session_data import beat_text

if TYPE_CHECKING:
    from bench.long_prompts import LongChapter
    from sessions.models import Session

TURNS = (600, 5_000)
# The numbers of chapters of a story that are searched, and the turns that each of them has.
CHAPTERS, TURNS_OF_EACH = (1, 2, 4, 8), 600
QUESTIONS, RESULTS = 20, 8
# A step that keeps the chapter's rows of one statement few.
STEP = 100


def main() -> int:
    load_before = os.getloadavg()[0]
    with open_processes({}) as processes:
        try:
            processes.run("migrate", [sys.executable, "manage.py", "migrate", "--verbosity=0"])
            command = [sys.executable, "-m", "bench.recalling", "sample"]
            samples = json.loads(processes.run("recalling", command, timeout=900).splitlines()[-1])
        except (RunError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    return report(recall_figures(samples), session="recall", load_before=load_before)


def recall_figures(samples: dict[str, Any]) -> list[Figure]:
    """Return the figures of the samples. Only the ratio of times has a target, because machines
    differ."""
    figures = []
    for one in samples["chapters"]:
        named = f"Recall among {one['turns']:,} turns"
        figures += [
            _time(named, one["milliseconds"]),
            Figure(
                f"{named}: terms of a turn",
                one["bytes"] / one["turns"],
                f"{one['bytes'] / one['turns']:,.0f} bytes as JSON",
            ),
            Figure(
                f"{named}: the turn whose beat was the question is first",
                one["first"],
                f"{one['first']} of {len(one['milliseconds'])}",
            ),
        ]
    medians = {}
    for one in samples["stories"]:
        named = f"Recall in chapter {one['chapters']} of {TURNS_OF_EACH} turns each"
        medians[one["chapters"]] = median(one["milliseconds"])
        figures.append(_time(named, one["milliseconds"]))
    ratio = medians[2] / medians[1]
    shown = f"{ratio:.2f} times the time of the first"
    figures.append(Figure("Recall in a second chapter", ratio, shown, "below 2", ratio < 2))
    return figures


def _time(named: str, times: Sequence[float]) -> Figure:
    shown = f"median {median(times):.1f} ms, worst {max(times):.1f} ms of {len(times)}"
    return Figure(f"{named}: processor time", median(times), shown)


def take_samples() -> dict[str, Any]:
    """Store long chapters, and ask for turns by the words of their beats."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    return {"chapters": list(_sample_chapters()), "stories": list(_sample_stories())}


def _sample_chapters() -> Iterator[dict[str, Any]]:
    from bench.long_prompts import LongChapter
    from sessions.models import EventTerms

    chapter = LongChapter()
    for turns in TURNS:
        _play_to(chapter, turns)
        rows = EventTerms.objects.values_list("counts", flat=True)
        size = sum(len(json.dumps(counts, ensure_ascii=False).encode()) for counts in rows)
        yield {"turns": turns, "bytes": size, **_ask(chapter.session, turns)}


def _sample_stories() -> Iterator[dict[str, Any]]:
    from bench.long_prompts import LongChapter

    before = None
    for number in range(1, max(CHAPTERS) + 1):
        chapter = LongChapter(before)
        _play_to(chapter, TURNS_OF_EACH)
        before = chapter.session
        if number in CHAPTERS:
            yield {"chapters": number, **_ask(chapter.session, TURNS_OF_EACH)}


def _play_to(chapter: "LongChapter", turns: int) -> None:
    for last in range(chapter.session.prompt_index + STEP, turns + 1, STEP):
        chapter.play_to(last)


def _ask(chapter: "Session", turns: int) -> dict[str, Any]:
    """Ask for turns by the words of their beats."""
    from memory.recalling import Reader, recall

    reader = Reader(chapter, readers=(1,))
    recall(reader, beat_text(1), RESULTS)
    milliseconds, first = [], 0
    for number in range(turns // QUESTIONS, turns + 1, turns // QUESTIONS):
        begun = time.process_time()
        found = recall(reader, beat_text(number), RESULTS)
        milliseconds.append((time.process_time() - begun) * 1_000)
        first += bool(found) and found[0].prompt_index == number
    return {"milliseconds": milliseconds, "first": first}


if __name__ == "__main__":
    if sys.argv[1:] == ["sample"]:
        print(json.dumps(take_samples()))
    else:
        sys.exit(main())
