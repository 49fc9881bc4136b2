"""Defines the declaration of a mode, and finds the modes that are installed.

`settings.MODES` lists apps. Each of these apps has a module `mode`, whose `MODE` is the
declaration. All other code reaches a mode through agents.modes.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from django.conf import settings
from django.utils.module_loading import module_has_submodule
from pydantic import BaseModel

from agents.models import Job
from agents.prompting.declarations import ENGINE_AGENTS, Agent
from agents.prompting.escaping import guard_elements
from agents.prompting.layers import Layer, Piece, Tier
from agents.prompting.memory_additions import MemoryAddition
from agents.prompting.own_settings import in_chapter
from agents.prompting.sandwich import LayerDeclaration, Subject, compose
from agents.prompting.tools import ToolArguments
from agents.providers.exceptions import EmptyReply
from agents.running.job_kinds import JobKind, declare_job_kind
from memory.block_kinds import ENGINE_BLOCK_KINDS, BlockKind, declare_block_kind
from memory.stretches import StretchRule, declare_stretches
from sessions import chance
from sessions.attempts import Writer
from sessions.cast import CastText
from sessions.chapters import create_chapter
from sessions.committing import find_turn
from sessions.events import NewEvent, reply
from sessions.exceptions import InvalidInput, WrongState
from sessions.limits import MAX_EVENTS_OF_AN_ATTEMPT, PAYLOAD_CHAR_LIMIT
from sessions.models import DEFAULT_MODE, PERSON, SAID, THOUGHT, Attempt, Change, Session
from sessions.payloads import check_stored_size
from sessions.reply_lengths import ReplyLength
from sessions.world import NewChange, changes_that_count, fold_world

# The numbers by which the limit on a character's text is multiplied.
_LENGTH_FACTORS: Mapping[str, float] = {ReplyLength.SHORT: 0.6, ReplyLength.LONG: 2.0}


class Stage(StrEnum):
    """A stage of a chapter. If a mode has no stage LOCK, its new chapters are in play at once."""

    SET_UP = "set up"
    LOCK = "lock"
    PLAY = "play"
    MEMORY = "memory"
    NARRATION = "narration"


@dataclass(frozen=True)
class AddedLayer:
    """A layer that a mode adds to an agent of the engine or of another mode.

    `before` names a layer of this agent. The added layer is placed in front of the named layer.
    """

    agent: str
    before: str
    layer: LayerDeclaration


@dataclass(frozen=True)
class Act:
    """An action by which the user changes the world without a model.

    `run` is called with the arguments, as an instance of the class `arguments`, and with the
    present world. It raises InvalidInput if the world does not allow the act.
    """

    name: str
    sentence: str
    arguments: type[ToolArguments]
    run: Callable[[Any, Any], Sequence[NewChange]]


@dataclass(frozen=True)
class HandedOn:
    """What a mode hands on to the next chapter, beside memory.

    `setup` are the fields that the mode adds to the next chapter's Tab 1, or None to copy those of
    the chapter before. `world` is a JSON object from which the next chapter's world can begin (see
    `handed_on_of` in agents.mode_fields).
    """

    setup: dict[str, Any] | None = None
    world: Mapping[str, Any] = field(default_factory=dict)


def _copies_setup(before: Session, chapter: Session) -> HandedOn:
    return HandedOn()


def _adds_nothing(*_about: object) -> None:
    return None


@dataclass(frozen=True)
class Mode:
    """The declaration of a mode.

    A page offers the mode by `title` and `sentence`. `answers` returns who answers a prompt, which
    is addressed to a member of the cast or to nobody. It raises InvalidInput if nobody answers such
    a prompt. `own_pieces` returns, by the names of their layers, the pieces that belong only to the
    request of one attempt. `cues` returns the texts at which a small model is stopped, because
    after such a text it would write the words of somebody else.

    `readable` returns all data that the tools of the attempt's agent may know. It is called again
    for each step, where the ORM may be used. `outcome` returns the events of a text, at least one.
    """

    name: str
    title: str
    sentence: str
    agents: tuple[Agent, ...]
    answers: Callable[[Session, int | None], Writer]
    own_pieces: Callable[[Attempt], Mapping[str, Sequence[Piece]]]
    cues: Callable[[Attempt], list[str]] = lambda attempt: []
    readable: Callable[[Attempt], Mapping[str, Any]] = lambda attempt: {}
    outcome: Callable[[Attempt, str], Sequence[NewEvent]] = reply
    acts: tuple[Act, ...] = ()
    stages: frozenset[Stage] = frozenset(Stage)
    added_layers: tuple[AddedLayer, ...] = ()
    # The names of the elements in the mode's requests. They are escaped in texts of people and
    # models, which must not imitate them.
    elements: frozenset[str] = frozenset()
    change_kinds: frozenset[str] = frozenset()
    event_kinds: frozenset[str] = frozenset()
    block_kinds: Mapping[str, BlockKind] = field(default_factory=dict)
    job_kinds: Mapping[str, JobKind] = field(default_factory=dict)
    stretches: StretchRule = field(default_factory=StretchRule)
    # The keys that the mode adds to what agent 8 is asked for, and the change that they bring.
    memory_addition: MemoryAddition | None = None
    # The model of the fields that the mode adds to Tab 1. Each field has a default.
    setup: type[BaseModel] | None = None
    # The names of those fields of `setup` that can also be changed in play. A change counts from
    # the next attempt. `open_cells` is the name of a template with their cells, for Tab 2, and
    # `open_title` is what the page calls them.
    open_fields: frozenset[str] = frozenset()
    open_cells: str = ""
    open_title: str = ""
    # Called when some of these fields are saved, with all fields as JSON before and now. It may
    # change the present ones, for example where one field names another.
    tidies_setup: Callable[[dict[str, Any], dict[str, Any]], None] | None = None
    # The model of the fields that a prompt may have besides its words; see `given_of` in
    # agents.mode_fields.
    given: type[ToolArguments] | None = None
    # The names of two templates: one for the mode's cells on Tab 1, and one for the mode's panel on
    # Tab 2, which shows the world and the acts.
    cells: str = ""
    panel: str = ""
    # The name of a template with other ways to begin such a chapter, for the page that offers the
    # mode.
    beginnings: str = ""
    # The name of a template with one of them, for a home page without stories.
    card: str = ""
    # The style sheet of `cells` and `panel`, as the tag `static` names it.
    style: str = ""
    # `initial_state` returns the world before the first turn, and `apply_change` the world after a
    # change. If one of them raises KeyError or ValueError while a file is imported, the file is
    # refused.
    initial_state: Callable[[Session], Any] = _adds_nothing
    apply_change: Callable[[Any, Any], Any] = lambda state, change: state
    # A function that returns what the next chapter gets from the chapter before. It is called with
    # both when the next chapter begins, and for its world again at its lock and whenever the user
    # brings it up to date. sessions.people finds the same people in the two.
    hands_on: Callable[[Session, Session], HandedOn] = _copies_setup
    # A function that returns who acts next without a prompt, or None to wait for the user. It is
    # called in the transaction that commits a turn, and again when the worker begins. There are at
    # most `most_turns_alone` turns without a prompt in a row.
    acts_next: Callable[[Session], Writer | None] = _adds_nothing
    most_turns_alone: int = 0
    # A function that may ask for late results and store blocks of the mode's own. The transaction
    # that commits or edits an attempt calls it. When a later prompt or a retry is stored, or the
    # chapter ends, the function is called again for the chosen attempt at the latest turn, because
    # a trial or an imported attempt may lack late results and blocks. An error of this later call
    # is only logged. The function has to be idempotent. A call of `ask_for_result` is idempotent,
    # because a second request for the same result makes no second job.
    after_commit: Callable[[Attempt], None] = _adds_nothing

    # A function that returns who takes part, from the mode's own setup: the character of the first
    # slot and then people without a panel. It is called at the lock. In such a mode, the mode's
    # cells take the place of the engine's cells on Tab 1.
    cast_of: Callable[[Session], Sequence[CastText]] | None = None
    # A function that returns the lock, in the form in which agent 0 returns it, so that no model is
    # called. It raises InvalidInput if there is nothing to play.
    lock_of: Callable[[Session], dict[str, Any]] | None = None
    # Functions that return changes which the program makes: before the first step of a run, after
    # the late results that it takes, and when its text is complete.
    begins: Callable[[Attempt], Sequence[NewChange]] = lambda attempt: ()
    concludes: Callable[[Attempt, str], Sequence[NewChange]] = lambda attempt, text: ()

    @property
    def hands_on_own(self) -> bool:
        """Whether the mode declares a `hands_on` of its own."""
        return self.hands_on is not _copies_setup

    @property
    def follows_up(self) -> bool:
        """Whether the mode declares an `after_commit` of its own."""
        return self.after_commit is not _adds_nothing

    @property
    def kinds_of_results(self) -> frozenset[str]:
        """The kinds of job from which late results come."""
        of_memory = {Job.Kind.MEMORY_RESULT.value} if self.memory_addition else set()
        return frozenset(self.job_kinds) | of_memory

    @property
    def all_event_kinds(self) -> frozenset[str]:
        """The kinds of event of the mode and of the engine."""
        return self.event_kinds | {SAID, THOUGHT}

    @property
    def all_change_kinds(self) -> frozenset[str]:
        """The kinds of change of the mode and of the engine."""
        return self.change_kinds | {PERSON}

    @property
    def all_block_kinds(self) -> frozenset[str]:
        """The kinds of memory block of the mode and of the engine."""
        return ENGINE_BLOCK_KINDS | self.block_kinds.keys()


@dataclass(frozen=True)
class Fault:
    """A fault of a declaration. agents.mode_checks reports it whenever the program starts."""

    check_id: str
    message: str
    hint: str


@dataclass(frozen=True)
class Loaded:
    by_app: Mapping[str, Mode]
    faults: tuple[Fault, ...]

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(self.by_app.values())


def installed() -> Loaded:
    """Return the modes of the apps in `settings.MODES`, and the faults of their declarations."""
    return load_modes(tuple(settings.MODES))


def all_modes() -> tuple[Mode, ...]:
    return installed().modes


def modules_of_modes(name: str) -> dict[str, ModuleType]:
    """Return the modules with this name, such as `urls`, in the apps of the modes. The keys are the
    names of the modes."""
    return {
        mode.name: import_module(f"{app}.{name}")
        for app, mode in installed().by_app.items()
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
    return create_chapter(title, mode=mode, is_in_play=Stage.LOCK not in declared.stages)


def who_answers(chapter: Session, actor: int | None) -> Writer:
    """Return who writes the reply to a prompt to this member of the cast. Raises InvalidInput if
    nobody answers such a prompt."""
    return mode_of(chapter).answers(chapter, actor)


def world_now(chapter: Session) -> Any:
    """Return the world after the changes of all chosen attempts and of all acts."""
    return _fold(chapter, changes_that_count(chapter))


def world_after(chapter: Session, number: int) -> Any:
    """Return the world after this turn, with the acts that followed it. Raises UnknownTurn."""
    find_turn(chapter, number)
    return _fold(chapter, changes_that_count(chapter, before=number + 1))


def world_of(attempt: Attempt) -> Any:
    """Return the world before the attempt's turn, with the changes of the attempt's own run."""
    return _fold(attempt.session, changes_that_count(attempt.session, attempt=attempt))


def chance_of(attempt: Attempt, name: str) -> random.Random:
    """Return a generator of random numbers. The numbers depend on the chapter's seed, the number of
    the attempt's turn, and the name."""
    chapter = attempt.session
    number = attempt.turn.number if attempt.turn else chapter.prompt_index + 1
    return chance.chance(chapter, number, name)


