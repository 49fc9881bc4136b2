"""The events of a reply that is edited by hand."""

from sessions.exceptions import WrongState
from sessions.models import THOUGHT, Attempt, Event
from sessions.play.events import ORIGINAL, NewEvent

# The text between two paragraphs, and between two events of the same reply.
_BETWEEN = "\n\n"


def reply_events(attempt: Attempt) -> list[Event]:
    """Return the events that are the reply: the last event of the attempt that is neither a thought
    nor the user's words, and before it all events of the same kind by the same speaker. A
    narrator's reply has several events if lines about the world stand between its parts.

    Raises WrongState if the attempt has no such event.
    """
    said = attempt.events.filter(role=Event.Role.AGENT).exclude(kind=THOUGHT)
    events = list(said.order_by("position"))
    if not events:
        raise WrongState("Nothing was said here, so there is no reply. Nothing was changed.")
    last = events[-1]
    return [one for one in events if one == last or _is_said_alike(one, last)]


def whole_reply(attempt: Attempt) -> str:
    """Return the text of the whole reply. Raises WrongState if there is none."""
    return _BETWEEN.join(one.text for one in reply_events(attempt))


def events_with_text(source: Attempt, text: str) -> list[NewEvent]:
    """Return copies of the events of `source`, with `text` as the text of the whole reply. The
    user's words are left out.

    An event that stands between two events of the reply still stands after the same number of
    paragraphs.
    """
    said = reply_events(source)
    paragraphs = _paragraphs(text)
    events: list[NewEvent] = []
    told = before = 0
    for one in source.events.exclude(role=Event.Role.USER).order_by("position"):
        if one not in said:
            events.append(_copy(one, one.text))
            continue
        before += len(_paragraphs(one.text))
        until = len(paragraphs) if one == said[-1] else before
        if part := paragraphs[told:until]:
            events.append(_copy(one, _BETWEEN.join(part)))
        told = max(told, until)
    return events


def _is_said_alike(one: Event, last: Event) -> bool:
    is_alike = (one.agent_slot, one.kind) == (last.agent_slot, last.kind)
    return is_alike and one.witnesses == last.witnesses


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of the text. No paragraph is blank, unless the text is blank. Joined,
    the paragraphs are the text."""
    found: list[list[str]] = []
    is_last_blank = False
    for part in text.split(_BETWEEN):
        is_blank = not part.strip()
        if found and (is_blank or is_last_blank):
            found[-1].append(part)
            is_last_blank = is_last_blank and is_blank
        else:
            found.append([part])
            is_last_blank = is_blank
    return [_BETWEEN.join(parts) for parts in found]


def _copy(one: Event, text: str) -> NewEvent:
    """Return a copy with this text. A text that was written by hand has no original."""
    shown = one.shown
    if shown and text != one.text:
        shown = {key: value for key, value in shown.items() if key != ORIGINAL} or None
    return NewEvent(text, one.agent_slot, one.kind, shown, one.witnesses, one.role)
