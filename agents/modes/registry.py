"""Finds the modes that are installed, and asks the mode of a chapter the engine's questions.

`settings.MODES` lists apps. Each of these apps has a module `mode`, whose `MODE` is the
declaration. All other code reaches a mode through agents.modes.registry.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import chain
from types import ModuleType

from django.conf import settings
from django.utils.module_loading import module_has_submodule

from agents.llm.providers.failures.call_errors import EmptyReply
from agents.modes.declaration import Mode, Stage
from agents.prompting.agent import Agent, in_chapter
from agents.prompting.declarations import ENGINE_AGENTS
from agents.prompting.escaping import guard_elements
from agents.prompting.layers import Layer, Tier
from agents.prompting.sandwich import LayerDeclaration, Subject, compose
from agents.running.job_kinds import declare_job_kind
from memory.blocks.stretches import declare_stretches
from memory.telling.block_kinds import declare_block_kind
from sessions.chapter.cast import replace_cast
from sessions.chapter.chapters import create_chapter
from sessions.exceptions import InvalidInput, WrongState
from sessions.language.text import is_blank
from sessions.limits import MAX_EVENTS_OF_AN_ATTEMPT, MAX_PEOPLE, PAYLOAD_CHAR_LIMIT
from sessions.models import DEFAULT_MODE, THOUGHT, Attempt, Session
from sessions.payloads import check_stored_size
from sessions.play.attempts import Writer
from sessions.play.events import NewEvent, reply
from sessions.play.played_world import NewChange
from sessions.reply_lengths import ReplyLength

# The limit on a character's text is multiplied by one of these numbers.
_LENGTH_FACTORS: Mapping[str, float] = {ReplyLength.SHORT: 0.6, ReplyLength.LONG: 2.0}


def all_modes() -> tuple[Mode, ...]:
    """Return the modes of the apps in `settings.MODES`."""
    return tuple(load_modes(tuple(settings.MODES)).values())


def modules_of_modes(name: str) -> dict[str, ModuleType]:
    """Return the modules with this name, such as `urls`, in the apps of the modes. The keys are the
    names of the modes."""
    return {
        mode.name: import_module(f"{app}.{name}")
        for app, mode in load_modes(tuple(settings.MODES)).items()
        if module_has_submodule(import_module(app), name)
    }


def find_mode(name: str) -> Mode | None:
    return next((mode for mode in all_modes() if mode.name == name), None)


def mode_of(chapter: Session) -> Mode:
    """Return the chapter's mode. Raises WrongState if the mode is not installed."""
    mode = find_mode(chapter.mode)
    if mode is None:
        raise WrongState(
            f'This chapter is played as "{chapter.mode}", a way to play that is not installed '
            "here. Nothing was changed; add it to MODES in the settings to go on."
        )
    return mode


def has_stage(name: str, stage: Stage) -> bool:
    """Return whether the mode has the stage. A mode that is not installed has no stage."""
    mode = find_mode(name)
    return mode is not None and stage in mode.stages


def check_stage(chapter: Session, stage: Stage) -> None:
    """Raise WrongState if the chapter's mode does not have this stage."""
    mode = mode_of(chapter)
    if stage not in mode.stages:
        raise WrongState(
            f'A chapter that is played as "{mode.title}" has no {stage}. Nothing was changed.'
        )


def begin_chapter(title: str = "", *, mode: str = DEFAULT_MODE) -> Session:
    """Create a chapter of this mode. Raises InvalidInput if the mode is not installed."""
    declared = find_mode(mode)
    if declared is None:
        known = ", ".join(one.name for one in all_modes())
        raise InvalidInput(
            f"{mode[:40]!r} is no way to play that is installed here; there is {known}. "
            "Nothing was made."
        )
    chapter = create_chapter(title, mode=mode, is_in_play=Stage.LOCK not in declared.stages)
    follow_setup(chapter, declared)
    return chapter


def follow_setup(chapter: Session, mode: Mode) -> None:
    """Store the cast that the mode's setup describes, so that pages show this cast before the lock
    too. The chapter's row has to be locked, unless it is new."""
    if mode.setup.cast_of is None:
        return
    first, *people = mode.setup.cast_of(chapter)
    # The lock refuses more people than a cast can have.
    replace_cast(chapter, first, people[:MAX_PEOPLE])


def who_answers(chapter: Session, actor: int | None) -> Writer:
    """Return the writer of the reply to a prompt to this member of the cast. Raises InvalidInput if
    nobody answers such a prompt."""
    return mode_of(chapter).play.answers(chapter, actor)


