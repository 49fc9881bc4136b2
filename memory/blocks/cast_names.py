"""Writes the names of the cast in a model's delta as the chapter spells them.

A model may write a name in other letters, without its accents, or only a part of it. Memory would
then count one person as two. The record of the call keeps what the model wrote.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from memory.blocks.same_names import plain_key, split_names
from sessions.roster import Character

Entry = dict[str, Any]

# The lists of a delta, with the fields of their entries that name people.
_NAMING = {
    "major_events": ("participants",),
    "character_actions": ("name",),
    "relationship_shifts": ("between",),
    "items_clues_discovered": ("who_found",),
}
_POSSESSIVES = ("'s", "\N{RIGHT SINGLE QUOTATION MARK}s")
# The words of a name that name nobody by themselves.
_IDLE_WORDS = frozenset({"a", "an", "and", "da", "de", "der", "of", "the", "van", "von"})


class CastNames:
    """The names of a cast, and other spellings of them that a text may use."""

    def __init__(self, names: Iterable[str]) -> None:
        self._whole: dict[str, str] = {}
        self._parts: dict[str, set[str]] = {}
        for name in names:
            key = plain_key(name)
            self._whole[key] = "" if key in self._whole else name
            self._parts.setdefault(name, set()).update(key.split())

    def name_of(self, text: str) -> str:
        """Return the name of the member whom this text names, or "" if it names no member or
        several.

        The text may be the name in another spelling, or a part of it that nobody else's name has.
        """
        key = plain_key(text)
        if key in self._whole:
            return self._whole[key]
        words = set(key.split())
        if not words - _IDLE_WORDS:
            return ""
        fits = [name for name, parts in self._parts.items() if words <= parts]
        return fits[0] if len(fits) == 1 else ""

    def spelt(self, text: str) -> str:
        """Return the text. If it is a member's name in another spelling, return the member's
        name."""
        return self.name_of(text) or text

    def spelt_at_start(self, text: str) -> str:
        """Return the key of a state, such as "elodie's arm", with the name at its beginning as the
        chapter spells it.

        A part of a name counts only with an apostrophe, because a key may begin with the name of a
        thing.
        """
        if name := self._whole.get(plain_key(text)):
            return name
        for mark in _POSSESSIVES:
            start, found, rest = text.partition(mark)
            if found and (name := self.name_of(start)):
                return f"{name}{found}{rest}"
        start, colon, rest = text.partition(":")
        name = self._whole.get(plain_key(start), "") if colon else ""
        return f"{name}{colon}{rest}" if name else text


def with_cast_names(payload: dict[str, Any], cast: Sequence[Character]) -> dict[str, Any]:
    """Return a delta's payload with the names of the cast as the chapter spells them.

    The words of sentences are left as the model wrote them.
    """
    names = CastNames(one.name for one in cast)
    slots = {str(one.slot): one.name for one in cast if one.slot}
    named = {
        key: _each(payload[key], partial(_with_names, fields=fields, names=names, slots=slots))
        for key, fields in _NAMING.items()
        if key in payload
    }
    if "state_changes" in payload:
        named["state_changes"] = _each(
            payload["state_changes"], partial(_with_subject, names=names)
        )
    return payload | named


def _each(value: Any, change: Callable[[Entry], Entry]) -> Any:
    """Return the entries, with the change made in each entry that is an object. A model may have
    written one object in place of a list."""
    if isinstance(value, list):
        return [change(one) if isinstance(one, dict) else one for one in value]
    return change(value) if isinstance(value, dict) else value


def _with_names(
    entry: Entry, fields: Sequence[str], names: CastNames, slots: Mapping[str, str]
) -> Entry:
    changed = {key: _spelt(entry[key], names) for key in fields if key in entry}
    # If the model left the name out, the slot tells who acted.
    if not entry.get("name") and (name := slots.get(str(entry.get("agent_slot")).strip())):
        changed["name"] = name
    return entry | changed


def _spelt(value: Any, names: CastNames) -> Any:
    """Return a name, or several names in a list or in one text, as the chapter spells them."""
    if isinstance(value, list):
        return [names.spelt(one) if isinstance(one, str) else one for one in value]
    if not isinstance(value, str) or names.name_of(value):
        return names.spelt(value) if isinstance(value, str) else value
    several = [names.name_of(one) for one in split_names(value)]
    return ", ".join(several) if all(several) else value


def _with_subject(entry: Entry, names: CastNames) -> Entry:
    key = entry.get("key")
    return entry | {"key": names.spelt_at_start(key)} if isinstance(key, str) else entry
