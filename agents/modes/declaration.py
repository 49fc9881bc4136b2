"""Defines what a mode declares: its stages, agents, layers, kinds and functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from agents.models import Job
from agents.prompting.agent import Agent
from agents.prompting.layers import Piece
from agents.prompting.memory_additions import MemoryAddition
from agents.prompting.sandwich import LayerDeclaration
from agents.prompting.tools import ToolArguments
from agents.running.job_kinds import JobKind
from memory.blocks.stretches import StretchRule
from memory.telling.block_kinds import ENGINE_BLOCK_KINDS, BlockKind
from sessions.chapter.cast import CastText
from sessions.models import PERSON, SAID, THOUGHT, Attempt, Session
from sessions.play.attempts import Writer
from sessions.play.events import NewEvent, reply
from sessions.play.played_world import NewChange


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

    `before` names a layer of this agent. The added layer is placed in front of the named layer, or
    takes its place if it has the same name.
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
    `handed_on_of` in agents.modes.fields).
    """

    setup: dict[str, Any] | None = None
    world: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Beginning:
    """What Tab 2 shows at the beginning of play: the premise above the story, and what the user
    could do first as buttons below."""

    premise: str
    deeds: Sequence[str] = ()


@dataclass(frozen=True)
class Finished:
    """A finished beginning of a mode, which a client of the API can begin by its name. `people` are
    the names of those who are in it, with what others see of them. `begin` makes a chapter in play,
    and `open` one whose Tab 1 can be changed; both take the title, or "" for its own."""

    name: str
    title: str
    premise: str
    people: Sequence[tuple[str, str, str]]
    prompt_count: int
    next_words: str
    begin: Callable[[str], Session]
    open: Callable[[str], Session]


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
    # The names of those fields of `setup` that are stored with an attempt when its run begins,
    # because the end of its reply needs them as they were then; see `setup_at` in
    # agents.modes.fields.
    kept_fields: frozenset[str] = frozenset()
    # Called when some of these fields are saved, with all fields as JSON before and now. It may
    # change the present ones, for example where one field names another.
    tidies_setup: Callable[[dict[str, Any], dict[str, Any]], None] | None = None
    # The model of the fields that a prompt may have besides its words; see `given_of` in
    # agents.modes.fields.
    given: type[ToolArguments] | None = None
    # A function that raises InvalidInput if a prompt to this chapter cannot have these fields, for
    # example because the world has nothing that they name. It gets the fields as JSON.
    checks_given: Callable[[Session, Mapping[str, Any]], None] = _adds_nothing
    # The names of three templates: one for the mode's cells on Tab 1, one for the mode's panel on
    # Tab 2, which shows the world and the acts, and one for what stands below the latest turn.
    cells: str = ""
    panel: str = ""
    below_turn: str = ""
    # The name of a template with other ways to begin such a chapter, for the page that offers the
    # mode.
    beginnings: str = ""
    # A function that returns the finished beginnings which the API offers beside the starters.
    finished: Callable[[], Sequence[Finished]] = lambda: ()
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
    # brings it up to date. sessions.chapter.people finds the same people in the two.
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
    # slot and then people without a panel. It is called whenever the setup is saved, and at the
    # lock. In such a mode, the mode's cells take the place of the engine's cells on Tab 1.
    cast_of: Callable[[Session], Sequence[CastText]] | None = None
    # A function that returns the title that the setup gives to a chapter which nobody has named
    # otherwise, or "".
    title_in: Callable[[Any], str] = lambda setup: ""
    # What a request of the mode has, as the end of a sentence, for the pages that say what is sent.
    sends: str = ""
    # A function that begins a chapter from a file of the mode's own, or returns None if the content
    # is no such file. It raises InvalidInput for one that does not fit. `own_file` is what the home
    # page calls such a file.
    begins_from: Callable[[bytes], Session | None] = _adds_nothing
    own_file: str = ""
    # A function that returns the lock, in the form in which agent 0 returns it, so that no model is
    # called. It raises InvalidInput if there is nothing to play.
    lock_of: Callable[[Session], dict[str, Any]] | None = None
    # A function that returns the text with which play opens after such a lock, or "". It is stored
    # as the first turn, without words of the user. `beginning_of` returns what the page shows as
    # long as nothing else was played, or None.
    opening_of: Callable[[Session], str] = lambda chapter: ""
    beginning_of: Callable[[Session], Beginning | None] = _adds_nothing
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
