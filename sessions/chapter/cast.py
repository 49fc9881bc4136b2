"""The cast of a chapter: who takes part, and their names, pronouns and texts."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.dispatch import Signal

from sessions.exceptions import InvalidInput
from sessions.language.speaker_marks import holds_mark, is_mark, person_as_read
from sessions.language.text import clean_line, clean_name, clean_text
from sessions.limits import MAX_AGENTS
from sessions.models import CastMember, Session
from sessions.roster import CAST_TEXTS, NAME, PUBLIC_TEXTS, SLOTS, CastText, Character

# Sent with `chapter` in the transaction that changes the chapter's cast.
cast_changed = Signal()

_SELECTED_AT_FIRST = (1, 2, 3)
# The fields that are copied when a chapter's cast is copied to another chapter.
_FIELDS = ("slot", "is_selected", *(one.name for one in CAST_TEXTS))
_BY_NAME = {one.name: one for one in CAST_TEXTS}

# Texts by slot. The slots are strings, because JSON has no other keys.
TextsBySlot = Mapping[str, str]
# The texts of one member of the cast, by their names (see CAST_TEXTS).
TextsOfMember = Mapping[str, str]


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
    chapter: Session, slots: Sequence[int] | None, texts: Mapping[str, TextsBySlot]
) -> None:
    """Select the characters in `slots`, and store the texts in `texts`, by their names.

    If `slots` is None, the selection is not changed. The chapter's row has to be locked. Raises
    TooLong or InvalidInput.
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
        for slot, text in by_slot.items():
            number = _check_slot(slot)
            present = getattr(members.get(number), field, "")
            change(number, field, _clean(_BY_NAME[field], f"agent {number}", text, present))
    if slots is not None:
        for number in {*_check_slots(slots), *members}:
            change(number, "is_selected", number in slots)
    for number in changed:
        members[number].save()
    chapter.forget_cast()
    _check_namesakes(chapter.everybody, before)
    if changed:
        cast_changed.send(Session, chapter=chapter)


def replace_cast(chapter: Session, first: TextsOfMember, people: Sequence[TextsOfMember]) -> None:
    """Store another cast: one character, in the first slot, and people without a panel.

    A member with the name of an earlier member is the same person and keeps its origin. If only one
    member has another name, this member is still the same person too. The chapter's row has to be
    locked, and the names have to be checked.
    """
    wanted = [{one: told.get(one, "") for one in _BY_NAME} for told in (first, *people)]
    stored = [
        {name: getattr(one, name) for name in _BY_NAME} for one in chapter.cast if one.is_selected
    ]
    if wanted == stored and len(stored) == len(chapter.cast):
        return
    origins = {person_as_read(one.as_character(0).name): one.origin_id for one in chapter.cast}
    names = [person_as_read(told["name"]) for told in wanted]
    gone, new = origins.keys() - set(names), set(names) - origins.keys()
    if len(gone) == len(new) == 1 and len(names) == len(chapter.cast):
        origins[new.pop()] = origins[gone.pop()]
    chapter.members.all().delete()
    keys = sorted(uuid.uuid4() for _ in people)
    places: list[dict[str, Any]] = [{"slot": 1}, *({"member_id": key} for key in keys)]
    CastMember.objects.bulk_create(
        CastMember(session=chapter, origin_id=origins.get(name), **place, **told)
        for place, name, told in zip(places, names, wanted, strict=True)
    )
    Session.objects.filter(pk=chapter.pk).update(next_agent_slot=1)
    chapter.forget_cast()
    cast_changed.send(Session, chapter=chapter)


def check_takes_part(chapter: Session, slot: int) -> None:
    """Raise InvalidInput unless a selected character of the chapter has this slot."""
    if slot not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {slot} in this chapter.")


def clean_person(everybody: Iterable[Character], **told: str) -> dict[str, str]:
    """Return the public texts of a person without a panel, in the form that is stored.

    `everybody` has the members whose names are taken. Raises TooLong or InvalidInput.
    """
    person: dict[str, str] = {}
    for one in PUBLIC_TEXTS:
        person[one.name] = _clean(one, "somebody", told.get(one.name, ""))
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


def _clean(one: CastText, whom: str, text: str, present: str | None = None) -> str:
    """Return a text of a member of the cast in the form that is stored.

    Raises TooLong. Raises InvalidInput for a text that would look like the user's words where all
    agents read it, unless it equals the stored text `present`.
    """
    clean = clean_name if one == NAME else clean_line if one.is_line else clean_text
    label = f"{one.called} of {whom}"
    line = clean(text, limit=one.limit, label=label)
    looks_like_a_mark = is_mark if one == NAME else holds_mark
    if not one.is_private and line != present and looks_like_a_mark(line):
        if one == NAME:
            raise InvalidInput(
                f"“{line}” cannot be the name of {whom}: whatever this character says would look "
                "as if you, or the program itself, had said it. Nothing was saved, and the name "
                "before is kept; choose another name."
            )
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
