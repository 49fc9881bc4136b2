"""Tab 2: the transcript, the prompt cell, and the actions on a chapter in play."""

import uuid
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.flows.remembering.memory_calls import find_memory_behind
from agents.flows.replies.acting import do_act
from agents.flows.replies.choosing import choose_reply
from agents.flows.replies.turns import keep_reply
from agents.flows.telling.ending import reopen, request_end, retry_summary
from agents.running.database import in_database
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import (
    choose_panel,
    choose_reply_length,
    show_all_replies,
    show_thoughts,
)
from sessions.exceptions import InvalidInput
from sessions.play.breaking import broken_attempt, set_broken_aside
from storyengine.tabs.play.open_cells import open_cells_context
from storyengine.tabs.play.play_page import (
    PlayPage,
    play_context,
    read_play,
    read_play_status,
)
from storyengine.tabs.setup.setup_tab import locking_context
from storyengine.web.header import header_context
from storyengine.web.numbers import number_up_to, read_whole_number
from storyengine.web.render import HttpRequest, answer, go, nothing_new, show

UPDATE = "play/_update.html"
# The beginnings of the names of fields in a form. `arguments.litres` is an argument of an act. The
# fields of `given`, which a mode adds to a prompt, begin with `given.`.
ARGUMENTS, GIVEN = "arguments.", "given."


