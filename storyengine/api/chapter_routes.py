"""Chapters, and the texts that the GM writes into them."""

from typing import Annotated, Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router
from ninja.responses import Status

from agents.flows.beginning.next_chapter import reset_and_hand_on
from agents.flows.replies.warmup import warm_next_reply
from agents.modes.fields import change_mode_setup, save_mode_setup, setup_of
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import (
    SetupChange,
    choose_language,
    choose_reply_length,
    copy_setup,
    rename_chapter,
    save_narrative_agent,
    save_setup,
)
from sessions.chapter.stories import hide_chapter, restore_chapter
from sessions.exceptions import InvalidInput
from sessions.roster import CAST_TEXTS
from storyengine.api.bodies import ChapterBody, NarrativeAgentBody, NewChapterBody, Tab1Body
from storyengine.api.document_reading import answer_created, read_session, read_sessions
from storyengine.api.documents import (
    NarrativeAgentDocument,
    SessionDocument,
    SessionList,
    Tab1Document,
    tab1_document,
)
from storyengine.api.preconditions import (
    IfMatch,
    check_match,
    check_values_match,
    lock_for_change,
    tag_of,
    tag_of_values,
)
from storyengine.api.problems import CALL, READ, WRITE, refusals
from storyengine.api.starter_routes import begin

router = Router(tags=["Chapters"])

_SETUP = "/session/{uuid:session_id}/setup"


