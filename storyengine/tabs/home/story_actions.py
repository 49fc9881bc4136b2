"""The actions on a whole story."""

import uuid

from django.http import HttpResponse
from django.views.decorators.http import require_POST, require_safe

from agents.flows.beginning.next_chapter import begin_next, renew
from memory.before.story_so_far import keep_story_so_far
from memory.prose.drafts import drafts_of_story
from sessions.chapter.stories import (
    archive_story,
    get_story,
    hide_story,
    rename_story,
    restore_story,
    title_of,
)
from storyengine.books.book import book_of
from storyengine.books.sending import send_book
from storyengine.tabs.action_addresses import address_of, first_address, home
from storyengine.web.render import HttpRequest, go


@require_POST
def rename(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    rename_story(story_id, request.POST.get("title", ""))
    return go(request, home())


@require_POST
def archive(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    """Put the story away, or take it back."""
    archive_story(story_id, request.POST.get("is_archived") == "1")
    return go(request, home())


@require_POST
def delete(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    """Hide the story with all its chapters, and show the list of stories with a button that brings
    it back."""
    hide_story(story_id)
    return go(request, home(deleted=story_id))


@require_POST
def restore(request: HttpRequest, story_id: uuid.UUID, deleted_with: uuid.UUID) -> HttpResponse:
    """Bring back the chapters that were deleted together with this chapter."""
    restore_story(story_id, deleted_with)
    return go(request, home())


@require_POST
def next_chapter(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    """Begin the chapter that follows the last one of the story, and open its first tab."""
    return go(request, first_address(begin_next(story_id)))


@require_POST
def renew_before(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Bring the people's memory of the chapter before up to date."""
    return go(request, address_of(renew(session_id)))


@require_POST
def keep_before(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Take note that the chapter before has changed, and leave the people's memory as it is."""
    return go(request, address_of(keep_story_so_far(session_id)))


@require_safe
def download(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    """Return the prose of the story's chapters as one book."""
    story = get_story(story_id)
    book = book_of(story.pk, title_of(story), drafts_of_story(story))
    return send_book(book, request.GET.get("format", "txt"))
