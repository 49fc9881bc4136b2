"""Measures how much processor time a search of a chapter takes, and how many bytes its terms
have: python -m bench.recalling"""

import json
import os
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import django

from bench.figure import Figure
from bench.http_calls import BenchError
from bench.program import open_processes
from bench.report import report
from bench.session_data import beat_text

TURNS = (600, 5_000)
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
        except (BenchError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    return report(recall_figures(samples), session="recall", load_before=load_before)


def recall_figures(samples: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return the figures of the samples. They have no targets, because machines differ."""
    figures = []
    for one in samples:
        times = one["milliseconds"]
        named = f"Recall among {one['turns']:,} turns"
        figures += [
            Figure(
                f"{named}: processor time",
                median(times),
                f"median {median(times):.0f} ms, worst {max(times):.0f} ms of {len(times)}",
            ),
            Figure(
                f"{named}: terms of a turn",
                one["bytes"] / one["turns"],
                f"{one['bytes'] / one['turns']:,.0f} bytes as JSON",
            ),
            Figure(
                f"{named}: the turn whose beat was the question is first",
                one["first"],
                f"{one['first']} of {len(times)}",
            ),
        ]
    return figures


def take_samples() -> list[dict[str, Any]]:
    """Store a long chapter, and ask it for turns by the words of their beats."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    from bench.long_prompts import LongChapter
    from memory.recalling import Reader, recall
    from sessions.models import EventTerms

    chapter, samples = LongChapter(), []
    for turns in TURNS:
        for last in range(chapter.session.prompt_index + STEP, turns + 1, STEP):
            chapter.play_to(last)
        rows = EventTerms.objects.values_list("counts", flat=True)
        size = sum(len(json.dumps(counts, ensure_ascii=False).encode()) for counts in rows)
        reader = Reader(chapter.session, readers=(1,))
        recall(reader, beat_text(1), RESULTS)
        milliseconds, first = [], 0
        for number in range(turns // QUESTIONS, turns + 1, turns // QUESTIONS):
            begun = time.process_time()
            found = recall(reader, beat_text(number), RESULTS)
            milliseconds.append((time.process_time() - begun) * 1_000)
            first += bool(found) and found[0].prompt_index == number
        samples.append(
            {"turns": turns, "milliseconds": milliseconds, "bytes": size, "first": first}
        )
    return samples


if __name__ == "__main__":
    if sys.argv[1:] == ["sample"]:
        print(json.dumps(take_samples()))
    else:
        sys.exit(main())
