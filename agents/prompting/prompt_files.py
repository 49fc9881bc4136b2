"""Reads the prompts of agents, which are Markdown files. `$name` in a file stands for a variable.

The engine's own files are in agents/prompts. A name such as `explorer.narrator` stands for the file
narrator.md in the folder prompts of the app explorer.
"""

from functools import lru_cache
from pathlib import Path
from string import Template

from django.apps import apps
from django.conf import settings

PROMPTS_FOLDER = Path(__file__).resolve().parent.parent / "prompts"


class PromptFileError(Exception):
    """A prompt file is missing or malformed, or it has other variables than expected."""


def render_prompt(name: str, /, **variables: str) -> str:
    """Return the text of the prompt file with this name, with its variables filled in.

    Raises PromptFileError unless the file has exactly the given `variables`.
    """
    template = _load(name, version_of(name))
    wanted = set(template.get_identifiers())
    if missing := sorted(wanted - variables.keys()):
        raise PromptFileError(f"{name}.md needs {_list(missing)}.")
    if unknown := sorted(variables.keys() - wanted):
        raise PromptFileError(f"{name}.md does not know {_list(unknown)}.")
    return template.substitute(variables)


@lru_cache(maxsize=64)
def _load(name: str, version: int) -> Template:
    try:
        template = Template(_path(name).read_text(encoding="utf-8").strip())
    except OSError as error:
        raise PromptFileError(f"There is no prompt file {name}.md.") from error
    if not template.is_valid():
        raise PromptFileError(f"{name}.md holds a $ that names no variable; write it as $$.")
    return template


def version_of(name: str) -> int:
    """Return a number that changes when the prompt file changes.

    Without DEBUG the number is always 0, because files do not change then. It is also 0 for a
    missing file, because the error is reported when the file is read.
    """
    if not settings.DEBUG:
        return 0
    path = _path(name)
    return path.stat().st_mtime_ns if path.exists() else 0


def _path(name: str) -> Path:
    app, _, stem = name.rpartition(".")
    if not stem.isidentifier() or (app and not apps.is_installed(app)):
        raise PromptFileError(f"{name!r} is no name of a prompt file.")
    return (_folder_of(app) if app else PROMPTS_FOLDER) / f"{stem}.md"


@lru_cache(maxsize=16)
def _folder_of(app: str) -> Path:
    [config] = (one for one in apps.get_app_configs() if one.name == app)
    return Path(config.path) / "prompts"


def _list(variables: list[str]) -> str:
    return ", ".join(f"${variable}" for variable in variables)
