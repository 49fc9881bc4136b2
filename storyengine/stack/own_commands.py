"""Writes the program's own commands as they can be copied from advice and run."""

import shlex
import sys
from pathlib import Path

from django.conf import settings

# The path of Python in the Docker image.
_OF_THE_IMAGE = "/venv/bin/python"
# The service of compose.yaml in which commands are run by hand.
_IN_COMPOSE = ("docker", "compose", "run", "--rm", "prepare", "python", "manage.py")


def own_command(*arguments: str | Path) -> str:
    """Return the command that runs `manage.py` with these arguments, by compose or by this Python.

    The command sets STORYENGINE_DATA where the data folder is not the default one.
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
    """Return a path relative to the folder in which the program runs, if it is below it."""
    is_below = isinstance(argument, Path) and argument.is_relative_to(Path.cwd())
    return str(Path(argument).relative_to(Path.cwd()) if is_below else argument)
