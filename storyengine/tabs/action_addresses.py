"""The addresses that actions on chapters and stories send the browser to."""

import uuid

from django.urls import reverse
from django.utils.http import urlencode

from agents.modes.declaration import Stage
from agents.modes.registry import find_mode, has_stage
from sessions.models import Session, State


def home(*, deleted: uuid.UUID | None = None) -> str:
    """Return the address of the home page. It offers to bring back the chapter or story that was
    just deleted."""
    query = f"?{urlencode({'deleted': str(deleted)})}" if deleted else ""
    return reverse("pages:library") + query


def address_of(chapter: Session) -> str:
    """Return the address of the tab that suits the chapter's state, among the tabs that the
    chapter's mode has."""
    if chapter.state in (State.ENDED, State.NARRATING):
        told = (has_stage(chapter.mode, one) for one in (Stage.MEMORY, Stage.NARRATION))
        # A chapter whose mode is not installed has all tabs.
        if any(told) or find_mode(chapter.mode) is None:
            return reverse("pages:draft", args=[chapter.pk])
    # If the chapter is not set up but its mode has no Tab 1, the result is Tab 2, which then has
    # the button that locks the chapter.
    elif chapter.state in (State.DRAFT_TAB1, State.RESETTING) and (
        has_stage(chapter.mode, Stage.SET_UP) or find_mode(chapter.mode) is None
    ):
        return reverse("pages:world", args=[chapter.pk])
    return reverse("pages:play", args=[chapter.pk])


def first_address(chapter: Session) -> str:
    """Return the address where a new chapter begins: Tab 1, or Tab 2 if the mode has nothing to set
    up."""
    tab = "pages:world" if has_stage(chapter.mode, Stage.SET_UP) else "pages:play"
    return reverse(tab, args=[chapter.pk])
