"""Finds the same people in the chapters of a story.

A copied member of the cast names its origin, the same person in the chapter before. The forks of a
chapter have its people under the same numbers, because a fork takes over its closed Tab 1.
"""

import uuid
from collections.abc import Iterator

from sessions.models import CastMember, Session


def numbers_before(chapter: Session, before: Session) -> dict[int, int]:
    """Return the number of each member who takes part, with the number of the same person in the
    chapter `before`. People who were not there are left out."""
    there = members_by_number(before)
    by_key = {member.pk: number for number, member in there.items()}
    origins = {
        number: member.origin_id
        for number, member in members_by_number(chapter).items()
        if member.origin_id
    }
    found: dict[int, int] = {}
    # Usually the origins are members of `before`. If a chapter between the two was deleted, their
    # own origins are.
    for _ in range(chapter.place - before.place):
        in_forks = _in_forks_of(before, [one for one in origins.values() if one not in by_key])
        for number, origin in origins.items():
            old = by_key.get(origin)
            if old is None and (same := in_forks.get(origin)):
                at, name = same
                old = at if at in there and there[at].as_character(at).name == name else None
            if old is not None:
                found[number] = old
        origins = {number: one for number, one in origins.items() if number not in found}
        if not origins:
            break
        own = CastMember.objects.filter(pk__in=origins.values())
        of_origins = dict(own.values_list("pk", "origin"))
        earlier = ((number, of_origins.get(one)) for number, one in origins.items())
        origins = {number: one for number, one in earlier if one}
    return found


def members_by_number(chapter: Session) -> dict[int, CastMember]:
    """Return the members who take part, by the numbers that lists of witnesses use."""
    return {one.number: member for one, member in chapter.numbered_cast if member.is_selected}


def _in_forks_of(before: Session, keys: list[uuid.UUID]) -> dict[uuid.UUID, tuple[int, str]]:
    """Return the numbers and names of these members of other chapters at the place of `before`."""
    return dict(_numbers_and_names(before, keys)) if keys else {}


def _numbers_and_names(
    before: Session, keys: list[uuid.UUID]
) -> Iterator[tuple[uuid.UUID, tuple[int, str]]]:
    at_the_place = Session.everything.filter(story=before.story_id, place=before.place)
    with_them = at_the_place.filter(members__pk__in=keys).distinct().prefetch_related("members")
    for chapter in with_them:
        for number, member in members_by_number(chapter).items():
            yield member.pk, (number, member.as_character(number).name)
