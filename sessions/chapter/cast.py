"""The cast of a chapter: who takes part, and their names, pronouns and texts."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.dispatch import Signal

from sessions.exceptions import InvalidInput
from sessions.language.speaker_marks import holds_mark, is_mark, person_as_read
from sessions.language.text import clean_line, clean_name, clean_text
from sessions.limits import (
    AGENT_NAME_CHAR_LIMIT,
    MAX_AGENTS,
    PRONOUNS_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
    TAB1_CHAR_LIMIT,
)
from sessions.models import CastMember, Session
from sessions.roster import SLOTS, Character

# Sent with `chapter` in the transaction that changes the chapter's cast.
cast_changed = Signal()

_SELECTED_AT_FIRST = (1, 2, 3)
# The fields that are copied when a chapter's cast is copied to another chapter.
_FIELDS = ("slot", "is_selected", "name", "pronouns", "public_text", "identity_text")

# Texts by slot. The slots are strings, because JSON has no other keys.
TextsBySlot = Mapping[str, str]


def default_cast() -> list[CastMember]:
    """Return the cast of a new chapter. The caller has to set `session` on each member."""
    return [CastMember(slot=slot) for slot in _SELECTED_AT_FIRST]


def copy_cast(cast: Iterable[CastMember]) -> list[CastMember]:
    """Return a copy of the cast for another chapter, in the same order. The caller has to set
    `session` on each member."""
    members = list(cast)
    # People without a panel are in the order of their ids.
    keys = sorted(uuid.uuid4() for _ in members)
    return [
        CastMember(member_id=key, **{name: getattr(one, name) for name in _FIELDS})
        for key, one in zip(keys, members, strict=True)
    ]


def change_cast(
    chapter: Session, slots: Sequence[int] | None, texts: Mapping[str, TextsBySlot | None]
) -> None:
    """Select the characters in `slots`, and store the texts in `texts`.

    The keys of `texts` are fields of CastMember. If `slots` is None, the selection stays. If the
    value for a field is None, all texts of this field stay. The chapter's row has to be locked.
    Raises TooLong or InvalidInput.
    """
    before = chapter.everybody
    members = {one.slot: one for one in chapter.cast if one.slot}
    changed: set[int] = set()

    def change(slot: int, field: str, value: str | bool) -> None:
        member = members.setdefault(slot, CastMember(session=chapter, slot=slot, is_selected=False))
        if getattr(member, field) != value:
            setattr(member, field, value)
            changed.add(slot)

    for field, by_slot in texts.items():
        for slot, text in (by_slot or {}).items():
            number = _check_slot(slot)
            present = getattr(members.get(number), field, "")
            change(number, field, _clean(field, number, text, present))
    if slots is not None:
        for number in {*_check_slots(slots), *members}:
            change(number, "is_selected", number in slots)
    for number in changed:
        members[number].save()
    chapter.forget_cast()
    _check_namesakes(chapter.everybody, before)
    if changed:
        cast_changed.send(Session, chapter=chapter)


@dataclass(frozen=True)
class CastText:
    """The stored texts of a member of the cast: its name, its pronouns, the sentence that everybody
    knows, and the identity that only its own requests have."""

    name: str
    pronouns: str = ""
    public_text: str = ""
    identity_text: str = ""


def replace_cast(chapter: Session, first: CastText, people: Sequence[CastText]) -> None:
    """Store another cast: one character, in the first slot, and people without a panel.

    A member with the name of an earlier member stays the same person and keeps its origin. If only
    one member has another name, this member stays the same person too. The chapter's row has to be
    locked, and the names have to be checked.
    """
    stored = [
        CastText(one.name, one.pronouns, one.public_text, one.identity_text)
        for one in chapter.cast
        if one.is_selected
    ]
    if [first, *people] == stored and len(stored) == len(chapter.cast):
        return
    origins = {person_as_read(one.as_character(0).name): one.origin_id for one in chapter.cast}
    names = [person_as_read(one.name) for one in (first, *people)]
    gone, new = origins.keys() - set(names), set(names) - origins.keys()
    if len(gone) == len(new) == 1 and len(names) == len(chapter.cast):
        origins[new.pop()] = origins[gone.pop()]
    chapter.members.all().delete()
    keys = sorted(uuid.uuid4() for _ in people)
    rows = [CastMember(slot=1), *(CastMember(member_id=key) for key in keys)]
    for row, told in zip(rows, (first, *people), strict=True):
        row.session = chapter
        row.name, row.pronouns = told.name, told.pronouns
        row.public_text, row.identity_text = told.public_text, told.identity_text
        row.origin_id = origins.get(person_as_read(told.name))
    CastMember.objects.bulk_create(rows)
    Session.objects.filter(pk=chapter.pk).update(next_agent_slot=1)
    chapter.forget_cast()
    cast_changed.send(Session, chapter=chapter)


def check_takes_part(chapter: Session, slot: int) -> None:
    """Raise InvalidInput unless a selected character of the chapter has this slot."""
    if slot not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {slot} in this chapter.")


def clean_person(
    everybody: Iterable[Character], *, name: str, pronouns: str = "", public_text: str = ""
) -> dict[str, str]:
    """Return the three texts that describe a person without a panel, in the form that is stored.

    `everybody` has the members whose names are taken. Raises TooLong or InvalidInput.
    """
    person = {"name": name, "pronouns": pronouns, "public_text": public_text}
    limits = (AGENT_NAME_CHAR_LIMIT, PRONOUNS_CHAR_LIMIT, PUBLIC_TEXT_CHAR_LIMIT)
    labels = ("The name", "The pronouns", "What everybody knows of somebody")
    for field, limit, label in zip(person, limits, labels, strict=True):
        clean = clean_name if field == "name" else clean_line
        line = person[field] = clean(person[field], limit=limit, label=label)
        if is_mark(line) if field == "name" else holds_mark(line):
            raise InvalidInput(
                f"{label} cannot be “{line}”: it would look as if you, or the program itself, had "
                "said something. Nothing was changed."
            )
    taken = {person_as_read(one.name) for one in everybody}
    if not person["name"] or person_as_read(person["name"]) in taken:
        raise InvalidInput(
            f"Nobody can appear as “{person['name']}”: whoever does needs a name that nobody else "
            "has. Nothing was changed."
        )
    return person


def by_checked_slot(values: Mapping[str, int | None]) -> dict[int, int | None]:
    """Return the values by slots as numbers. Raises InvalidInput for a key that is no slot."""
    return {_check_slot(slot): value for slot, value in values.items()}


def _check_slots(slots: Sequence[int]) -> Sequence[int]:
    if not 1 <= len(slots) <= MAX_AGENTS or slots != list(range(1, len(slots) + 1)):
        raise InvalidInput(
            f"The agents must be 1 to n without a gap, n from 1 to {MAX_AGENTS}. Nothing was saved."
        )
    return slots


def _check_slot(slot: str) -> int:
    if slot not in {str(known) for known in SLOTS}:
        raise InvalidInput(f"There is no agent {slot[:20]!r}; they are 1 to {MAX_AGENTS}.")
    return int(slot)


def _clean(field: str, slot: int, text: str, present: str) -> str:
    """Return a character's text in the form that is stored.

    Raises TooLong. Raises InvalidInput for a text that would look like the Game Master's words,
    unless it equals the stored text `present`.
    """
    if field == "identity_text":
        return clean_text(text, limit=TAB1_CHAR_LIMIT, label=f"The identity of agent {slot}")
    label, limit = {
        "name": (f"The name of agent {slot}", AGENT_NAME_CHAR_LIMIT),
        "pronouns": (f"The pronouns of agent {slot}", PRONOUNS_CHAR_LIMIT),
        "public_text": (f"What everybody knows of agent {slot}", PUBLIC_TEXT_CHAR_LIMIT),
    }[field]
    clean = clean_name if field == "name" else clean_line
    line = clean(text, limit=limit, label=label)
    if line == present:
        return line
    if field == "name" and is_mark(line):
        raise InvalidInput(
            f"“{line}” cannot be the name of agent {slot}: whatever this character says would "
            "look as if you, or the program itself, had said it. Nothing was saved, and the "
            "name before is kept; choose another name."
        )
    if field != "name" and holds_mark(line):
        raise InvalidInput(
            f"{label} cannot be “{line}”: to the agents it would look as if you, or the program "
            "itself, had said it. Nothing was saved, and what was there before is kept; choose "
            "other words."
        )
    return line


def _check_namesakes(cast: Sequence[Character], before: Sequence[Character]) -> None:
    """Refuse a changed name that another member of the cast has. Two members who already had the
    same name may keep it."""
    borne = {(one.slot, one.name) for one in before}
    kept = [one for one in cast if (one.slot, one.name) in borne]
    named = {person_as_read(one.name): one for one in kept}
    for one in cast:
        if one in kept:
            continue
        other = named.setdefault(person_as_read(one.name), one)
        if other == one:
            continue
        first, second = sorted((one.slot, other.slot))
        both = f"Agents {first} and {second}" if first else f"Agent {second} and somebody else"
        raise InvalidInput(
            f"{both} would both be called “{one.name}”, or what looks like it, and nobody could "
            "tell who of them speaks. Nothing was saved, and what was there before is kept; choose "
            "another name for one of them."
        )
