"""Pages on which the user edits the latest reply by hand. An edit makes another attempt, and
chooses it."""

import uuid

from django.http import HttpResponse
from django.views.decorators.http import require_POST, require_safe

from agents.flows.replies.choosing import edit_reply
from sessions.chapter.access import get_chapter
from sessions.limits import REPLY_CHAR_LIMIT
from sessions.play.committing import find_turn, reply_of
from sessions.play.edited_events import whole_reply
from sessions.play.latest_turn import check_changeable
from storyengine.tabs.play.play_tab import answer_play, read_attempt_id
from storyengine.web.header import header_context
from storyengine.web.render import HttpRequest, show

# The namespace of submission keys that are made from the key of a form and the text in the form.
_EDITS = uuid.UUID("0d6f1c55-9b0e-4b0a-a3f0-6a3c2c6f7e1d")


@require_safe
def show_edit(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Show a form with the text of the chosen reply, as a part of Tab 2 or as a page of its own."""
    chapter = get_chapter(session_id)
    chosen = find_turn(chapter, number).chosen
    check_changeable(chapter, number)
    reply = reply_of(chosen)
    context = header_context(chapter, "play") | {
        "number": number,
        "attempt_id": chosen.pk,
        "text": whole_reply(chosen),
        "speaker": chapter.character(reply.agent_slot) if reply.agent_slot else None,
        "limit": REPLY_CHAR_LIMIT,
        "submission_key": str(uuid.uuid4()),
        "is_in_play": request.htmx,
    }
    return show(request, "play/_edit.html" if request.htmx else "play/edit.html", context)


@require_POST
def save_edit(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    get_chapter(session_id)
    text = request.POST.get("text", "")
    # The key depends on the text. So a form that is sent twice with the same text makes one
    # attempt. With two different texts, it makes two attempts.
    key = uuid.uuid5(_EDITS, f"{request.POST.get('submission_key', '')}\n{text}")
    attempt_id = read_attempt_id(request)
    edit_reply(session_id, number, text, submission_key=str(key), attempt_id=attempt_id)
    return answer_play(request, session_id, has_chosen=True, is_edited=True)
