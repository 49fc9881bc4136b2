"""The prompts: Markdown files that can substitute `$name`, and nothing else.

The engine's own are in agents/prompts; `explorer.narrator` names the file narrator.md in the folder
prompts of the app explorer.
"""

from functools import lru_cache
from pathlib import Path
from string import Template

from django.apps import apps
from django.conf import settings

PROMPTS_FOLDER = Path(__file__).resolve().parent.parent / "prompts"


class PromptFileError(Exception):
    """A prompt file is missing, malformed, or asks for other variables than it was given."""


def render_prompt(name: str, /, **variables: str) -> str:
    """The text of prompts/<name>.md with its variables put in, word for word.

    Raises PromptFileError when the file and `variables` do not name exactly the same variables.
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
    """With DEBUG it changes when the file does; otherwise it is 0, because files then stay as they
    are. It is 0 too where there is no file, which loading it reports."""
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
