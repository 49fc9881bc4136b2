"""Checks, when the program starts, those parts of the declarations that could break another mode. A
fault that harms only its own mode shows itself when the mode is imported or first played."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register

from agents.models import Job
from agents.modes.declaration import Mode
from agents.modes.registry import all_agents, all_modes
from agents.prompting.declarations import ENGINE_AGENTS
from memory.telling.block_kinds import ENGINE_BLOCK_KINDS
from sessions.models import DEFAULT_MODE

NameT = TypeVar("NameT")


@register(Tags.compatibility)
def check_modes(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: object
) -> list[CheckMessage]:
    modes = all_modes()
    return [
        *_faults_of_modes(modes),
        *_faults_of_agents(modes),
        *_faults_of_layers(modes),
        *_faults_of_kinds("event", (mode.play.event_kinds for mode in modes)),
        *_faults_of_kinds("change", (mode.world.change_kinds for mode in modes)),
        *_faults_of_kinds("job", (Job.Kind.values, *(mode.play.job_kinds for mode in modes))),
        *_faults_of_kinds(
            "memory block", (ENGINE_BLOCK_KINDS, *(mode.memory.block_kinds for mode in modes))
        ),
        *_unknown_settings(),
    ]


def _faults_of_modes(modes: Sequence[Mode]) -> list[CheckMessage]:
    names = [mode.name for mode in modes]
    faults: list[CheckMessage] = [
        Error(
            f'Two ways to play are called "{name}".',
            hint="Rename one, or take it out of MODES.",
            id="agents.E002",
        )
        for name in _twice(names)
    ]
    if DEFAULT_MODE not in names:
        fault = f'The way to play of every chapter that names none, "{DEFAULT_MODE}", is missing.'
        faults.append(Error(fault, hint=f"Put {DEFAULT_MODE} back into MODES.", id="agents.E007"))
    return faults


def _faults_of_agents(modes: Sequence[Mode]) -> list[CheckMessage]:
    agents = all_agents()
    owners = (ENGINE_AGENTS, *(mode.agents for mode in modes))
    twice = _twice(chain.from_iterable({agent.name for agent in owned} for owned in owners))
    twice += [name for name, _ in _twice((agent.name, agent.agent_id) for agent in agents)]
    faults: list[CheckMessage] = [
        Error(
            f'The agent "{name}" is declared twice.',
            hint="Begin its name with the name of its way to play, as in explorer.narrator.",
            id="agents.E003",
        )
        for name in sorted(set(twice))
    ]
    named = {(agent.model_setting, agent.name) for agent in agents}
    return faults + [
        Error(
            f"STORYENGINE_MODEL_{setting} would name the model of several agents.",
            hint="Rename one of them. Dots and underscores count as one, and 0 to 9 are taken.",
            id="agents.E004",
        )
        for setting in _twice(setting for setting, _ in named)
    ]


def _faults_of_layers(modes: Iterable[Mode]) -> list[CheckMessage]:
    faults: list[CheckMessage] = []
    for mode in modes:
        taken = {(one.name, layer.name) for one in all_agents() for layer in one.layers}
        for added in mode.added_layers:
            if (added.agent, added.before) not in taken:
                what = f"stand before {added.before} of {added.agent}, which there is not"
            elif added.layer.name != added.before and (added.agent, added.layer.name) in taken:
                what = f"be added to {added.agent}, which has one of that name"
            else:
                taken.add((added.agent, added.layer.name))
                continue
            faults.append(
                Error(
                    f"The layer {added.layer.name} of {mode.name} is to {what}.",
                    hint="Name it otherwise, or an agent and a layer that there are.",
                    id="agents.E005",
                )
            )
    return faults


def _faults_of_kinds(what: str, kinds: Iterable[Iterable[str]]) -> list[CheckMessage]:
    return [
        Error(
            f'The kind of {what} "{kind}" is declared twice.',
            hint="Begin its name with the name of its way to play.",
            id="agents.E006",
        )
        for kind in sorted(_twice(chain.from_iterable(kinds)))
    ]


def _twice(declared: Iterable[NameT]) -> list[NameT]:
    return [one for one, times in Counter(declared).items() if times > 1]


def _unknown_settings() -> list[CheckMessage]:
    known = {agent.model_setting for agent in all_agents()}
    return [
        checks.Warning(
            f"STORYENGINE_MODEL_{name} names the model of no agent.",
            hint=f"The agents' are {', '.join(sorted(known))}.",
            id="agents.W001",
        )
        for name in sorted(settings.MODEL_BY_AGENT.keys() - known)
    ]