def outcome_of(attempt: Attempt, text: str) -> Sequence[NewEvent]:
    """Return the events that the mode makes of the text.

    Raises EmptyReply for an empty text if the mode has no `outcome` of its own, and InvalidInput
    for more events than an attempt may have, or for an event that cannot be stored, such as a
    thought without a thinker. Raises ValueError for a kind of event that the mode does not declare.
    """
    mode = mode_of(attempt.session)
    if mode.outcome is reply and not text.strip():
        raise EmptyReply("The model acted and said nothing. Nothing was lost; try again.")
    events = mode.outcome(attempt, text)
    if len(events) > MAX_EVENTS_OF_AN_ATTEMPT:
        raise InvalidInput(
            f"The reply came to {len(events):,} events, and at most {MAX_EVENTS_OF_AN_ATTEMPT} can "
            "be stored. Its text is kept; have it written again."
        )
    _check_kinds("event", (one.kind for one in events), mode.all_event_kinds)
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
    declared = mode_of(chapter).all_change_kinds
    _check_kinds("change", (one.kind for one in changes), declared)
    return changes


def all_agents() -> tuple[Agent, ...]:
    """Return the agents of the engine and of every mode. The agents with numbers come first."""
    return agents_of(tuple(settings.MODES))


def agents_in(chapter: Session) -> list[Agent]:
    """Return the agents that may work for the chapter, each with what the chapter has set for it.
    Those of the engine come after those of the mode."""
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
    """Return the attempt's agent with what its chapter has set for it. A character has the limit of
    the length that the user has chosen for replies. Raises WrongState if the agent's mode is not
    installed."""
    agent = find_agent(attempt.agent, attempt.actor)
    if agent is None:
        raise WrongState(f'There is no agent "{attempt.agent}" here. Nothing was changed.')
    agent = in_chapter(agent, attempt.session)
    factor = _LENGTH_FACTORS.get(attempt.session.reply_length)
    return replace(agent, length_factor=factor) if factor and agent.is_character else agent


