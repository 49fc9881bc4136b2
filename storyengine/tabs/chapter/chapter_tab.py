"""Tab 3: the memory, the instructions to the narrator, and the drafts."""

import uuid
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import is_allowed, provider_host
from agents.exceptions import ModelNotReady, PromptTooLong
from agents.flows.telling.estimates import estimate_build
from agents.flows.telling.narrating import cancel_build, request_build
from agents.running.database import in_database
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import save_narrative_agent
from sessions.limits import (
    MAX_TARGET_WORDS,
    MIN_TARGET_WORDS,
    NARRATIVE_AGENT_CHAR_LIMIT,
)
from sessions.models import State
from storyengine.books.formats import FORMATS
from storyengine.tabs.chapter.chapter_page import ChapterPage, read_page
from storyengine.tabs.chapter.chapter_signs import read_status
from storyengine.tabs.seen_values import (
    Conflict,
    Sent,
    answer_saved,
    lock_values,
    marks_of,
    values_of_narrator,
)
from storyengine.web.header import header_context
from storyengine.web.model_notice import read_model_notice
from storyengine.web.numbers import read_whole_number
from storyengine.web.render import HttpRequest, answer, nothing_new, show

_UPDATE = "chapter/_update.html"


@require_safe
def show_chapter(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = _read_named(session_id, request.GET)
    return show(request, "chapter/chapter.html", _context(page))


@require_safe
async def status(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Answer a poll while memory or a draft is written. Without news, the answer has no content."""
    if await in_database(_is_as_seen, session_id, request.GET.get("seen", "")):
        return nothing_new()
    return await sync_to_async(_show_news)(request, session_id)


def _is_as_seen(session_id: uuid.UUID, seen: str) -> bool:
    return read_status(session_id).version == seen


def _show_news(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = _read_named(session_id, request.GET)
    context = _context(page) | {
        "seen_memory": request.GET.get("memory", ""),
        "has_finished": "building" in request.GET and page.has_finished,
    }
    if page.reads_draft and request.GET.get("reads"):
        # Only the progress of the build is replaced, because the user may be reading the draft or
        # selecting its text.
        response = show(request, _UPDATE, context | {"leaves_draft": True})
        response["HX-Retarget"] = "#build-state"
        return response
    return show(request, _UPDATE, context)


@require_POST
def save(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Save the narrator's instructions and the target length. A value that another window has
    changed since is not saved."""
    sent = Sent.read(request)
    conflicts = _save_narrator(session_id, sent)
    page = reverse("pages:draft", args=[session_id])
    return answer_saved(
        request, sent, conflicts, lambda: values_of_narrator(get_chapter(session_id)), page
    )


@transaction.atomic
def _save_narrator(session_id: uuid.UUID, sent: Sent) -> list[Conflict]:
    fields, conflicts = sent.to_save(values_of_narrator(lock_values(session_id)))
    words = fields.get("target_words")
    save_narrative_agent(
        session_id,
        definition_text=fields.get("definition_text"),
        target_words=None if words is None else read_whole_number(words, "The target length"),
    )
    return conflicts


@require_safe
def show_estimate(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show the estimate of a build. An estimate takes a moment, so Tab 3 asks for it after the tab
    has loaded."""
    chapter = get_chapter(session_id)
    # An open page may be old: the chapter may have been reopened, or another page may have begun a
    # build.
    if chapter.state != State.ENDED:
        return nothing_new()
    context: dict[str, Any] = {"chapter": chapter}
    if not request.htmx:
        context |= header_context(chapter, "chapter")
    try:
        context["estimate"] = estimate_build(chapter)
    except PromptTooLong as error:
        context["refusal"] = str(error)
    except ModelNotReady:
        # No message is shown here, because Tab 3 already says that the model is not ready.
        context["refusal"] = ""
    template = "chapter/_estimate.html" if request.htmx else "chapter/estimate.html"
    return show(request, template, context)


@require_POST
def build(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    request_build(session_id)
    return _answer(request, session_id)


@require_POST
def cancel(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    cancel_build(session_id)
    return _answer(request, session_id)


def _answer(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = _read_named(session_id, request.POST)
    address = reverse("pages:draft", args=[session_id], query=page.names or None)
    return answer(request, partial=_UPDATE, context=_context(page), page=address)


def _read_named(session_id: uuid.UUID, names: QueryDict) -> ChapterPage:
    """Return the page that the parameters of an address or the fields of a form name."""
    return read_page(
        session_id,
        names.get("draft", ""),
        until=names.get("until", ""),
        shows_now=names.get("show") == "now",
        shows_all=names.get("all") == "1",
        paragraph=names.get("paragraph", ""),
        prompt=names.get("prompt", ""),
    )


def _context(page: ChapterPage) -> dict[str, Any]:
    host = provider_host()
    return header_context(page.chapter, "chapter") | {
        "page": page,
        "formats": FORMATS,
        "seen_values": marks_of(values_of_narrator(page.chapter)),
        "limit": NARRATIVE_AGENT_CHAR_LIMIT,
        "min_words": MIN_TARGET_WORDS,
        "max_words": MAX_TARGET_WORDS,
        "notice": read_model_notice(),
        "host": host,
        "is_allowed": is_allowed(host),
    }
