"""What a turn of an exploration leaves: the narrator's paragraphs, and short lines for what changed
in the world."""

from collections.abc import Iterable, Iterator, Sequence

from agents.modes import world_of
from agents.providers.exceptions import EmptyReply
from explorer.tools import meeting
from sessions.events import NewEvent
from sessions.models import Attempt, Change, Event
from sessions.world import NewChange
from world.changes import MET, MOVED, TIME
from world.names import is_named_in
from world.state import World

WENT, PASSED, MET_SOMEBODY = (f"explorer.{name}" for name in ("went", "passed", "met"))
EVENT_KINDS = frozenset({WENT, PASSED, MET_SOMEBODY})
# The cause of a change that the program makes itself.
NAMED = "named"


def concludes(attempt: Attempt, text: str) -> list[NewChange]:
    """Return the meetings with hidden people at the player's place whom the text names although no
    tool discovered them."""
    world: World = world_of(attempt)
    return [
        NewChange(change.kind, change.payload, cause=NAMED)
        for one in world.hidden()
        if any(is_named_in(text, name) for name in (one.name, *one.aliases))
        for change in meeting(world, one.name)
    ]


def outcome(attempt: Attempt, text: str) -> Sequence[NewEvent]:
    """Return the lines of what the attempt's run changed, and the text. Raises EmptyReply without
    text."""
    if not text.strip():
        raise EmptyReply("The narrator acted and told nothing. Nothing was lost; try again.")
    changes = attempt.changes.filter(run_id=attempt.run_id).order_by("position")
    return [*_lines(attempt, changes), NewEvent(text.strip())]


def _lines(attempt: Attempt, changes: Iterable[Change]) -> Iterator[NewEvent]:
    player = attempt.session.character(1).name
    for change in changes:
        payload = change.payload
        if change.kind == MOVED and change.cause == "moveToLocation":
            others = [name for name in payload["who"] if name != player]
            together = f" with {' and '.join(others)}" if others else ""
            yield _line(WENT, f"You go to {payload['to']}{together}.", payload["narrative_time"])
        elif change.kind == TIME and change.cause == "advanceTime":
            yield _line(PASSED, "Time passes.", payload["narrative_time"])
        elif change.kind == MET:
            yield _line(MET_SOMEBODY, f"You meet {payload['name']}.")


def _line(kind: str, text: str, time: str = "") -> NewEvent:
    told = f"{text} {time[:1].upper()}{time[1:]}.".replace("..", ".") if time else text
    return NewEvent(told, kind=kind, role=Event.Role.SYSTEM)
