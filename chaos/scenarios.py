"""Finds the installed modes that say how they are played under faults.

This is a separate program (python -m chaos.scenarios), because it needs Django's settings. It
prints one JSON list. A mode's module `chaos` has a `SCENARIO`: `names_actor` says whether a prompt
names who answers it, and `setup` has the mode's fields of Tab 1.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import django


@dataclass(frozen=True)
class Scenario:
    """How chapters of a mode are played."""

    mode: str
    names_actor: bool = True
    setup: dict[str, Any] = field(default_factory=dict)
    is_narrated: bool = True


GAME_MASTER = Scenario("gamemaster")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    print(json.dumps([asdict(one) for one in read_scenarios()]))


def read_scenarios() -> list[Scenario]:
    from agents.modes import Stage, has_stage, modules_of_modes

    return [
        Scenario(mode, is_narrated=has_stage(mode, Stage.NARRATION), **module.SCENARIO)
        for mode, module in modules_of_modes("chaos").items()
    ]


if __name__ == "__main__":
    main()
