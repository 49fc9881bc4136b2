"""Checks the declarations of modes when the program starts, before a chapter needs them."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Tags, register
from django.template import TemplateDoesNotExist
from django.template.loader import get_template

from agents.modes.declaration import Mode
from agents.modes.registry import Fault, all_agents, installed
from agents.prompting.declarations import ENGINE_AGENTS
from agents.prompting.forms.schemas import TurnDelta
from agents.prompting.prompt_files import PromptFileError, render_prompt
from memory.telling.block_kinds import ENGINE_BLOCK_KINDS
from sessions.limits import CHANGE_NAME_CHAR_LIMIT, KIND_CHAR_LIMIT
from sessions.models import DEFAULT_MODE

# The keys that a delta has by itself.
_OF_A_DELTA = frozenset(TurnDelta.model_fields)


@register(Tags.compatibility)
def check_modes(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: object
) -> list[CheckMessage]:
    loaded = installed()
    faults = [*loaded.faults, *_faults_of_agents(loaded.modes), *_faults_of_layers(loaded.modes)]
    faults += _faults_of_tools(loaded.modes)
    faults += _faults_of_kinds("event", (mode.event_kinds for mode in loaded.modes))
    faults += _faults_of_kinds("change", (mode.change_kinds for mode in loaded.modes))
    kinds_of_blocks = (mode.block_kinds for mode in loaded.modes)
    faults += _faults_of_kinds("memory block", (ENGINE_BLOCK_KINDS, *kinds_of_blocks))
    faults += _faults_of_names(loaded.modes)
    faults += _faults_of_setups(loaded.modes)
    faults += _faults_of_fields(loaded.modes)
    faults += _faults_of_stretches(loaded.modes)
    faults += _faults_of_memory(loaded.modes)
    faults += _faults_of_templates(loaded.modes)
    if DEFAULT_MODE not in {mode.name for mode in loaded.modes}:
        faults.append(
            Fault(
                "agents.E007",
                f'The way to play of every chapter that names none, "{DEFAULT_MODE}", is missing.',
                f"Put {DEFAULT_MODE} back into MODES.",
            )
        )
    return [
        *(checks.Error(one.message, hint=one.hint, id=one.check_id) for one in faults),
        *_unknown_settings(),
    ]


def _faults_of_agents(modes: Iterable[Mode]) -> list[Fault]:
    agents = all_agents()
    declared = (ENGINE_AGENTS, *(mode.agents for mode in modes))
    owners = Counter(chain.from_iterable({one.name for one in owned} for owned in declared))
    twice = {name for name, times in owners.items() if times > 1}
    twice |= _twice((one.name, one.agent_id) for one in agents)
    faults = [
        Fault(
            "agents.E003",
            f'The agent "{name}" is declared twice.',
            "Begin its name with the name of its way to play, as in explorer.narrator.",
        )
        for name in sorted(twice)
    ]
    names_of: dict[str, set[str]] = {}
    for agent in agents:
        names_of.setdefault(agent.model_setting, set()).add(agent.name)
    for setting, names in names_of.items():
        if len(names) > 1:
            faults.append(
                Fault(
                    "agents.E004",
                    f"STORYENGINE_MODEL_{setting} would name the model of several agents: "
                    f"{', '.join(sorted(names))}.",
                    "Rename one of them. Dots and underscores count as one, and 0 to 9 are taken.",
                )
            )
    return faults


def _faults_of_layers(modes: Iterable[Mode]) -> list[Fault]:
    faults = []
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
                Fault(
                    "agents.E005",
                    f"The layer {added.layer.name} of {mode.name} is to {what}.",
                    "Name it otherwise, or an agent and a layer that there are.",
                )
            )
    return faults


def _faults_of_setups(modes: Iterable[Mode]) -> list[Fault]:
    """Return a fault for each mode whose setup has required fields, because a new chapter has no
    values for required fields, and for each open or kept field that the setup does not have."""
    unknown = [
        Fault(
            "agents.E015",
            f"The setup of {mode.name} has no field that is called {name}, which is to stay open "
            "or to be kept.",
            "Name fields of the setup in open_fields and kept_fields.",
        )
        for mode in modes
        for name in sorted(
            (mode.open_fields | mode.kept_fields)
            - set(mode.setup.model_fields if mode.setup else ())
        )
    ]
    return unknown + [
        Fault(
            "agents.E008",
            f"The setup of {mode.name} has fields without a default: {', '.join(required)}.",
            "Give each a default, which a chapter has that nobody has set up yet.",
        )
        for mode in modes
        if mode.setup
        and (
            required := [name for name, one in mode.setup.model_fields.items() if one.is_required()]
        )
    ]


def _faults_of_fields(modes: Iterable[Mode]) -> list[Fault]:
    """Return a fault for each model with a field that has an alias or is a set.

    A stored field has its own name, so it cannot be read by its alias. The entries of a set have
    another order after each start of the program. So if a prompt with a set is sent again, the
    program would not recognise the prompt.
    """
    faults = []
    for mode in modes:
        for what, model in (("setup", mode.setup), ("given", mode.given)):
            schema = model.model_json_schema() if model else {}
            is_renamed = model and schema != model.model_json_schema(by_alias=False)
            if is_renamed or '"uniqueItems": true' in json.dumps(schema):
                kind = "an alias" if is_renamed else "a set"
                faults.append(
                    Fault(
                        "agents.E013",
                        f"A field in the {what} of {mode.name} has {kind}, so what is stored is "
                        "not what was sent.",
                        "Leave aliases out, and declare a list in place of a set.",
                    )
                )
    return faults


def _faults_of_stretches(modes: Iterable[Mode]) -> list[Fault]:
    return [
        Fault(
            "agents.E010",
            f"A stretch of memory of {mode.name} ends with a change of the kind "
            f'"{kind}", which it does not declare.',
            "Name it among the change_kinds of the way to play.",
        )
        for mode in modes
        for kind in sorted(mode.stretches.ended_by - mode.all_change_kinds)
    ]


def _faults_of_memory(modes: Iterable[Mode]) -> list[Fault]:
    """Return a fault for each mode whose added keys of memory cannot be asked for or taken."""
    faults = []
    for mode in modes:
        addition = mode.memory_addition
        if addition is None:
            continue
        fields = addition.fields.model_fields
        problems = [
            *(f"{name}, which a delta has already" for name in fields if name in _OF_A_DELTA),
            *(f"{name} without a default" for name, one in fields.items() if one.is_required()),
            *(f"{name} with an alias" for name, one in fields.items() if one.alias),
        ]
        try:
            render_prompt(addition.prompt)
        except PromptFileError:
            problems.append(f"rules from the prompt file {addition.prompt}, which cannot be read")
        if addition.change_kind not in mode.all_change_kinds:
            problems.append(f'the change "{addition.change_kind}", which it does not declare')
        faults += [
            Fault(
                "agents.E014",
                f"{mode.name} adds to the answers of agent 8 {problem}.",
                "Each key has a name of its own and a default, and the change is declared among "
                "the change_kinds of the way to play.",
            )
            for problem in problems
        ]
    return faults


def _faults_of_templates(modes: Iterable[Mode]) -> list[Fault]:
    faults = []
    for mode in modes:
        for name in filter(None, (mode.cells, mode.panel, mode.below_turn)):
            try:
                get_template(name)
            except TemplateDoesNotExist:
                faults.append(
                    Fault(
                        "agents.E011",
                        f"{mode.name} shows {name}, a template which there is not.",
                        "Put it into the folder templates of the way to play.",
                    )
                )
        if mode.cells and not mode.setup:
            faults.append(
                Fault(
                    "agents.E011",
                    f"{mode.name} has cells on Tab 1 but no setup that would keep what they hold.",
                    "Declare a setup, or leave the cells out.",
                )
            )
    return faults


def _faults_of_tools(modes: Iterable[Mode]) -> list[Fault]:
    return [
        Fault(
            "agents.E009",
            f"The tool {tool.name} of {agent.name} proposes changes of the kind "
            f'"{kind}", which {mode.name} does not declare.',
            "Name it among the change_kinds of the way to play.",
        )
        for mode in modes
        for agent in mode.agents
        for tool in agent.tools
        for kind in sorted(tool.change_kinds - mode.all_change_kinds)
    ]


def _faults_of_kinds(what: str, kinds: Iterable[Iterable[str]]) -> list[Fault]:
    return [
        Fault(
            "agents.E006",
            f'The kind of {what} "{kind}" is declared twice.',
            "Begin its name with the name of its way to play.",
        )
        for kind in sorted(_twice(chain.from_iterable(kinds)))
    ]


def _faults_of_names(modes: Iterable[Mode]) -> list[Fault]:
    """Return a fault for each name that is too long for its column in the database."""
    found = [
        (name, len(name) - longest)
        for mode in modes
        for names, longest in (
            (mode.event_kinds, KIND_CHAR_LIMIT),
            (mode.block_kinds, KIND_CHAR_LIMIT),
            (mode.job_kinds, KIND_CHAR_LIMIT),
            (mode.change_kinds, CHANGE_NAME_CHAR_LIMIT),
            ([act.name for act in mode.acts], CHANGE_NAME_CHAR_LIMIT),
        )
        for name in sorted(names)
    ]
    return [
        Fault("agents.E012", f'The name "{name}" is too long.', f"Shorten it by {more}.")
        for name, more in found
        if more > 0
    ]


def _twice(declared: Iterable[str | tuple[str, int | None]]) -> set[str]:
    counted = Counter(declared)
    return {one if isinstance(one, str) else one[0] for one, times in counted.items() if times > 1}


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
