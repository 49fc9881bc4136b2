"""How the program's own commands are typed where it runs: advice is copied as it stands."""

import shlex
import sys
from pathlib import Path

from django.conf import settings

# Where the Dockerfile puts Python.
_OF_THE_IMAGE = "/venv/bin/python"
# The service of compose.yaml in which commands are run by hand.
_IN_COMPOSE = ("docker", "compose", "run", "--rm", "prepare", "python", "manage.py")


def own_command(*arguments: str | Path) -> str:
    """`manage.py` with these arguments: by compose in its containers, else by this Python.

    A data folder that only the environment of this start may name is named again.
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
    """A path as it is typed in the folder in which the program runs."""
    is_below = isinstance(argument, Path) and argument.is_relative_to(Path.cwd())
    return str(Path(argument).relative_to(Path.cwd()) if is_below else argument)
