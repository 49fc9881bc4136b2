"""Pages on which the user confirms a fork and makes it."""

import uuid

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memory.blocks.blocks import covered_until
from sessions.chapter.access import get_chapter
from sessions.play.played_world import is_closed
from storyengine.exchange.exporting import find_turn_to_fork
from storyengine.exchange.forking import fork_chapter
from storyengine.web.header import header_context
from storyengine.web.numbers import read_whole_number
from storyengine.web.render import HttpRequest, go, show


@require_safe
def confirm_fork(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Ask the user to confirm the fork, and say what the fork will have and what it will lack."""
    chapter = get_chapter(session_id)
    find_turn_to_fork(chapter, number)
    context = header_context(chapter, "play") | {
        "number": number,
        "later": chapter.prompt_index - number,
        "covered": covered_until(chapter, up_to=number),
        "is_closed": is_closed(chapter, number),
        # The form has this key, so that it makes only one fork even if it is sent twice.
        "submission_key": str(uuid.uuid4()),
    }
    return show(request, "play/fork.html", context)


@require_POST
def fork(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    number = read_whole_number(request.POST.get("number", ""), "The prompt")
    key = request.POST.get("submission_key", "")
    chapter = fork_chapter(session_id, number, submission_key=key)
    return go(request, reverse("pages:play", args=[chapter.pk]))
