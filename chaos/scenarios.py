"""The ways to play that are installed here and say how they are played under faults.

A program of its own (python -m chaos.scenarios), because it needs Django's settings; prints one
JSON list. A mode says what is its own in the `SCENARIO` of its module `chaos`: `names_actor`,
whether a prompt names who answers it, and `setup`, what it adds to Tab 1.
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
