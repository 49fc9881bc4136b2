"""Finds the installed modes that can be played under faults, and by the tests of every mode.

This is a separate program (python -m chaos.scenarios), because it needs Django's settings. It
prints one JSON list. A mode can be played if it has a module `chaos` with a `SCENARIO`. This is a
dict with fields of the class `Scenario`, and may be empty.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import django


@dataclass(frozen=True)
class Scenario:
    """The way in which a run plays the chapters of a mode.

    `setup` has the fields that the mode adds to Tab 1. Each entry of `prompts` is the body of a
    prompt that the mode takes. If a body lacks `user_text`, the client writes new words each time.
    If there are no `prompts`, each prompt is sent to the character whose panel is shown. `acts` are
    bodies of acts, which the mode may refuse because of what was played before. `replies_end` is
    the text at the end of each made-up reply. Chapters of other modes get it too.

    The tests that every mode has to pass (`storyengine/tests/every_mode`) play by the same
    scenario, with replies of their own. `tools` are calls that a reply may make ("{}" in an
    argument becomes a number), and `answers` the
    arguments with which an agent answers that a tool asks, by the name of the answer; the one of
    `memory` is what its delta has beside the keys of the engine. `thought` is the beginning of a
    paragraph that is a thought of the actor.

    `has_numbered_agents` is True if agents of the mode have numbers. Only then can a fault wait for
    a call of one of these agents.
    """

    mode: str
    has_numbered_agents: bool = True
    setup: dict[str, Any] = field(default_factory=dict)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    acts: list[dict[str, Any]] = field(default_factory=list)
    replies_end: str = ""
    thought: str = ""
    tools: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_narrated: bool = True


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    print(json.dumps([asdict(one) for one in read_scenarios()]))


def read_scenarios() -> list[Scenario]:
    from agents.modes.declaration import Stage
    from agents.modes.registry import find_mode, has_stage, modules_of_modes

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
