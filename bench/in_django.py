"""Calls a function that needs Django's settings, in a process of its own, and prints its result as
JSON: python -m bench.in_django MODULE FUNCTION [ARGUMENTS as JSON]"""

import json
import os
import sys
from importlib import import_module

import django


def main(module: str, function: str, arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    print(json.dumps(getattr(import_module(module), function)(*json.loads(arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
