"""The groups of chapters that stories can be filtered by."""

from collections.abc import Mapping

from django.db.models import Exists, OuterRef, QuerySet, TextChoices

from memory.models import NarrativeDraft
from sessions.models import Session, State


class Group(TextChoices):
    """TOLD has the chapters that have ended and have a draft, ENDED those without one. ARCHIVED has
    the stories that were put away, whatever the groups of their chapters."""

    SETTING_UP = "setting-up"
    IN_PLAY = "in-play"
    ENDED = "ended"
    TOLD = "told"
    ARCHIVED = "archived"


_GROUP_OF_STATE: Mapping[str, Group] = {
    State.DRAFT_TAB1: Group.SETTING_UP,
    State.LOCKING: Group.SETTING_UP,
    State.RESETTING: Group.SETTING_UP,
    State.ACTIVE: Group.IN_PLAY,
    State.SUMMARIZING: Group.IN_PLAY,
    State.ENDED: Group.ENDED,
    State.NARRATING: Group.ENDED,
}


def group_of(state: str, *, is_told: bool) -> Group:
    """Return the group of a chapter in this state. `is_told` says that it has a draft."""
    group = _GROUP_OF_STATE[state]
    return Group.TOLD if group == Group.ENDED and is_told else group


def chapters_in(group: str) -> QuerySet[Session]:
    """Return the chapters that are in this group. Without a group, and for ARCHIVED, these are all
    chapters."""
    if group in ("", Group.ARCHIVED):
        return Session.objects.all()
    of_states = Group.ENDED if group == Group.TOLD else group
    states = [state for state, one in _GROUP_OF_STATE.items() if one == of_states]
    chapters = Session.objects.filter(state__in=states)
    if of_states == Group.ENDED:
        return chapters.filter(has_draft() if group == Group.TOLD else ~has_draft())
    return chapters


def has_draft() -> Exists:
    return Exists(NarrativeDraft.objects.filter(session=OuterRef("pk")))
