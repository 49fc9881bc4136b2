"""The receipts of a draft on Tab 3, and the page that asks before a scene is written again."""

import uuid
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import is_allowed, provider_host
from agents.exceptions import ModelNotReady, PromptTooLong
from agents.flows.telling.rebuilding import estimate_rebuild, request_rebuild, why_not_rebuilt
from memory.prose.drafts import check_scene, chosen_draft, find_draft, telling_of
from sessions.chapter.access import get_chapter
from sessions.exceptions import UnknownChapter
from storyengine.tabs.chapter.told_drafts import read_told
from storyengine.web.header import header_context
from storyengine.web.numbers import number_up_to
from storyengine.web.render import HttpRequest, go, show


@require_safe
def show_receipts(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    """Show the turns that a paragraph of the draft tells. Without a script, the answer leads to the
    paragraph on Tab 3, where these turns are shown."""
    chapter = get_chapter(session_id)
    number, draft = find_draft(chapter, draft_id)
    asked = {name: request.GET.get(name, "") for name in ("paragraph", "prompt")}
    if request.htmx:
        told = read_told(chapter, draft, number, **asked)
        return show(request, "chapter/_receipt.html", {"told": told, "chapter": chapter})
    query = {"draft": str(number)} | {name: value for name, value in asked.items() if value}
    paragraph = number_up_to(len(draft.chapter_text), asked["paragraph"])
    fragment = f"#paragraph-{paragraph}" if paragraph else "#draft-label"
    return HttpResponseRedirect(reverse("pages:draft", args=[session_id], query=query) + fragment)


@require_safe
def show_told(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Lead to the paragraph of the chosen draft that tells a prompt."""
    chapter = get_chapter(session_id)
    chosen = chosen_draft(chapter)
    if chosen is None:
        raise UnknownChapter("This chapter has no draft yet.")
    draft_number, _ = find_draft(chapter, chosen.pk)
    query = {"draft": str(draft_number), "prompt": str(number)}
    return HttpResponseRedirect(reverse("pages:draft", args=[session_id], query=query) + "#told")


@require_safe
def confirm_rebuild(
    request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID, number: int
) -> HttpResponse:
    """Ask the user to confirm that a scene is written again, and say how long and how many tokens
    this will take."""
    chapter = get_chapter(session_id)
    draft_number, draft = find_draft(chapter, draft_id)
    check_scene(draft, number)
    scenes = telling_of(draft).scenes
    host = provider_host()
    context: dict[str, Any] = header_context(chapter, "chapter") | {
        "draft": draft,
        "draft_number": draft_number,
        "number": number,
        "count": len(scenes),
        "scene": scenes[number - 1] if scenes else None,
        "why_not": why_not_rebuilt(chapter, draft),
        "host": host,
        "is_allowed": is_allowed(host),
        # The form has this key, so that it makes only one rebuild even if it is sent twice.
        "submission_key": str(uuid.uuid4()),
    }
    if not context["why_not"]:
        try:
            context["estimate"] = estimate_rebuild(chapter, draft.pk, number)
        except (PromptTooLong, ModelNotReady) as error:
            context["no_estimate"] = str(error)
    return show(request, "chapter/rebuild.html", context)


@require_POST
def rebuild(
    request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID, number: int
) -> HttpResponse:
    key = request.POST.get("submission_key", "")
    request_rebuild(session_id, draft_id, number, submission_key=key)
    return go(request, reverse("pages:draft", args=[session_id]) + "#draft-label")
