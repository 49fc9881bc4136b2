"""The outcome of an attempt. Each paragraph of the text is an event. A mark at the beginning of a
paragraph gives the event's kind, speaker or witnesses."""

from collections.abc import Sequence

from sessions.events import NewEvent
from sessions.models import THOUGHT, Attempt

SIGNAL = "lighthouse.signal"


def outcome(attempt: Attempt, text: str) -> Sequence[NewEvent]:
    paragraphs = [one.strip() for one in text.split("\n\n") if one.strip()]
    return [_event(attempt.actor, one) for one in paragraphs or ["Nothing is said."]]


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
