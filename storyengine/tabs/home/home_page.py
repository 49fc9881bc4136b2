"""The home page with its shelf of stories, and the actions on a whole chapter."""

import uuid
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import is_allowed, provider_host
from agents.calling.model_access import provider_label
from agents.calling.servers.choices import uses_embedded
from agents.flows.beginning.from_starters import begin_starter, open_starter
from agents.flows.beginning.next_chapter import reset_and_hand_on
from agents.flows.replies.warmup import warm_next_reply
from agents.llm.embedded.status import is_ready, read_embedded_server
from agents.modes.registry import all_modes, begin_chapter
from agents.prompting.declarations import WORLD_SUMMARY
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import copy_setup, rename_chapter
from sessions.chapter.starters import all_starters
from sessions.chapter.stories import choose_chapter, hide_chapter, restore_chapter
from sessions.limits import SEARCH_CHAR_LIMIT, TITLE_CHAR_LIMIT
from sessions.models import DEFAULT_MODE
from storyengine.books.formats import FORMATS
from storyengine.tabs.action_addresses import address_of, first_address, home
from storyengine.tabs.home.shelf_page import Asked, Undos, read_shelf
from storyengine.web.render import HttpRequest, go, nothing_new, show


@require_safe
def library(request: HttpRequest) -> HttpResponse:
    asked = Asked.read(request.GET)
    # The host is found first, because this reads the choices of models.
    host, is_embedded = provider_host(), uses_embedded([WORLD_SUMMARY])
    context = {
        "shelf": read_shelf(asked, request.GET.get("page")),
        "own_files": [file.title for mode in all_modes() if (file := mode.setup.file)],
        "all_address": Asked().address(),
        "search_limit": SEARCH_CHAR_LIMIT,
        "undos": Undos.read(request.GET),
        "model": provider_label(),
        "host": host,
        "is_allowed": is_allowed(host),
        "title_limit": TITLE_CHAR_LIMIT,
        "formats": FORMATS,
        "has_modes": len(all_modes()) > 1,
        "is_embedded": is_embedded,
        "is_model_ready": is_embedded and is_ready(read_embedded_server()),
        "starters": all_starters(),
        **_first_cards(),
    }
    return show(request, "library/library.html", context)


def _first_cards() -> dict[str, Any]:
    """Return the cards of a home page without stories: a few starters, of which the last ones give
    way to the cards of modes."""
    cards = [mode.pages.card for mode in all_modes() if mode.pages.card]
    starters = all_starters()
    return {"cards": cards, "first_starters": starters[: len(starters) - len(cards)]}


@require_POST
def new_chapter(request: HttpRequest) -> HttpResponse:
    title, mode = request.POST.get("title", ""), request.POST.get("mode", DEFAULT_MODE)
    return go(request, first_address(begin_chapter(title, mode=mode)))


@require_POST
async def begin_from_starter(request: HttpRequest, name: str) -> HttpResponse:
    """Make a chapter from a starter, in play or open for change. Before the page of a chapter in
    play has arrived, the embedded model begins to read for the next prompt."""
    if request.POST.get("change") == "1":
        chapter = await sync_to_async(open_starter)(name)
        return go(request, reverse("pages:world", args=[chapter.pk]))
    chapter = await sync_to_async(begin_starter)(name)
    await warm_next_reply(chapter.pk)
    return go(request, reverse("pages:play", args=[chapter.pk]))


@require_safe
def choose_mode(request: HttpRequest) -> HttpResponse:
    """Show the modes, of which the user chooses one for a new chapter."""
    return show(request, "library/modes.html", {"modes": all_modes()})


@require_safe
def open_chapter(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Redirect from the address of a chapter to the tab that suits the chapter's state."""
    return HttpResponseRedirect(address_of(get_chapter(session_id)))


@require_POST
def rename(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    rename_chapter(session_id, request.POST.get("title", ""))
    if request.htmx:
        return nothing_new()
    return go(request, home())


@require_POST
def copy(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    return go(request, first_address(copy_setup(session_id)))


@require_POST
def delete(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Hide the chapter, and show the list of stories with a button that brings it back."""
    hide_chapter(session_id)
    return go(request, home(deleted=session_id))


@require_POST
def restore(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    restore_chapter(session_id)
    return go(request, home())


@require_POST
def choose(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Choose this chapter among the chapters at its place of the story."""
    choose_chapter(session_id)
    return go(request, home())


@require_POST
def reset(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    return go(request, first_address(reset_and_hand_on(session_id)))
