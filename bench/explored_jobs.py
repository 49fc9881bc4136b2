"""Explores scenarios on the embedded model, as a program of its own, because it needs Django's
settings.

The argument of python -m bench.explored_jobs is a JSON object with `forms`, `scenarios` (how many)
and `turns` (how many of each). The program prints one JSON object for each turn. While the model
starts, it prints the model's messages for people.
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
    from bench.explored_turns import all_scenarios, explore

    for form in options["forms"]:
        for scenario in all_scenarios()[: options["scenarios"]]:
            async for result in explore(scenario, options["turns"], form):
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