@require_safe
def show_play(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show Tab 2 in the form that suits the chapter's state. Showing the tab does not begin
    play."""
    page = read_play(session_id)
    context = play_context(page) | _to_put_in(request, page)
    if page.shape == "playing":
        context |= open_cells_context(page.chapter)
    if page.shape == "locking":
        context |= locking_context(page.chapter, page.jobs)
    return show(request, "play/play.html", context)


@require_safe
async def status(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Answer a poll while work runs in the background. Without news, the answer has no content."""
    shape, seen = request.GET.get("shape", ""), request.GET.get("seen", "")
    if await in_database(_is_as_seen, session_id, shape, seen):
        return nothing_new()
    return await sync_to_async(_show_news)(request, session_id)


def _is_as_seen(session_id: uuid.UUID, shape: str, seen: str) -> bool:
    page = read_play_status(session_id)
    return (page.shape, page.version) == (shape, seen)


def _show_news(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = read_play(session_id)
    # The chapter may have ended after `_is_as_seen` read it, so the shape of the page is compared
    # again.
    if request.GET.get("shape") != page.shape:
        return go(request, page_address(session_id))
    return show(request, UPDATE, play_context(page))


@require_POST
def choose_another(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Choose another attempt at the latest turn, which the form names by its id."""
    number = read_whole_number(request.POST.get("number", ""), "The prompt")
    choose_reply(session_id, number, read_attempt_id(request))
    return answer_play(request, session_id, has_chosen=True)


@require_POST
def act(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Run an act of the mode. The form's fields whose names begin with `arguments.` are its
    arguments."""
    do_act(session_id, request.POST.get("act", ""), read_fields(request, ARGUMENTS))
    return answer_play(request, session_id)


def read_fields(request: HttpRequest, before: str) -> dict[str, Any]:
    """Return the values of the form's fields whose names begin with `before`. A key is a name
    without this beginning."""
    fields = {name: value for name, value in request.POST.items() if name.startswith(before)}
    return {name.removeprefix(before): value for name, value in fields.items()}


def read_given(request: HttpRequest) -> dict[str, Any] | None:
    """Return the values of the fields that the mode adds to a prompt, or None if all of them are
    empty."""
    return {name: value for name, value in read_fields(request, GIVEN).items() if value} or None


@require_POST
def show_replies(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Make Tab 2 show all replies to each prompt, or only the chosen reply."""
    show_all_replies(session_id, request.POST.get("all") == "1")
    return answer_play(request, session_id)


@require_POST
def show_thinking(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Make Tab 2 show the thoughts of characters, or hide them."""
    show_thoughts(session_id, request.POST.get("thoughts") == "1")
    return answer_play(request, session_id)


@require_POST
def choose(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    slot = read_whole_number(request.POST.get("agent_slot", ""), "The agent")
    choose_panel(session_id, slot)
    return answer_play(request, session_id) if not request.htmx else nothing_new()


@require_POST
def save_reply_length(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    choose_reply_length(session_id, request.POST.get("reply_length", ""))
    return answer_play(request, session_id) if not request.htmx else nothing_new()


@require_POST
def keep(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    keep_reply(session_id)
    return answer_play(request, session_id)


@require_POST
def set_aside(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    broken_attempt(chapter)
    set_broken_aside(chapter)
    return answer_play(request, session_id, has_set_aside=True)


@require_POST
def retry_memory(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    retry_summary(session_id, accept_calls=_accepts_calls(request))
    return answer_play(request, session_id)


@require_safe
def confirm_end(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show a page that asks whether to end the chapter. It is for browsers without scripts. Other
    browsers show a dialog."""
    page = read_play_status(session_id)
    if page.shape != "playing":
        return go(request, page_address(session_id))
    behind = find_memory_behind(page.chapter, is_ending=True)
    return show(
        request,
        "play/end.html",
        header_context(page.chapter, "play") | {"page": page, "behind": behind},
    )


@require_POST
def end(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    request_end(session_id, accept_calls=_accepts_calls(request))
    return go(request, page_address(session_id))


@require_POST
def reopen_chapter(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    reopen(session_id)
    return go(request, page_address(session_id))


def answer_play(request: HttpRequest, session_id: uuid.UUID, **extra: Any) -> HttpResponse:
    """Return the play area of Tab 2 if htmx sent the request. Answer any other form with a redirect
    to Tab 2."""
    page = read_play(session_id)
    if request.htmx and request.POST.get("shape", page.shape) != page.shape:
        return go(request, page_address(session_id))
    if not request.htmx:
        return HttpResponseRedirect(page_address(session_id))
    context = play_context(page) | {"with_panels": True} | extra
    return answer(request, partial=UPDATE, context=context, page=page_address(session_id))


def page_address(session_id: uuid.UUID) -> str:
    return reverse("pages:play", args=[session_id])


def read_attempt_id(request: HttpRequest) -> uuid.UUID:
    try:
        return uuid.UUID(request.POST.get("attempt_id", ""))
    except ValueError:
        raise InvalidInput("There is no such reply. Nothing was changed.") from None


def _accepts_calls(request: HttpRequest) -> bool:
    """Return whether the GM accepts the calls. The form has shown the number of these calls."""
    return request.POST.get("accept_calls") == "1"


def _to_put_in(request: HttpRequest, page: PlayPage) -> dict[str, Any]:
    """Return the content that the address asks for in the prompt cell. Only a browser without
    scripts has such an address.

    The address may ask for the words, the witnesses and the character of a prompt that is broken or
    set aside. It may ask for those of the latest prompt, to write it `again`, or for a prompt that
    the page suggests.
    """
    asked, again = request.GET.get("words"), number_up_to(10**6, request.GET.get("again", ""))
    if asked == "example":
        return {"words": page.suggestion, "witnesses": None}
    deeds = page.beginning.deeds if page.beginning else ()
    offered = {f"deed-{number}": deed for number, deed in enumerate(deeds, start=1)}
    if asked in offered:
        return {"words": offered[asked], "witnesses": None}
    unfinished = [one.attempt for one in (page.broken, page.set_aside) if one is not None]
    if page.can_write_again and page.choice:
        unfinished.append(page.choice.chosen)
    for one in unfinished:
        if asked == str(one.pk):
            is_again = page.can_write_again and again == page.chapter.prompt_index
            return {
                "words": one.words,
                "witnesses": one.witnesses,
                "asked_slot": one.actor,
                "again": again if is_again else None,
            }
    return {"words": "", "witnesses": None}
