"""Defines the declaration of a mode: its agents, and its parts. A mode names only the parts that it
needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from agents.models import Job
from agents.modes.world_rules import NO_WORLD, WorldRules
from agents.prompting.agent import Agent
from agents.prompting.declarations import CONTEXT_SUMMARY, NARRATOR, WORLD_SUMMARY
from agents.prompting.layers import Piece
from agents.prompting.memory_additions import MemoryAddition
from agents.prompting.sandwich import LayerDeclaration
from agents.prompting.tools import ToolArguments
from agents.running.job_kinds import JobKind
from memory.blocks.stretches import StretchRule
from memory.telling.block_kinds import ENGINE_BLOCK_KINDS, BlockKind
from sessions.chapter.cast import TextsOfMember
from sessions.layer_words import announced
from sessions.models import SAID, THOUGHT, Attempt, Session
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
class Beginning:
    """The beginning of play on Tab 2: the premise above the story, and below it buttons for the
    user's possible first deeds."""

    premise: str
    deeds: Sequence[str] = ()


@dataclass(frozen=True)
class Finished:
    """A finished beginning of a mode, which a client of the API can begin by its name. `people` has
    the public texts of the people who are in it. `begin` makes a chapter in play, and `open` makes
    a chapter whose Tab 1 can be changed. Both take the title, or "" for the title of the
    beginning."""

    name: str
    title: str
    premise: str
    people: Sequence[TextsOfMember]
    prompt_count: int
    next_words: str
    begin: Callable[[str], Session]
    open: Callable[[str], Session]


@dataclass(frozen=True)
class OwnFile:
    """A kind of file of a mode's own. A chapter can begin from such a file.

    `title` is the name of such a file on the home page. `begin` returns the new chapter, or None if
    the content is no such file. It raises InvalidInput for a file that does not fit.
    """

    title: str
    begin: Callable[[bytes], Session | None]


@dataclass(frozen=True)
class Play:
    """The part of a mode that says what happens at a prompt, from the choice of the writer to the
    next turn.

    `answers` returns who answers a prompt. Its second argument is the member of the cast to whom
    the prompt is addressed, or None. It raises InvalidInput if nobody answers such a prompt.
    `own_pieces` returns, by the names of their layers, the pieces that belong only to the request
    of one attempt. `cues` returns texts. A small model is stopped when it writes one of them,
    because after it the model would write the words of somebody else.

    `readable` returns all data that the tools of the attempt's agent may read. It is called before
    the tool calls of each step, outside async code, so it may use the ORM. `outcome` returns the
    events of a text, at least one.
    """

    answers: Callable[[Session, int | None], Writer]
    own_pieces: Callable[[Attempt], Mapping[str, Sequence[Piece]]]
    cues: Callable[[Attempt], list[str]] = lambda attempt: []
    # The model of the fields that a prompt may have besides its words; see `given_of` in
    # agents.modes.fields.
    given: type[ToolArguments] | None = None
    # A function that raises InvalidInput if a prompt to this chapter cannot have these fields, for
    # example because the world has nothing that they name. It gets the fields as JSON.
    checks_given: Callable[[Session, Mapping[str, Any]], None] = lambda chapter, given: None
    readable: Callable[[Attempt], Mapping[str, Any]] = lambda attempt: {}
    # Functions that return changes which the program itself makes: `begins` before the first step
    # of a run, after the late results that the run takes, and `concludes` when the text is
    # complete.
    begins: Callable[[Attempt], Sequence[NewChange]] = lambda attempt: ()
    concludes: Callable[[Attempt, str], Sequence[NewChange]] = lambda attempt, text: ()
    outcome: Callable[[Attempt, str], Sequence[NewEvent]] = reply
    event_kinds: frozenset[str] = frozenset()
    # A function that may ask for late results and store blocks of the mode's own. The transaction
    # that commits or edits an attempt calls it. When a later prompt or a retry is stored, or the
    # chapter ends, the function is called again for the chosen attempt at the latest turn, because
    # a trial or an imported attempt may lack late results and blocks. An error of this later call
    # is only logged. The function has to be idempotent. A call of `ask_for_result` is idempotent,
    # because a second request for the same result makes no second job.
    after_commit: Callable[[Attempt], None] | None = None
    job_kinds: Mapping[str, JobKind] = field(default_factory=dict)
    # A function that returns who acts next without a prompt, or None to wait for the user. It is
    # called in the transaction that commits a turn, and again when the worker begins. There are at
    # most `most_turns_alone` turns without a prompt in a row.
    acts_next: Callable[[Session], Writer | None] = lambda chapter: None
    most_turns_alone: int = 0

    @property
    def all_event_kinds(self) -> frozenset[str]:
        """The kinds of event of the mode and of the engine."""
        return self.event_kinds | {SAID, THOUGHT}


@dataclass(frozen=True)
class Memory:
    """The part of a mode about memory: the kinds of block and the keys that the mode adds, and the
    rule by which stretches end."""

    block_kinds: Mapping[str, BlockKind] = field(default_factory=dict)
    stretches: StretchRule = field(default_factory=StretchRule)
    # The additional keys that the mode asks agent 8 for, and the change that they bring.
    addition: MemoryAddition | None = None

    @property
    def all_block_kinds(self) -> frozenset[str]:
        """The kinds of memory block of the mode and of the engine."""
        return ENGINE_BLOCK_KINDS | self.block_kinds.keys()


