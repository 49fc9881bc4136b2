"""Finds the installed modes that say how they are played under faults.

This is a separate program (python -m chaos.scenarios), because it needs Django's settings. It
prints one JSON list. A mode's module `chaos` has a `SCENARIO`, which may be empty, with fields of
`Scenario`.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import django


@dataclass(frozen=True)
class Scenario:
    """How chapters of a mode are played.

    `setup` has the mode's fields of Tab 1. Each of `prompts` is the body of a prompt that the mode
    takes; without a `user_text` it gets words of its own each time. Without `prompts` each prompt
    is for the character whose panel is shown. `acts` are bodies of acts, of which the mode may
    refuse one. `replies_end` is text with which each made-up reply ends, also those of other modes.
    The others are read from the mode: `has_numbered_agents` says whether its agents have numbers,
    by which a fault can wait for one of them.
    """

    mode: str
    has_numbered_agents: bool = True
    setup: dict[str, Any] = field(default_factory=dict)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    acts: list[dict[str, Any]] = field(default_factory=list)
    replies_end: str = ""
    is_narrated: bool = True


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    print(json.dumps([asdict(one) for one in read_scenarios()]))


def read_scenarios() -> list[Scenario]:
    from agents.modes import Stage, find_mode, has_stage, modules_of_modes

    scenarios = []
    for name, module in modules_of_modes("chaos").items():
        mode = find_mode(name)
        agents = mode.agents if mode else ()
        scenarios.append(
            Scenario(
                name,
                has_numbered_agents=any(one.agent_id is not None for one in agents),
                is_narrated=has_stage(name, Stage.NARRATION),
                **module.SCENARIO,
            )
        )
    return scenarios


if __name__ == "__main__":
    main()