def layers_of(agent: Agent, chapter: Session) -> Sequence[LayerDeclaration]:
    """Return the agent's own layers, and the layers that the chapter's mode adds to this agent."""
    mode = find_mode(chapter.mode)
    added = [one for one in mode.added_layers if one.agent == agent.name] if mode else []
    if not added:
        return agent.layers
    layers: list[LayerDeclaration] = []
    for layer in agent.layers:
        first = layer.name not in {one.name for one in layers}
        layers += [one.layer for one in added if first and one.before == layer.name]
        layers.append(layer)
    return layers


def compose_for(agent: Agent, subject: Subject, tier: Tier) -> list[Layer]:
    """Compose the layers of the agent's request about this subject."""
    return compose(layers_of(agent, subject.chapter), subject, tier)


@lru_cache(maxsize=16)
def load_modes(apps: tuple[str, ...]) -> Loaded:
    """Load the modes of these apps. An unusable mode is left out, and its fault is returned."""
    modes: dict[str, Mode] = {}
    faults: list[Fault] = []
    for app in apps:
        try:
            mode = import_module(f"{app}.mode").MODE
        except (ImportError, AttributeError) as error:
            faults.append(_no_mode(app, str(error)))
            continue
        if not isinstance(mode, Mode):
            faults.append(_no_mode(app, "its MODE is no Mode"))
        elif mode.name in {one.name for one in modes.values()}:
            faults.append(
                Fault(
                    "agents.E002",
                    f'Two ways to play are called "{mode.name}"; that of {app} is left out.',
                    "Rename one, or take it out of MODES.",
                )
            )
        else:
            modes[app] = mode
            guard_elements(mode.elements)
            is_remembered = Stage.MEMORY in mode.stages
            declare_stretches(mode.name, mode.stretches if is_remembered else None)
            for name, kind in mode.block_kinds.items():
                declare_block_kind(name, kind)
            faults += _declare_jobs(mode)
    return Loaded(modes, tuple(faults))