@dataclass(frozen=True)
class Setup:
    """The part of a mode about Tab 1: the fields for setting up a chapter, and how play begins with
    them."""

    # The model of the fields that the mode adds to Tab 1. Each field has a default.
    fields: type[BaseModel] | None = None
    # The names of the fields that can also be changed in play. A change counts from the next
    # attempt.
    open_fields: frozenset[str] = frozenset()
    # The names of the fields that are stored with an attempt when its run begins, because the end
    # of its reply needs their values at that time; see `setup_at` in agents.modes.fields.
    kept_fields: frozenset[str] = frozenset()
    # Called when some of the fields are saved, with all fields as JSON before and now. It may
    # change the present fields, for example where one field names another.
    tidies: Callable[[dict[str, Any], dict[str, Any]], None] = lambda before, now: None
    # A function that returns the title that the fields give to a chapter without a title of its
    # own, or "".
    title_in: Callable[[Any], str] = lambda fields: ""
    # A function that returns the cast, from the mode's own fields: the character of the first slot
    # and then people without a panel. It is called whenever the fields are saved, and at the lock.
    # In such a mode, the mode's cells take the place of the engine's cells on Tab 1.
    cast_of: Callable[[Session], Sequence[TextsOfMember]] | None = None
    # A function that returns the lock in the same form as agent 0, so that no model is called. It
    # raises InvalidInput if there is nothing to play.
    lock_of: Callable[[Session], dict[str, Any]] | None = None
    # A function that returns the opening text of play after such a lock, or "". It is stored as the
    # first turn, without words of the user.
    opening_of: Callable[[Session], str] = lambda chapter: ""
    file: OwnFile | None = None
    # A function that returns the finished beginnings which the API offers beside the starters.
    finished: Callable[[], Sequence[Finished]] = lambda: ()


@dataclass(frozen=True)
class Pages:
    """The part of a mode about pages: the names of its templates, and its words on pages."""

    # The mode's cells on Tab 1.
    cells: str = ""
    # The cells of `Setup.open_fields` on Tab 2, and their title on the page.
    open_cells: str = ""
    open_title: str = ""
    # The mode's panel on Tab 2, which shows the world and the acts.
    panel: str = ""
    # The part below the latest turn on Tab 2.
    below_turn: str = ""
    # Other ways to begin such a chapter, on the page that offers the mode.
    beginnings: str = ""
    # A card with one of these ways, on a home page without stories.
    card: str = ""
    # The style sheet of these templates, as the tag `static` names it.
    style: str = ""
    # A function that returns the `Beginning` that Tab 2 shows as long as nothing but the opening
    # was played, or None.
    beginning_of: Callable[[Session], Beginning | None] = lambda chapter: None


@dataclass(frozen=True)
class Mode:
    """The declaration of a mode. A page offers the mode by `title` and `sentence`."""

    name: str
    title: str
    sentence: str
    agents: tuple[Agent, ...]
    play: Play
    stages: frozenset[Stage] = frozenset(Stage)
    added_layers: tuple[AddedLayer, ...] = ()
    # The names of the elements in the mode's requests. They are escaped in texts of people and
    # models, which must not imitate them.
    elements: frozenset[str] = frozenset()
    world: WorldRules[Any] = NO_WORLD
    memory: Memory = field(default_factory=Memory)
    setup: Setup = field(default_factory=Setup)
    pages: Pages = field(default_factory=Pages)

    def layers_of(self, agent: Agent) -> Sequence[LayerDeclaration]:
        """Return the agent's own layers, and the layers that this mode adds to the agent."""
        added = [one for one in self.added_layers if one.agent == agent.name]
        replaced = {one.layer.name for one in added if one.before == one.layer.name}
        layers: list[LayerDeclaration] = []
        for layer in agent.layers:
            first = layer.name not in {one.name for one in layers}
            layers += [one.layer for one in added if first and one.before == layer.name]
            if layer.name not in replaced:
                layers.append(layer)
        return layers

    @property
    def has_own_lock(self) -> bool:
        """Whether the program writes the lock, so that no model is asked for it."""
        return self.setup.lock_of is not None

    @property
    def sent(self) -> list[tuple[str, list[str]]]:
        """The occasions when a model is asked, in the words of pages. Each has the layers of its
        requests that may have texts of the user."""
        asked = {Stage.MEMORY: CONTEXT_SUMMARY, Stage.NARRATION: NARRATOR}
        first = () if self.has_own_lock or Stage.LOCK not in self.stages else (WORLD_SUMMARY,)
        others = (agent for stage, agent in asked.items() if stage in self.stages)
        sent: dict[str, dict[str, None]] = {}
        for agent in (*first, *self.agents, *others):
            told = sent.setdefault(agent.occasion, {})
            words = (announced(one.name) for one in self.layers_of(agent))
            told.update((one, None) for one in words if one)
        return [(occasion, list(told)) for occasion, told in sent.items()]

    @property
    def kinds_of_results(self) -> frozenset[str]:
        """The kinds of job that bring late results."""
        of_memory = {Job.Kind.MEMORY_RESULT.value} if self.memory.addition else set()
        return frozenset(self.play.job_kinds) | of_memory