@router.get("/session", response={200: SessionList, **refusals(422)})
def list_sessions(
    request: HttpRequest,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> SessionList:
    """List the chapters, the most recently played chapter first."""
    return read_sessions(limit=limit, offset=offset)


@router.post("/session", response={201: SessionDocument, **refusals(400, 403, 404, 413, 415, 422)})
async def create_session(
    request: HttpRequest, response: HttpResponse, body: NewChapterBody | None = None
) -> Status[SessionDocument]:
    """Start a chapter, either an empty one or one from a starter. The body may be left out."""
    asked = body or NewChapterBody.model_construct()
    chapter = await sync_to_async(begin)(asked)
    if chapter.prompt_index:
        await warm_next_reply(chapter.pk)
    return await sync_to_async(answer_created)(chapter, response)


@router.get("/session/{uuid:session_id}", response={200: SessionDocument, **READ, **refusals(422)})
def get_session(request: HttpRequest, session_id: UUID, thoughts: bool = False) -> SessionDocument:
    """Return a whole chapter: state, setup, events, memory, drafts, the pending turn and the jobs.

    With `thoughts`, the events include thoughts.
    """
    return read_session(session_id, with_thoughts=thoughts)


@router.patch("/session/{uuid:session_id}", response={200: SessionDocument, **WRITE})
@transaction.atomic
def change_session(request: HttpRequest, session_id: UUID, body: ChapterBody) -> SessionDocument:
    """Change the chapter's title, the length of its replies or the language of its story. If one
    value is refused, no value is changed. All three can be changed in play too."""
    if body.title is None and body.reply_length is None and body.language is None:
        raise InvalidInput("No title, reply_length or language was sent. Nothing was changed.")
    if body.title is not None:
        rename_chapter(session_id, body.title)
    if body.reply_length is not None:
        choose_reply_length(session_id, body.reply_length)
    if body.language is not None:
        choose_language(session_id, body.language)
    return read_session(session_id)


@router.delete("/session/{uuid:session_id}", response={204: None, **CALL})
def delete_session(request: HttpRequest, session_id: UUID) -> Status[None]:
    """Delete the chapter with everything that belongs to it. It is hidden at once, can be brought
    back for a day, and is then removed for good. Its forks are kept."""
    hide_chapter(session_id)
    return Status(204, None)


@router.post("/session/{uuid:session_id}/restore", response={200: SessionDocument, **CALL})
def restore_session(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Bring back a chapter that was deleted within the last day."""
    return read_session(restore_chapter(session_id).pk)


@router.post("/session/{uuid:session_id}/reset", response={201: SessionDocument, **CALL})
def reset_session(
    request: HttpRequest, session_id: UUID, response: HttpResponse
) -> Status[SessionDocument]:
    """Delete the chapter with all its texts, and create an empty chapter under a new id. The forks
    of the deleted chapter are kept."""
    return answer_created(reset_and_hand_on(session_id), response)


@router.post("/session/{uuid:session_id}/copy", response={201: SessionDocument, **CALL})
def copy_session(
    request: HttpRequest, session_id: UUID, response: HttpResponse
) -> Status[SessionDocument]:
    """Create a chapter with a copy of this chapter's Tab 1."""
    return answer_created(copy_setup(session_id), response)


@router.get("/session/{uuid:session_id}/tab1", response={200: Tab1Document, **READ})
def get_tab1(request: HttpRequest, session_id: UUID, response: HttpResponse) -> Tab1Document:
    """Return the texts that the GM wrote on Tab 1. The header ETag is for `If-Match`."""
    document = tab1_document(get_chapter(session_id))
    response["ETag"] = tag_of(document)
    return document


@router.put(
    "/session/{uuid:session_id}/tab1", response={200: Tab1Document, **WRITE, **refusals(412)}
)
@transaction.atomic
def put_tab1(
    request: HttpRequest,
    session_id: UUID,
    response: HttpResponse,
    body: Tab1Body,
    if_match: IfMatch = "",
) -> Tab1Document:
    """Save the fields of Tab 1 in the body. If one field is refused, no field is saved. With
    `If-Match`, nothing is saved if somebody has changed Tab 1 since it was read. In play, only the
    open fields of the way to play, in `setup`, can be changed."""
    lock_for_change(session_id)
    check_match(if_match, tab1_document(get_chapter(session_id)))
    setup, fields = body.setup, body.model_dump(exclude={"setup"}, exclude_none=True)
    names = {one.name: one.api_name for one in CAST_TEXTS if one.api_name in fields}
    texts = {name: fields.pop(api_name) for name, api_name in names.items()}
    change = SetupChange(**fields, texts=texts)
    if setup is None or change != SetupChange():
        save_setup(session_id, change)
    if setup is not None:
        change_mode_setup(session_id, setup)
    document = tab1_document(get_chapter(session_id))
    response["ETag"] = tag_of(document)
    return document


@router.get(_SETUP, response={200: dict[str, Any], **CALL})
def get_setup(request: HttpRequest, session_id: UUID, response: HttpResponse) -> dict[str, Any]:
    """Return the fields that the chapter's mode adds to Tab 1. If the mode adds none, the answer is
    empty. The header ETag is for `If-Match`."""
    setup = _setup_of(session_id)
    response["ETag"] = tag_of_values(setup)
    return setup


@router.put(_SETUP, response={200: dict[str, Any], **WRITE, **refusals(412)})
@transaction.atomic
def put_setup(
    request: HttpRequest,
    session_id: UUID,
    response: HttpResponse,
    body: Annotated[dict[str, Any], Body()],
    if_match: IfMatch = "",
) -> dict[str, Any]:
    """Save the fields that the chapter's mode adds to Tab 1.

    They can be saved until the chapter is locked, or until the first prompt if the mode has no
    lock. A field that is left out gets its default. With `If-Match`, nothing is saved if somebody
    has changed a field since it was read. In play, only fields that the mode leaves open may
    differ.
    """
    lock_for_change(session_id)
    check_values_match(if_match, _setup_of(session_id))
    save_mode_setup(session_id, body)
    return get_setup(request, session_id, response)


@router.patch(_SETUP, response={200: dict[str, Any], **WRITE, **refusals(412)})
@transaction.atomic
def patch_setup(
    request: HttpRequest,
    session_id: UUID,
    response: HttpResponse,
    body: Annotated[dict[str, Any], Body()],
    if_match: IfMatch = "",
) -> dict[str, Any]:
    """Save some of the fields that the chapter's mode adds to Tab 1, and leave the others as they
    are.

    The fields that the mode leaves open can be saved in play too; the change counts from the next
    attempt. In an exploration these fields are `note`, `talk`, `lorebook` and `output_rules`.
    """
    lock_for_change(session_id)
    check_values_match(if_match, _setup_of(session_id))
    change_mode_setup(session_id, body)
    return get_setup(request, session_id, response)


def _setup_of(session_id: UUID) -> dict[str, Any]:
    setup = setup_of(get_chapter(session_id))
    return setup.model_dump(mode="json") if setup else {}


@router.put(
    "/session/{uuid:session_id}/narrative-agent",
    response={200: NarrativeAgentDocument, **WRITE},
)
def put_narrative_agent(
    request: HttpRequest, session_id: UUID, body: NarrativeAgentBody
) -> NarrativeAgentDocument:
    """Save the instructions to the narrator and the length of the narrative."""
    chapter = save_narrative_agent(
        session_id,
        definition_text=body.narrative_agent_definition_text,
        target_words=body.target_words,
    )
    return NarrativeAgentDocument.model_validate(chapter)
