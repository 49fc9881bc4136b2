"""The cells on Tab 2 with those fields of a mode's setup that can be changed in play."""

import uuid
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from agents.modes.fields import open_setup, save_mode_setup
from agents.modes.registry import find_mode
from sessions.chapter.access import get_chapter
from sessions.exceptions import WrongState
from sessions.models import Session
from storyengine.tabs.seen_values import (
    Conflict,
    Sent,
    answer_saved,
    lock_values,
    marks_of,
    values_of_setup,
)
from storyengine.tabs.setup.setup_tab import SetupLocked
from storyengine.tabs.setup_cells import read_cells
from storyengine.web.render import HttpRequest


def open_cells_context(chapter: Session) -> dict[str, Any]:
    """Return the context of the cells, or an empty context if there are none now."""
    mode = find_mode(chapter.mode)
    setup = open_setup(chapter) if mode and mode.pages.open_cells else {}
    if not setup:
        return {}
    return {"open_setup": setup, "seen_values": marks_of(values_of_setup(setup))}


@require_POST
def save(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Save the fields of the form. A value is not changed if another window has changed it
    since."""
    sent = Sent.read(request)
    try:
        conflicts = _save(session_id, sent)
    except WrongState as error:
        raise SetupLocked(
            "It is not in play any more, so these words are not saved. They are still on this "
            "page: copy them before you leave it, and reopen the chapter to put them in."
        ) from error
    page = f"{reverse('pages:play', args=[session_id])}?open=cells"
    return answer_saved(
        request,
        sent,
        conflicts,
        lambda: values_of_setup(open_setup(get_chapter(session_id))),
        page,
    )


@transaction.atomic
def _save(session_id: uuid.UUID, sent: Sent) -> list[Conflict]:
    """Save all fields but the conflicts, which are returned. If a field is refused, none is
    saved."""
    fields, conflicts = sent.to_save(values_of_setup(open_setup(lock_values(session_id))))
    if cells := read_cells(fields):
        save_mode_setup(session_id, cells)
    return conflicts
