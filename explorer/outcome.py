"""Makes the events of a turn of an exploration: the narrator's paragraphs, and short lines for the
changes of the world."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from agents.llm.providers.failures.call_errors import EmptyReply
from agents.modes.fields import setup_at
from explorer.output_rules import OutputRule, apply_rules
from explorer.played_world import WORLD
from explorer.setup import Exploration
from explorer.state import WENT, in_short
from explorer.tools import meeting, room_in_cast
from sessions.language.mentions import is_named_in
from sessions.language.text import is_blank
from sessions.models import Attempt, Change, Event
from sessions.play.events import ORIGINAL, NewEvent
from sessions.play.played_world import NewChange, text_and_changes
from world.changes import MET, MOVED, PLACE, SIMULATED, TIME
from world.state import World

WENT_ALONE, PASSED, MET_SOMEBODY, SKIPPED = (
    f"explorer.{name}" for name in ("went_alone", "passed", "met", "skipped")
)
EVENT_KINDS = frozenset({WENT, WENT_ALONE, PASSED, MET_SOMEBODY, SKIPPED})
# At most this many characters are kept of the narrator's first description of a new place.
MOST_OF_A_SIGHT = 400
# The cause of a change that the program makes itself.
NAMED = "named"


def concludes(attempt: Attempt, text: str) -> list[NewChange]:
    """Return the changes that the text makes by itself, after the output rules were applied: the
    first description of a new place, and the meetings with hidden people whom the text names
    although no tool discovered them."""
    world = WORLD.of(attempt)
    return [*_first_sights(attempt, world, text), *_meetings(attempt, world, text)]


def _first_sights(attempt: Attempt, world: World, text: str) -> Iterator[NewChange]:
    """Yield a description of each place that the player has entered in this run and that had none:
    the first paragraph that was told after the arrival."""
    rules = _rules_of(attempt)
    pieces = text_and_changes(attempt, text)
    for at, arrival in enumerate(pieces):
        if isinstance(arrival, str) or arrival.kind != MOVED:
            continue
        place = world.find_place(arrival.payload["to"])
        is_unknown = place is not None and not place.description
        if place is None or not is_unknown or arrival.cause != "moveToLocation":
            continue
        told = next((one for one in pieces[at + 1 :] if isinstance(one, str)), "")
        paragraph = _come_out(rules, told).strip().split("\n\n")[0]
        if sight := in_short(paragraph, MOST_OF_A_SIGHT):
            payload = {"name": place.name, "description": sight}
            yield NewChange(PLACE, payload, cause=NAMED, after_chars=len(text))


def _meetings(attempt: Attempt, world: World, text: str) -> list[NewChange]:
    if not (hidden := world.hidden()):
        return []
    told = "\n\n".join(one.text for one in _passages(attempt, text))
    names = {one.name: (one.name, *one.aliases) for one in world.people.values()}
    named = [one.name for one in hidden if _is_named(told, one.name, names)]
    room = room_in_cast(attempt) if named else 0
    return [
        NewChange(change.kind, change.payload, cause=NAMED, after_chars=len(text))
        for at, name in enumerate(named)
        for change in meeting(world, name, joins=at < room)
    ]


def _is_named(told: str, person: str, names: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the text names this person. `names` has the names of each person."""
    others = [name for other, of_other in names.items() if other != person for name in of_other]
    return any(is_named_in(told, name, others) for name in names[person])


def outcome(attempt: Attempt, text: str) -> Sequence[NewEvent]:
    """Return the passages of the text, after the chapter's output rules were applied, and between
    them a line for each change that a step made. Raises EmptyReply if there is no text."""
    if is_blank(text):
        raise EmptyReply("The narrator acted and told nothing. Nothing was lost; try again.")
    return list(_events(attempt, text))


def _events(attempt: Attempt, text: str) -> Iterator[NewEvent]:
    player = attempt.session.character(1).name
    rules = _rules_of(attempt)
    for piece in text_and_changes(attempt, text):
        if isinstance(piece, str):
            yield _passage(rules, piece)
        elif told := told_change(piece, player):
            yield told


def _passages(attempt: Attempt, text: str) -> list[NewEvent]:
    rules = _rules_of(attempt)
    pieces = text_and_changes(attempt, text)
    return [_passage(rules, piece) for piece in pieces if isinstance(piece, str)]


def _rules_of(attempt: Attempt) -> tuple[OutputRule, ...]:
    """Return the output rules as they were when the reply began."""
    setup = setup_at(attempt)
    assert isinstance(setup, Exploration)
    return tuple(setup.output_rules)


def _passage(rules: tuple[OutputRule, ...], written: str) -> NewEvent:
    """Return the event of a passage. It keeps the model's words if the rules changed them."""
    told = _come_out(rules, written)
    return NewEvent(told, shown=None if told == written else {ORIGINAL: written})


# The result is cached, because a commit needs it twice: for the people whom the text names, and for
# the events.
@lru_cache(maxsize=32)
def _come_out(rules: tuple[OutputRule, ...], written: str) -> str:
    return apply_rules(rules, written)


def told_change(change: Change, player: str) -> NewEvent | None:
    """Return the line that tells the change, or None if the change is not told."""
    payload = change.payload
    if change.kind == MOVED and change.cause == "moveToLocation":
        others = [name for name in payload["who"] if name != player]
        together = f" with {' and '.join(others)}" if others else ""
        return _line(WENT, f"You go to {payload['to']}{together}.", payload["narrative_time"])
    if change.kind == MOVED and change.cause == "personGoes":
        who = " and ".join(payload["who"])
        verb = "comes" if payload.get("comes") else "goes"
        return _line(WENT_ALONE, f"{who} {verb} to {payload['to']}.")
    if change.kind == TIME and change.cause == "advanceTime":
        return _line(PASSED, "Time passes.", payload["narrative_time"])
    if change.kind == SIMULATED and change.payload.get("skipped"):
        places = " and ".join(payload["skipped"])
        return _line(SKIPPED, f"What happened at {places} meanwhile could not be worked out.")
    if change.kind == MET:
        return _line(MET_SOMEBODY, f"You meet {payload['name']}.")
    return None


def _line(kind: str, text: str, time: str = "") -> NewEvent:
    told = f"{text} {time[:1].upper()}{time[1:]}.".replace("..", ".") if time else text
    return NewEvent(told, kind=kind, role=Event.Role.SYSTEM)
