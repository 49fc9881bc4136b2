"""Plays one chapter of the fold test, and prints what was counted as JSON.

This is a separate program (python -m bench.fold_chapter TURNS SUBJECTS SEED), because it needs
Django's settings.
"""

import json
import os
import sys
from dataclasses import asdict

import django

from bench.fold_story import CAST


def main(turns: int, subjects: int, seed: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    from bench.fold_play import play_chapter

    tallies = play_chapter(turns, subjects=subjects, cast=len(CAST), seed=seed)
    counted = [
        {"stage": stage, "window": window, **asdict(tally)}
        for (stage, window), tally in tallies.items()
    ]
    print(json.dumps(counted))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
