"""Stories: chapters in their order."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from django.db import transaction
from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Query, Router
from ninja.responses import Status
from pydantic import Field

from agents.flows.beginning.next_chapter import begin_next, renew
from memory.before.story_so_far import keep_story_so_far
from memory.prose.drafts import drafts_of_story
from memory.shelf.finding_stories import count_stories, find_stories
from memory.shelf.shelf_search import Search
from sessions.chapter.stories import (
    BY_PLACE,
    archive_story,
    chapters_of,
    get_story,
    hide_story,
    rename_story,
    restore_story,
    title_of,
)
from sessions.exceptions import InvalidInput
from sessions.limits import SEARCH_CHAR_LIMIT
from sessions.models import Session, Story
from storyengine.api.bodies import Body, NewChapterBody
from storyengine.api.book_files import BOOK_FILE, FormatName
from storyengine.api.document_reading import answer_created, read_session
from storyengine.api.documents import Document, SessionDocument, SessionSummary
from storyengine.api.problems import CALL, READ, WRITE, refusals
from storyengine.api.starter_routes import begin
from storyengine.books.book import book_of
from storyengine.books.sending import send_book

router = Router(tags=["Stories"])


class StoryBody(Body):
    """What to change. A field that is missing or null is not changed; at least one is needed."""

    title: str | None = Field(None, description="At most 120 characters, not empty.")
    is_archived: bool | None = Field(None, description="Put it away, or take it back.")


class StoryDocument(Document):
    """A story with its chapters in their order. At each place, the chosen chapter comes first."""

    story_id: UUID
    title: str = Field(description="That of the first chapter as long as it has none of its own.")
    created_at: datetime
    archived_at: datetime | None
    chapters: list[SessionSummary]


class StoryList(Document):
    count: int = Field(description="The exact number of all stories that were asked for.")
    items: list[StoryDocument]


@router.get("/story", response={200: StoryList, **refusals(422)})
def list_stories(
    request: HttpRequest,
    q: Annotated[str, Query(max_length=SEARCH_CHAR_LIMIT)] = "",
    state: Literal["", "setting-up", "in-play", "ended", "told", "archived"] = "",
    sort: Literal["", "title", "begun", "length"] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> StoryList:
    """List the stories, the most recently played one first.

    With `q`, only stories are listed that have a chapter with all of these words in its titles or
    texts. With `state`, only stories with a chapter in this state are listed. Archived stories are
    listed only with "archived".
    """
    search = Search(q)
    found = find_stories(search, state, sort, places=slice(offset, offset + limit))
    prefetch_related_objects(found, Prefetch("chapters", Session.objects.order_by(*BY_PLACE)))
    documents = [_document(story, list(story.chapters.all())) for story in found]
    return StoryList(count=count_stories(search, state, most=None), items=documents)


@router.post("/story", response={201: StoryDocument, **refusals(400, 403, 404, 413, 415, 422)})
def create_story(
    request: HttpRequest, response: HttpResponse, body: NewChapterBody | None = None
) -> Status[StoryDocument]:
    """Start a story with one chapter, as `POST /api/session` does. The body may be left out."""
    story = begin(body or NewChapterBody.model_construct()).story
    response["Location"] = reverse("api:get_story", args=[story.pk])
    return Status(201, read_story_document(story))


@router.get("/story/{uuid:story_id}", response={200: StoryDocument, **READ}, url_name="get_story")
def read_story(request: HttpRequest, story_id: UUID) -> StoryDocument:
    """Return the story with its chapters."""
    return read_story_document(get_story(story_id))


@router.patch("/story/{uuid:story_id}", response={200: StoryDocument, **WRITE})
@transaction.atomic
def change_story(request: HttpRequest, story_id: UUID, body: StoryBody) -> StoryDocument:
    """Change the story's title, archive the story or take it back, or do both. If one change is
    refused, neither is made."""
    if body.title is None and body.is_archived is None:
        raise InvalidInput("Neither a title nor is_archived was sent. Nothing was changed.")
    if body.title is not None:
        rename_story(story_id, body.title)
    if body.is_archived is not None:
        archive_story(story_id, body.is_archived)
    return read_story_document(get_story(story_id))


@router.delete("/story/{uuid:story_id}", response={204: None, **CALL})
def delete_story(request: HttpRequest, story_id: UUID) -> Status[None]:
    """Delete the story with all its chapters. They are hidden at once, can be brought back for a
    day, and are then removed for good."""
    hide_story(story_id)
    return Status(204, None)


@router.post("/story/{uuid:story_id}/restore", response={200: StoryDocument, **CALL})
def restore_whole_story(
    request: HttpRequest, story_id: UUID, deleted_with: UUID | None = None
) -> StoryDocument:
    """Bring back the story's latest deleted chapters, if they were deleted within the last day.
    With `deleted_with`, bring back the chapters that were deleted together with this chapter."""
    return read_story_document(restore_story(story_id, deleted_with))


@router.post("/story/{uuid:story_id}/chapter", response={201: SessionDocument, **CALL})
def create_next_chapter(
    request: HttpRequest, story_id: UUID, response: HttpResponse
) -> Status[SessionDocument]:
    """Begin the chapter that follows the last one of the story, with a copy of its world and cast.

    No model is called. When the new chapter is locked, each of its people remembers what the same
    person knew at the end of the chapter before.
    """
    return answer_created(begin_next(story_id), response)


@router.post("/session/{uuid:session_id}/before/renew", response={200: SessionDocument, **CALL})
def renew_before(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Bring this chapter's memory of the chapter before up to date, without a model.

    409 once the first prompt was sent, and if there is no chapter before any more.
    """
    return read_session(renew(session_id).pk)


@router.post("/session/{uuid:session_id}/before/keep", response={200: SessionDocument, **CALL})
def keep_before(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Take note of the changes of the chapter before, so that `before` lists only later changes.
    This chapter's memory is not changed."""
    return read_session(keep_story_so_far(session_id).pk)


@router.get(
    "/story/{uuid:story_id}/text",
    response={**READ, **refusals(409, 422)},
    openapi_extra=BOOK_FILE,
)
def get_story_text(
    request: HttpRequest,
    story_id: UUID,
    format: FormatName = "txt",  # noqa: A002 (the API's name of it)
) -> HttpResponse:
    """Return the prose of the story as a file to read: its title, the names of the cast and, for
    each place in the story, the chosen draft of the chosen chapter.

    409 while no chapter has a draft.
    """
    story = get_story(story_id)
    return send_book(book_of(story.pk, title_of(story), drafts_of_story(story)), format)


def read_story_document(story: Story) -> StoryDocument:
    return _document(story, list(chapters_of(story)))


def _document(story: Story, chapters: list[Session]) -> StoryDocument:
    return StoryDocument(
        story_id=story.pk,
        title=title_of(story, chapters),
        created_at=story.created_at,
        archived_at=story.archived_at,
        chapters=chapters,
    )
