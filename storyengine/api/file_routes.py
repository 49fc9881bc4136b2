"""Exports a chapter as a file, imports such a file, and forks a chapter."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Header, Router
from ninja.responses import Status

from storyengine.api.bodies import ForkBody
from storyengine.api.document_reading import answer_created
from storyengine.api.documents import SessionDocument
from storyengine.api.problems import READ, WRITE, refusals
from storyengine.api.story_routes import StoryDocument, read_story_document
from storyengine.exchange.chapter_file import ChapterFile
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_reading import check_size
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.story_exporting import export_story
from storyengine.exchange.story_file import StoryFile
from storyengine.exchange.story_importing import import_story
from storyengine.settings.import_limits import MAX_FILE_BYTES

router = Router(tags=["Chapters"])

ForkKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="At most 100 characters. Sent again under the same key it is the same fork: "
        "409 while that is being stored, and 409 for another number. "
        "Without a key each request makes a fork of its own.",
    ),
]

_FILE = {"$ref": "#/components/schemas/ChapterFile"}
_STORY_FILE = {"$ref": "#/components/schemas/StoryFile"}


@router.get("/session/{uuid:session_id}/export", response={200: ChapterFile, **READ})
def export_session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Return the chapter as a file that `POST /api/session/import` accepts, in this or another
    installation.

    The file has no model calls and no unfinished background work.
    """
    content = export_chapter(session_id).to_json()
    return HttpResponse(content, content_type="application/json")


@router.post(
    "/session/import",
    response={201: SessionDocument, **refusals(403, 413, 415, 422)},
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": _FILE}}, "required": True}
    },
)
def import_session(request: HttpRequest, response: HttpResponse) -> Status[SessionDocument]:
    """Import a chapter from an exported file, which may have up to 20,000,000 bytes. The chapter
    gets a new id.

    If the file is refused, nothing is stored.
    """
    return answer_created(import_chapter(_body(request)), response)


@router.get("/story/{uuid:story_id}/export", response={200: StoryFile, **READ})
def export_whole_story(request: HttpRequest, story_id: UUID) -> HttpResponse:
    """Return the story as a file that `POST /api/story/import` accepts, in this or another
    installation: each chapter as in its own export, and the relations of the chapters and their
    people. Deleted chapters are left out."""
    return HttpResponse(export_story(story_id).to_json(), content_type="application/json")


@router.post(
    "/story/import",
    response={201: StoryDocument, **refusals(403, 413, 415, 422)},
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": _STORY_FILE}}, "required": True}
    },
)
def import_whole_story(request: HttpRequest, response: HttpResponse) -> Status[StoryDocument]:
    """Import a story from an exported file, which may have up to 20,000,000 bytes and 200 chapters.
    All chapters get new ids, and no model is called.

    If the file is refused, nothing is stored.
    """
    story = import_story(_body(request))
    response["Location"] = reverse("api:get_story", args=[story.pk])
    return Status(201, read_story_document(story))


@router.post("/session/{uuid:session_id}/fork", response={201: SessionDocument, **WRITE})
def fork_session(
    request: HttpRequest,
    response: HttpResponse,
    session_id: UUID,
    body: ForkBody,
    idempotency_key: ForkKey = "",
) -> Status[SessionDocument]:
    """Create a copy of this chapter as it was after one of its turns. No model is called.

    The fork has the turns up to the named turn with all their committed attempts, and the memory
    and rulings up to this turn. It has no draft, no reply that is being written, and no broken
    reply. The tokens and dollars that this chapter has spent count towards the caps of the fork.
    The fork is kept when this chapter is deleted.
    """
    fork = fork_chapter(session_id, body.number, submission_key=idempotency_key)
    return answer_created(fork, response)


def _body(request: HttpRequest) -> bytes:
    """Return the body of an import. The body is read from the stream, because Django's
    `request.body` accepts only smaller bodies."""
    length = request.headers.get("Content-Length", "")
    if not length.isdecimal():
        return request.read(MAX_FILE_BYTES + 1)
    check_size(int(length))
    return request.read(int(length))
