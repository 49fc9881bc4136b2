"""Calls a function that needs Django's settings, in a process of its own, and prints its result as
JSON: python -m bench.in_django MODULE FUNCTION [ARGUMENTS as JSON]

Each result of a generator is printed on a line of its own as soon as it is there.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Generator
from importlib import import_module

import django


def main(module: str, function: str, arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    answer = getattr(import_module(module), function)(*json.loads(arguments))
    if isinstance(answer, AsyncGenerator):
        asyncio.run(_print_each(answer))
        return
    for result in answer if isinstance(answer, Generator) else [answer]:
        print(json.dumps(result), flush=True)


async def _print_each(results: AsyncGenerator[object, None]) -> None:
    async for result in results:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