def outcome_of(attempt: Attempt, text: str) -> Sequence[NewEvent]:
    """Return the events that the mode makes of the text.

    Raises EmptyReply for an empty text if the mode has no `outcome` of its own, and InvalidInput
    for more events than an attempt may have, or for an event that cannot be stored, such as a
    thought without a thinker. Raises ValueError for a kind of event that the mode does not declare.
    """
    play = mode_of(attempt.session).play
    if play.outcome is reply and is_blank(text):
        raise EmptyReply("The model acted and said nothing. Nothing was lost; try again.")
    events = play.outcome(attempt, text)
    if len(events) > MAX_EVENTS_OF_AN_ATTEMPT:
        raise InvalidInput(
            f"The reply came to {len(events):,} events, and at most {MAX_EVENTS_OF_AN_ATTEMPT} can "
            "be stored. Its text is kept; have it written again."
        )
    _check_kinds("event", (one.kind for one in events), play.all_event_kinds)
    if any(one.kind == THOUGHT and one.speaker is None for one in events):
        raise InvalidInput(
            "The reply has a thought that nobody has, because no member of the cast acts in it. "
            "Its text is kept; have it written again."
        )
    for one in events:
        check_stored_size(one.shown or {}, most=PAYLOAD_CHAR_LIMIT, label="What the reply shows")
    return events


def check_changes(chapter: Session, changes: Sequence[NewChange]) -> Sequence[NewChange]:
    """Check the kinds of these changes, and return the changes. Raises ValueError if the chapter's
    mode does not declare one of the kinds."""
    declared = mode_of(chapter).world.all_change_kinds
    _check_kinds("change", (one.kind for one in changes), declared)
    return changes


def all_agents() -> tuple[Agent, ...]:
    """Return the agents of the engine and of every mode. The agents with numbers come first."""
    agents = chain(ENGINE_AGENTS, *(mode.agents for mode in all_modes()))
    return tuple(
        sorted(agents, key=lambda agent: math.inf if agent.agent_id is None else agent.agent_id)
    )


def agents_in(chapter: Session) -> list[Agent]:
    """Return the agents that may work for the chapter, each with the settings of the chapter. The
    agents of the engine come after the agents of the mode."""
    mode = find_mode(chapter.mode)
    own = mode.agents if mode else ()
    return [in_chapter(agent, chapter) for agent in (*own, *ENGINE_AGENTS)]


def find_agent(name: str, number: int | None = None) -> Agent | None:
    """Return the agent with this name, or None. `number` tells the characters apart, because they
    all have the same name."""
    named = [agent for agent in all_agents() if agent.name == name]
    numbered = (agent for agent in named if agent.agent_id == number)
    return next(numbered, named[0] if named else None)


def agent_of(attempt: Attempt) -> Agent:
    """Return the attempt's agent with the settings of its chapter. The output limit of a character
    depends on the length that the user has chosen for replies. Raises WrongState if the agent's
    mode is not installed."""
    agent = find_agent(attempt.agent, attempt.actor)
    if agent is None:
        raise WrongState(f'There is no agent "{attempt.agent}" here. Nothing was changed.')
    agent = in_chapter(agent, attempt.session)
    factor = _LENGTH_FACTORS.get(attempt.session.reply_length)
    return replace(agent, length_factor=factor) if factor and agent.is_character else agent


def layers_of(agent: Agent, chapter: Session) -> Sequence[LayerDeclaration]:
    """Return the agent's own layers, and the layers that the chapter's mode adds to this agent."""
    mode = find_mode(chapter.mode)
    return agent.layers if mode is None else mode.layers_of(agent)


def compose_for(agent: Agent, subject: Subject, tier: Tier) -> list[Layer]:
    """Compose the layers of the agent's request about this subject."""
    return compose(layers_of(agent, subject.chapter), subject, tier)


@lru_cache(maxsize=16)
def load_modes(apps: tuple[str, ...]) -> Mapping[str, Mode]:
    """Return the modes of these apps, by app, and declare their kinds to the engine."""
    modes: dict[str, Mode] = {app: import_module(f"{app}.mode").MODE for app in apps}
    for mode in modes.values():
        guard_elements(mode.elements)
        is_remembered = Stage.MEMORY in mode.stages
        declare_stretches(mode.name, mode.memory.stretches if is_remembered else None)
        for name, block_kind in mode.memory.block_kinds.items():
            declare_block_kind(name, block_kind)
        for name, job_kind in mode.play.job_kinds.items():
            declare_job_kind(name, job_kind)
    return modes


def _check_kinds(what: str, kinds: Iterable[str], declared: frozenset[str]) -> None:
    if unknown := set(kinds) - declared:
        raise ValueError(f"{len(unknown)} kinds of {what} are not the way to play's own.")
