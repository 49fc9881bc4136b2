"""Builds the command lines that messages show, so that a person can copy and run them."""

import shlex
import sys
from pathlib import Path

from django.conf import settings

# The path of the Python program in the Docker image.
_OF_THE_IMAGE = "/venv/bin/python"
# The beginning of a command line that runs `manage.py` with docker compose.
_IN_COMPOSE = ("docker", "compose", "run", "--rm", "prepare", "python", "manage.py")


def own_command(*arguments: str | Path) -> str:
    """Return a command line that runs `manage.py` with these arguments.

    In the Docker image, the command uses docker compose. Elsewhere it uses the Python that runs
    now, and sets STORYENGINE_DATA if the data folder is not the default one.
    """
    given = [path_as_typed(argument) for argument in arguments]
    if sys.executable == _OF_THE_IMAGE:
        return shlex.join([*_IN_COMPOSE, *given])
    python, manage = Path(sys.executable), settings.BASE_DIR / "manage.py"
    command = shlex.join([path_as_typed(python), path_as_typed(manage), *given])
    if settings.DATA_FOLDER == settings.BASE_DIR / "var":
        return command
    return f"STORYENGINE_DATA={shlex.quote(str(settings.DATA_FOLDER))} {command}"


def path_as_typed(argument: str | Path) -> str:
    """Return a path as a person would type it. A path below the present folder becomes relative."""
    is_below = isinstance(argument, Path) and argument.is_relative_to(Path.cwd())
    return str(Path(argument).relative_to(Path.cwd()) if is_below else argument)
