"""Writes commands of this program in a form that a person can copy from a message and run."""

import shlex
import sys
from pathlib import Path

from django.conf import settings

# The path of Python in the Docker image.
_OF_THE_IMAGE = "/venv/bin/python"
# The command that runs `manage.py` by hand in a service of compose.yaml.
_IN_COMPOSE = ("docker", "compose", "run", "--rm", "prepare", "python", "manage.py")


def own_command(*arguments: str | Path) -> str:
    """Return the command that runs `manage.py` with these arguments.

    The command uses docker compose in the image, and this Python otherwise. If the data folder is
    not the default one, the command sets STORYENGINE_DATA.
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
    """Return a path in the form in which a person types it.

    If it is inside the folder in which the program runs, it is relative to that folder.
    """
    is_below = isinstance(argument, Path) and argument.is_relative_to(Path.cwd())
    return str(Path(argument).relative_to(Path.cwd()) if is_below else argument)