@lru_cache(maxsize=16)
def agents_of(apps: tuple[str, ...]) -> tuple[Agent, ...]:
    agents = [*ENGINE_AGENTS, *(agent for mode in load_modes(apps).modes for agent in mode.agents)]
    agents.sort(key=lambda agent: math.inf if agent.agent_id is None else agent.agent_id)
    return tuple(agents)


def _fold(chapter: Session, changes: Iterable[Change]) -> Any:
    mode = mode_of(chapter)
    return fold_world(mode.initial_state(chapter), changes, mode.apply_change)


def _check_kinds(what: str, kinds: Iterable[str], declared: frozenset[str]) -> None:
    if unknown := set(kinds) - declared:
        raise ValueError(f"{len(unknown)} kinds of {what} are not the way to play's own.")


def _no_mode(app: str, problem: str) -> Fault:
    return Fault(
        "agents.E001",
        f"MODES names {app}, which declares no way to play: {problem}.",
        f"Its module {app}.mode must have a MODE; see docs/architecture.md.",
    )


def _declare_jobs(mode: Mode) -> list[Fault]:
    return [
        Fault(
            "agents.E006",
            f'The kind of job "{name}" of {mode.name} is declared already.',
            f"Begin its name with the mode's: {mode.name}.{name}.",
        )
        for name, kind in mode.job_kinds.items()
        if not declare_job_kind(name, kind)
    ]
