"""Defines the rules that a mode declares for its world. They are typed for the mode's own state of
the world.

`Mode.world` forgets this type, because the engine takes the worlds of all modes alike. A mode reads
its own world with its own WorldRules, so that the type checker knows the state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agents.prompting.tools import ToolArguments
from sessions.models import PERSON, Attempt, Change, Session
from sessions.play.committing import find_turn
from sessions.play.played_world import NewChange, changes_that_count, fold_world

StateT = TypeVar("StateT")
ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


@dataclass(frozen=True)
class Act(Generic[StateT, ArgumentsT]):
    """An action of the user that changes the world without a model.

    `run` is called with the arguments and with the present world. It raises InvalidInput if the
    world does not allow the act.
    """

    name: str
    sentence: str
    arguments: type[ArgumentsT]
    run: Callable[[ArgumentsT, StateT], Sequence[NewChange]]


@dataclass(frozen=True)
class HandedOn:
    """The data that a mode hands on to the next chapter, beside memory.

    `setup` are the fields that the mode adds to the next chapter's Tab 1, or None to copy the
    fields of the chapter before. `world` is a JSON object. The next chapter's world can begin from
    it (`Tab1Inputs.handed_on`).
    """

    setup: dict[str, Any] | None = None
    world: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WorldRules(Generic[StateT]):
    """The rules for the world of a chapter: how it begins, and how it changes.

    `initial_state` returns the world before the first turn, and `apply_change` the world after a
    change, without modifying the world that it is given. If one of them raises KeyError or
    ValueError while a file is imported, the file is refused.

    `hands_on` returns the data that the next chapter gets from the world at the end of the chapter
    before. It is called with this world and with both chapters when the next chapter begins. It is
    called again for the world alone, at the lock of the next chapter and whenever the user brings
    the chapter up to date. sessions.chapter.people finds the same people in the two.
    """

    initial_state: Callable[[Session], StateT]
    apply_change: Callable[[StateT, Change], StateT]
    change_kinds: frozenset[str] = frozenset()
    acts: tuple[Act[StateT, Any], ...] = ()
    hands_on: Callable[[StateT, Session, Session], HandedOn] | None = None

    @property
    def all_change_kinds(self) -> frozenset[str]:
        """The kinds of change of the mode and of the engine."""
        return self.change_kinds | {PERSON}

    def now(self, chapter: Session) -> StateT:
        """Return the world after the changes of all chosen attempts and of all acts."""
        return self._fold(chapter, changes_that_count(chapter))

    def after_turn(self, chapter: Session, number: int) -> StateT:
        """Return the world after this turn, with the acts that followed it. 0 means the world at
        the beginning of the chapter. Raises UnknownTurn."""
        if number:
            find_turn(chapter, number)
        return self._fold(chapter, changes_that_count(chapter, before=number + 1))

    def of(self, attempt: Attempt) -> StateT:
        """Return the world before the attempt's turn, with the changes of the attempt's own run."""
        return self._fold(attempt.session, changes_that_count(attempt.session, attempt=attempt))

    def with_changes(self, world: StateT, changes: Iterable[NewChange]) -> StateT:
        """Return the world after changes that are not stored."""
        rows = (Change(kind=one.kind, payload=one.payload) for one in changes)
        return fold_world(world, rows, self.apply_change)

    def _fold(self, chapter: Session, changes: Iterable[Change]) -> StateT:
        return fold_world(self.initial_state(chapter), changes, self.apply_change)


# The rules of a mode without a world.
NO_WORLD: WorldRules[None] = WorldRules(lambda chapter: None, lambda world, change: world)
