"""docs/settings.md lists what there is to set, and nothing else."""

import re
from pathlib import Path

from django.conf import settings

BASE = Path(settings.BASE_DIR)


def names_read_by_the_program() -> set[str]:
    source = (BASE / "storyengine/settings/__init__.py").read_text(encoding="utf-8")
    source += (BASE / "storyengine/settings/environment.py").read_text(encoding="utf-8")
    names = set(re.findall(r'read_\w+\(\s*f?"([A-Z][A-Z_0-9]+(?:\{n\})?)"', source))
    return {name.replace("{n}", "0") for name in names}


def test_every_variable_is_documented() -> None:
    text = (BASE / "docs/settings.md").read_text(encoding="utf-8")
    documented = {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
        for name in re.findall(r"`([A-Z_0-9]+)`", row)
    }
    assert documented - {"STORYENGINE_MODEL_AGENT_9"} == names_read_by_the_program()
