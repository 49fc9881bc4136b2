"""Removes the repetitions that a small model writes in one block of memory.

A small model fills every field of an entry, and often with the same words. For example, the state
before is the same as the state after, or the effect is the same as the event. Such an entry says
that something changed although nothing did.
"""

from typing import Any

from sessions.language.words import words_of

Payload = dict[str, Any]

# The fields whose text becomes empty if an earlier field of the entry has the same text. Fields
# with names are not in the list, because a person may rightly stand in two fields of an entry.
_ABOUT = frozenset(
    {"cause", "effect", "intent", "result", "notes", "evidence", "why_it_matters", "stakes"}
    | {"next_likely_trigger"}
)


def without_restatements(payload: Payload) -> Payload:
    """Return the block without repetitions.

    A change of state is left out if the value is the same as before. In any other entry, a text
    that repeats an earlier text becomes empty. Of equal entries in one list, the first entry is
    kept. A text that is a canon lock stands in no other list.
    """
    canon = payload.get("canon_locks")
    locked = {_said(one) for one in canon} if isinstance(canon, list) else set()
    return {
        key: _cleaned(key, value, set() if key == "canon_locks" else locked)
        for key, value in payload.items()
    }


def _cleaned(key: str, value: Any, locked: set[str]) -> Any:
    if isinstance(value, dict):
        return {each: _cleaned(each, one, locked) for each, one in value.items()}
    if not isinstance(value, list):
        return value
    told: set[str] = set()
    kept = []
    for entry in value:
        said = _said(entry)
        if said and (said in told or said in locked):
            continue
        told.add(said)
        if isinstance(entry, dict):
            if key == "state_changes" and _stays_the_same(entry):
                continue
            entry = _without_repeated_texts(entry)
        kept.append(entry)
    return kept


def _stays_the_same(change: Payload) -> bool:
    after = _said(change.get("after"))
    return bool(after) and after in (_said(change.get("before")), _said(change.get("key")))


def _without_repeated_texts(entry: Payload) -> Payload:
    told: set[str] = set()
    cleaned = {}
    for key, value in entry.items():
        said = _said(value) if isinstance(value, str) else ""
        cleaned[key] = "" if key in _ABOUT and said and said in told else value
        told.add(said)
    return cleaned


def _said(value: Any) -> str:
    """Return the words of a text or of an entry in small letters and without punctuation, so that
    they can be compared."""
    if isinstance(value, dict):
        return " | ".join(_said(one) for one in value.values())
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    text = str(value) if value is not None else ""
    return " ".join(words_of(text)) or text
