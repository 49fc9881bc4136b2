"""The pages on which a draft is edited and compared, and the choice of a draft."""

import uuid
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db import transaction
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memory.prose.drafts import choose_draft, drafts_of, find_draft
from memory.prose.editing.differences import Row, compare, compare_drafts
from memory.prose.editing.lengths import check_length
from memory.prose.editing.working_copies import (
    find_working_copy,
    keep_working_copy,
    save_working_copy,
    text_to_edit,
    throw_away,
)
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.language.text import with_line_feeds
from sessions.limits import DRAFT_CHAR_LIMIT
from storyengine.tabs.seen_values import HEADER, ChangedElsewhere, Sent, mark_of, marks_of
from storyengine.web.header import header_context
from storyengine.web.numbers import number_up_to
from storyengine.web.render import HttpRequest, go, nothing_new, show

# The name of the field with the text of a working copy.
_FIELD = "text"
# Up to this number of neighbouring paragraphs that both texts have are shown. If there are more,
# they are folded.
_SAME_SHOWN = 2


@dataclass(frozen=True)
class RowGroup:
    """Rows of a comparison that are shown, or paragraphs that both texts have and that are
    folded."""

    is_folded: bool
    rows: list[Row]


@require_safe
def edit(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    """Show the working copy of a draft. It begins with the first change."""
    chapter = get_chapter(session_id)
    number, draft = find_draft(chapter, draft_id)
    text = text_to_edit(draft)
    context = header_context(chapter, "chapter") | {
        "draft": draft,
        "number": number,
        "text": text,
        "seen_values": marks_of({_FIELD: text}),
        "copy": find_working_copy(draft),
        "limit": DRAFT_CHAR_LIMIT,
    }
    return show(request, "chapter/edit_draft.html", context)


@require_POST
def save(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    """Save the working copy while it is typed, unless another window has changed it since."""
    saved = _save(request, session_id, draft_id)
    if request.htmx:
        response = nothing_new()
        response[HEADER] = mark_of(saved)
        return response
    return HttpResponseRedirect(reverse("pages:edit-draft", args=[session_id, draft_id]))


@require_POST
def keep(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    """Store the working copy as another draft, and show it."""
    _save(request, session_id, draft_id)
    kept = keep_working_copy(session_id, draft_id)
    return go(request, _address(session_id, kept.pk))


@transaction.atomic
def _save(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> str:
    """Save the text of the form if it differs from the stored one, and return the text that is
    stored now."""
    lock_chapter(session_id)
    _, draft = find_draft(get_chapter(session_id), draft_id)
    stored = text_to_edit(draft)
    text = with_line_feeds(request.POST.get(_FIELD, stored))
    if text == stored:
        return stored
    fields, conflicts = Sent.read(request).to_save({_FIELD: stored})
    if conflicts:
        raise ChangedElsewhere(conflicts)
    if _FIELD not in fields:
        return stored
    return save_working_copy(session_id, draft_id, text).text


@require_POST
def discard(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    throw_away(session_id, draft_id)
    return go(request, _address(session_id, draft_id))


@require_POST
def choose(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    """Let this draft stand for the chapter in its story."""
    choose_draft(session_id, draft_id)
    return go(request, _address(session_id, draft_id))


@require_safe
def show_differences(
    request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID
) -> HttpResponse:
    """Show a draft beside the draft that `with` names, or beside its working copy."""
    chapter = get_chapter(session_id)
    number, draft = find_draft(chapter, draft_id)
    drafts = list(drafts_of(chapter))
    numbers = {one.pk: at for at, one in enumerate(drafts, 1)}
    copy = find_working_copy(draft)
    context: dict[str, Any] = header_context(chapter, "chapter") | {
        "draft": draft,
        "number": number,
        "others": [at for at in numbers.values() if at != number],
        "copy": copy,
    }
    if request.GET.get("with") == "copy" and copy is not None:
        check_length(draft)
        rows = compare(draft.chapter_text, copy.text)
        context |= {"old_name": f"Draft {number}", "new_name": "Working copy", "is_copy": True}
    else:
        before = numbers.get(draft.origin_id) if draft.origin_id else None
        other = number_up_to(len(drafts), request.GET.get("with", "")) or before
        other = other or (number - 1 if number > 1 else min(2, len(drafts)))
        old, new = sorted((other, number))
        rows = compare_drafts(drafts[old - 1], drafts[new - 1])
        context |= {"old_name": f"Draft {old}", "new_name": f"Draft {new}", "other": other}
    context |= {"groups": _grouped(rows), "is_same": all(row.is_same for row in rows)}
    return show(request, "chapter/differences.html", context)


def _grouped(rows: list[Row]) -> list[RowGroup]:
    groups = []
    for is_same, together in groupby(rows, key=lambda row: row.is_same):
        of_group = list(together)
        groups.append(RowGroup(is_same and len(of_group) > _SAME_SHOWN, of_group))
    return groups


def _address(session_id: uuid.UUID, draft_id: uuid.UUID) -> str:
    """Return the address of Tab 3 with this draft."""
    number, _ = find_draft(get_chapter(session_id), draft_id)
    page = reverse("pages:draft", args=[session_id], query={"draft": str(number)})
    return f"{page}#draft-label"
