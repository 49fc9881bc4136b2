"""Finds the same people in the chapters of a story.

A copied member of the cast names its origin, the same person in the chapter before. The forks of a
chapter have its people under the same numbers, because a fork takes over its closed Tab 1.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping

from sessions.exceptions import InvalidInput
from sessions.models import CastMember, Session

_ByNumber = Mapping[int, CastMember]


def numbers_before(chapter: Session, before: Session) -> dict[int, int]:
    """Map the number of each member who takes part to the number of the same person in the chapter
    `before`. People who did not take part there are left out."""
    [(_, numbers)] = follow_people(chapter, [before])
    return numbers


def follow_people(
    chapter: Session, way: Iterable[Session]
) -> Iterator[tuple[Session, dict[int, int]]]:
    """Yield each of these chapters, which lead back from `chapter`. With each chapter comes a
    mapping for the people who take part in both: from the number in `chapter` to the number there.

    A person who took no part in one of the chapters is still followed to the earlier chapters.
    """
    selves: _ByNumber = members_by_number(chapter)
    for before in way:
        selves = _selves_in(before, selves)
        by_key = {member.pk: number for number, member in members_by_number(before).items()}
        numbers = {number: by_key.get(member.pk) for number, member in selves.items()}
        yield before, {number: old for number, old in numbers.items() if old is not None}


def members_by_number(chapter: Session) -> dict[int, CastMember]:
    """Map the numbers that lists of witnesses use to the members who take part."""
    return {one.number: member for one, member in chapter.numbered_cast if member.is_selected}


def followed(chapter: Session) -> Session | None:
    """Return the chapter that this chapter follows, unless that chapter was deleted."""
    if chapter.follows_id is None:
        return None
    return Session.objects.filter(story=chapter.story_id, pk=chapter.follows_id).first()


def persons_before(chapter: Session, before: Session) -> dict[int, int | None]:
    """For each slot, return the number that the same person has in the chapter `before`, or None
    for a new person. Slots that are not selected count too."""
    here = {one.number: member for one, member in chapter.numbered_cast if member.slot}
    numbers = {member.pk: one.number for one, member in before.numbered_cast}
    selves = _selves_in(before, here)
    return {slot: numbers[selves[slot].pk] if slot in selves else None for slot in here}


def choose_persons(chapter: Session, chosen: Mapping[int, int | None]) -> None:
    """Store for each of these slots which person of the chapter before the character is, or that
    the character is a new person.

    The character has the memory of this person. The chapter's row has to be locked. Raises
    InvalidInput.
    """
    before = followed(chapter)
    present = persons_before(chapter, before) if before else {}
    changed = {slot: one for slot, one in chosen.items() if one != present.get(slot)}
    if not changed:
        return
    there = {one.number: member for one, member in before.numbered_cast} if before else {}
    if unknown := [one for one in changed.values() if one is not None and one not in there]:
        raise InvalidInput(
            f"Nobody had the number {unknown[0]} in a chapter before this one. Nothing was saved."
        )
    members = {member.slot: member for member in chapter.cast if member.slot}
    after = present | changed
    for slot, number in changed.items():
        for other in (one for one, same in after.items() if one != slot and same == number):
            if number is None:
                break
            if other in changed or members[other].is_selected:
                raise InvalidInput(
                    f"Agent {other} is already the same person as {there[number]} before. Say "
                    f"first that agent {other} is somebody new. Nothing was saved."
                )
            members[other].origin = None
            members[other].save(update_fields=["origin"])
        member = members.get(slot) or CastMember(session=chapter, slot=slot, is_selected=False)
        member.origin = None if number is None else there[number]
        member.save()
    chapter.forget_cast()


def _selves_in(before: Session, members: _ByNumber) -> dict[int, CastMember]:
    """Map each of these members of a later chapter to the same person in the chapter `before`."""
    there = {member.pk: member for member in before.cast}
    origins = {number: one.origin_id for number, one in members.items() if one.origin_id}
    found = {number: there[key] for number, key in origins.items() if key in there}
    missing = {number: key for number, key in origins.items() if number not in found}
    # Usually all members are found. If one is missing, a fork was chosen since, or a chapter in
    # between was deleted.
    while missing:
        rows = CastMember.objects.select_related("session").in_bulk(missing.values())
        further: dict[int, uuid.UUID] = {}
        for number, key in missing.items():
            row = rows.get(key)
            if row is None:
                continue
            if row.session.place == before.place:
                if same := _same_in_fork(row, before):
                    found[number] = same
            elif row.session.place > before.place and row.origin_id in there:
                found[number] = there[row.origin_id]
            elif row.session.place > before.place and row.origin_id:
                further[number] = row.origin_id
        missing = further
    return found


def _same_in_fork(member: CastMember, before: Session) -> CastMember | None:
    """Return the member of `before` with the number and the name that this member has in another
    chapter at the same place."""
    numbers = {one.pk: number for number, one in _everybody_by_number(member.session).items()}
    same = _everybody_by_number(before).get(numbers[member.pk])
    return same if same and same.name == member.name else None


def _everybody_by_number(chapter: Session) -> dict[int, CastMember]:
    return {one.number: member for one, member in chapter.numbered_cast}
