"""The moves of a chapter between its states.

A move is one UPDATE whose WHERE names the states where the move may start. The number of changed
rows says whether the chapter was moved. Row locks are not used, because SQLite has none.
"""

from typing import Any

from django.db.models import QuerySet

from sessions.exceptions import WrongState
from sessions.models import Session, State

TRANSITIONS: dict[State, frozenset[State]] = {
    # The chapter is invisible until its last row is stored; see sessions.chapter.storing_imports.
    State.IMPORTING: frozenset({State.DRAFT_TAB1, State.ACTIVE, State.ENDED}),
    State.DRAFT_TAB1: frozenset({State.LOCKING, State.RESETTING}),
    # The chapter returns to DRAFT_TAB1 when agent 0 fails, so that Tab 1 can be edited again.
    State.LOCKING: frozenset({State.ACTIVE, State.DRAFT_TAB1, State.RESETTING}),
    State.ACTIVE: frozenset({State.SUMMARIZING, State.ENDED, State.RESETTING}),
    State.SUMMARIZING: frozenset({State.ACTIVE, State.ENDED, State.RESETTING}),
    # The chapter returns to ACTIVE when the GM reopens it.
    State.ENDED: frozenset({State.NARRATING, State.ACTIVE, State.RESETTING}),
    State.NARRATING: frozenset({State.ENDED, State.RESETTING}),
    # The specification lets DRAFT_TAB1 follow RESETTING. In this program no state follows, because
    # a reset deletes the chapter and makes a new one with a new id.
    State.RESETTING: frozenset(),
}


def sources_of(target: State) -> list[State]:
    return [source for source, targets in TRANSITIONS.items() if target in targets]


def try_move(chapter: QuerySet[Session], target: State, **changes: Any) -> bool:
    """Move the chapter to the target state if its present state allows the move. Return whether it
    was moved.

    `chapter` is a queryset with this chapter alone.
    """
    return bool(chapter.filter(state__in=sources_of(target)).update(state=target, **changes))


def move(chapter: QuerySet[Session], target: State, *, refusal: str, **changes: Any) -> None:
    """Move the chapter as `try_move` does. Raise WrongState with the message `refusal` if the
    chapter's state does not allow the move."""
    if not try_move(chapter, target, **changes):
        raise WrongState(refusal)
