"""Plays scenes on the embedded model, as a program of its own, because it needs Django's settings.

The argument of python -m bench.reply_jobs is a JSON object with `scenes` (names of files),
`prompts` (how many of each scene), `seeds` (how often), `is_tuning` and `sampling`. Without names,
all scenes are played. With `is_tuning`, those that are kept back are not. The program prints one
JSON object for each reply. While the model starts, it prints the model's messages for people.
"""

import asyncio
import json
import os
import sys
from typing import Any

import django

from bench.embedded_jobs import wait_for_model


def main(options: dict[str, Any]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    wait_for_model()
    asyncio.run(_play(options))


async def _play(options: dict[str, Any]) -> None:
    from bench.played_scenes import all_scenes, play_scene

    for scene in all_scenes():
        is_wanted = not options["scenes"] or scene.starter.name in options["scenes"]
        if not is_wanted or (options["is_tuning"] and scene.is_kept_back):
            continue
        asked = options["prompts"], options["sampling"], options["seeds"]
        async for result in play_scene(scene, *asked):
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
