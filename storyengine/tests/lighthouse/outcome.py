"""The outcome of an attempt. Each paragraph of the text is an event. A mark at the beginning of a
paragraph gives the event's kind, speaker or witnesses. Between them stand the strokes of the
bell."""

from collections.abc import Iterator, Sequence

from sessions.models import THOUGHT, Attempt, Event
from sessions.play.events import NewEvent
from sessions.play.played_world import text_and_changes
from storyengine.tests.lighthouse.state import RANG

SIGNAL = "lighthouse.signal"


def outcome(attempt: Attempt, text: str) -> Sequence[NewEvent]:
    return list(_events(attempt, text)) or [NewEvent("Nothing is said.", attempt.actor)]


def _events(attempt: Attempt, text: str) -> Iterator[NewEvent]:
    for piece in text_and_changes(attempt, text):
        if isinstance(piece, str):
            paragraphs = (one.strip() for one in piece.split("\n\n") if one.strip())
            yield from (_event(attempt.actor, one) for one in paragraphs)
        elif piece.kind == RANG:
            rang = f"The bell rings: {piece.payload['strokes']}."
            yield NewEvent(rang, role=Event.Role.SYSTEM)


def _event(speaker: int | None, paragraph: str) -> NewEvent:
    mark, _, rest = paragraph.partition(" ")
    if mark == "*thinks*":
        return NewEvent(rest, speaker, kind=THOUGHT)
    if mark == "*aside*":
        return NewEvent(rest, speaker, witnesses=[])
    if mark == "*signal*":
        return NewEvent(rest, speaker, kind=SIGNAL, shown={"flashes": len(rest)})
    if mark == "*sea*":
        return NewEvent(rest)
    if mark.startswith("*says:"):
        return NewEvent(rest, int(mark.removeprefix("*says:").removesuffix("*")))
    if mark == "*forged*":
        return NewEvent(rest, speaker, kind="lighthouse.undeclared")
    return NewEvent(paragraph, speaker)
