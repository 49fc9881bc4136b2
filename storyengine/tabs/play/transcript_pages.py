"""Pages and parts of pages on which the user reads and searches the play."""

import uuid
from dataclasses import replace

from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from memory.prose.drafts import told_until
from memory.recall.questions import Reader
from memory.recall.searching import search as find_passages
from sessions.chapter.access import get_chapter
from sessions.language.text import clean_line
from sessions.limits import CANON_CHAR_LIMIT
from sessions.models import Session
from sessions.play.committing import find_turn
from sessions.record.transcript import Transcript, read_prompts
from storyengine.tabs.play.play_attempts import read_set_aside
from storyengine.web.header import header_context
from storyengine.web.numbers import number_up_to
from storyengine.web.render import HttpRequest, show

# The number of prompts on a page of the whole transcript, which may have thousands of prompts.
PROMPTS_A_PAGE = 250
# The number of turns that Tab 2 loads when the user scrolls up beyond its window.
OLDER_TURNS = 50
# The number of passages that a search on a page shows.
PASSAGES_SHOWN = 20


@require_safe
def whole_transcript(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show one page of the whole transcript. The address has the number of this page, or the number
    of a prompt that the page must have."""
    chapter = get_chapter(session_id)
    numbers = Paginator(range(chapter.prompt_index), PROMPTS_A_PAGE)
    prompt = number_up_to(chapter.prompt_index, request.GET.get("prompt", ""))
    of_prompt = (prompt - 1) // PROMPTS_A_PAGE + 1
    pages = numbers.get_page(of_prompt if prompt else request.GET.get("page"))
    context = header_context(chapter, "play") | {
        "pages": pages,
        "transcript": _read(chapter, pages.start_index(), pages.end_index()),
        "told_until": told_until(chapter),
        "set_aside": [] if pages.has_next() else read_set_aside(chapter),
    }
    return show(request, "play/transcript.html", context)


@require_safe
def go_to_turn(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Lead to the place of a prompt in the whole transcript. This is the address of a turn that a
    user can keep: it does not change however long the chapter becomes, and it needs no script."""
    find_turn(get_chapter(session_id), number)
    return HttpResponseRedirect(turn_address(session_id, number))


def turn_address(session_id: uuid.UUID, number: int) -> str:
    page = reverse("pages:transcript", args=[session_id])
    return f"{page}?prompt={number}#prompt-{number}"


@require_safe
def older(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Return the turns before the prompt `before`, which Tab 2 puts above the turns that it shows.

    The window of Tab 2 may begin in the middle of a turn. Then `part` is the number of entries that
    it shows of the prompt `before`, and the other entries of this prompt are returned too.
    """
    chapter = get_chapter(session_id)
    before = number_up_to(chapter.prompt_index, request.GET.get("before", ""))
    part = number_up_to(1_000, request.GET.get("part", ""))
    first = max(before - OLDER_TURNS, 1)
    transcript = _read(chapter, first, before if part else before - 1)
    at_before = [one for one in transcript.entries if one.prompt_index == before and one.is_chosen]
    missing = at_before[: max(len(at_before) - part, 0)]
    entries = [one for one in transcript.entries if one.prompt_index < before] + missing
    return show(
        request,
        "play/_older.html",
        {"chapter": chapter, "transcript": replace(transcript, entries=entries)},
    )


@require_safe
def search(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show a field for a search in the chapter, and the passages that were found. A number leads to
    the prompt with this number."""
    chapter = get_chapter(session_id)
    asked = clean_line(request.GET.get("q", ""), limit=CANON_CHAR_LIMIT, label="The search")
    number = number_up_to(chapter.prompt_index, asked)
    reader = Reader(chapter, with_thoughts=chapter.shows_thoughts)
    if number and not request.htmx:
        return HttpResponseRedirect(turn_address(session_id, number))
    context = {
        "chapter": chapter,
        "asked": asked,
        "number": number,
        "found": find_passages(reader, asked, PASSAGES_SHOWN) if asked else [],
        "limit": CANON_CHAR_LIMIT,
        "is_in_play": request.htmx,
    }
    if request.htmx:
        return show(request, "play/_search.html", context)
    return show(request, "play/search.html", header_context(chapter, "play") | context)


def _read(chapter: Session, first: int, last: int) -> Transcript:
    return read_prompts(
        chapter,
        first,
        last,
        with_all_replies=chapter.shows_all_replies,
        with_thoughts=chapter.shows_thoughts,
    )
