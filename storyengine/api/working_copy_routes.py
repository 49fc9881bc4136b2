"""Working copies of drafts, the choice of a draft for a chapter, and the differences of two
drafts."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router
from ninja.responses import Status
from pydantic import Field

from memory.models import NarrativeDraft, WorkingCopy
from memory.prose.drafts import choose_draft, drafts_of, find_choice, find_draft, forget_choice
from memory.prose.editing.differences import Row, compare_drafts
from memory.prose.editing.working_copies import (
    get_working_copy,
    keep_working_copy,
    save_working_copy,
    throw_away,
)
from sessions.chapter.access import get_chapter
from storyengine.api.bodies import Body
from storyengine.api.documents import Document, NarrativeDraftDocument
from storyengine.api.draft_routes import get_chosen_draft
from storyengine.api.problems import CALL, READ, WRITE, refusals

router = Router(tags=["Drafts"])

_DRAFT = "/session/{uuid:session_id}/drafts/{uuid:draft_id}"
_CHOSEN = "/session/{uuid:session_id}/chosen-draft"


class WorkingCopyBody(Body):
    text: str = Field(description="The whole text; at most 200,000 characters.")


class ChosenDraftBody(Body):
    draft_id: UUID = Field(strict=False)


class WorkingCopyDocument(Document):
    """The text of a draft that is being edited."""

    session_id: UUID
    draft_id: UUID
    text: str
    saved_at: datetime


class ChosenDraftDocument(Document):
    """The draft that stands for the chapter in its story."""

    session_id: UUID
    draft_id: UUID
    is_explicit: bool = Field(
        description="Whether somebody chose it. Otherwise it is the newest draft, and the next one "
        "takes its place."
    )


class PartDocument(Document):
    change: Literal["same", "removed", "added"]
    text: str


class RowDocument(Document):
    """A paragraph of the older draft beside its new form in the newer draft."""

    old: int | None = Field(description="The number of the paragraph; null where it has none.")
    new: int | None
    parts: list[PartDocument]


class DifferencesDocument(Document):
    session_id: UUID
    old_draft_id: UUID
    new_draft_id: UUID
    rows: list[RowDocument]


@router.get(f"{_DRAFT}/working-copy", response={200: WorkingCopyDocument, **READ})
def read_working_copy(request: HttpRequest, session_id: UUID, draft_id: UUID) -> WorkingCopy:
    """Return the working copy of a draft. 404 while there is none."""
    return get_working_copy(session_id, draft_id)


@router.put(f"{_DRAFT}/working-copy", response={200: WorkingCopyDocument, **WRITE})
def put_working_copy(
    request: HttpRequest, session_id: UUID, draft_id: UUID, body: WorkingCopyBody
) -> WorkingCopy:
    """Save a working copy of a draft, in place of an earlier working copy. The draft stays as it
    is."""
    return save_working_copy(session_id, draft_id, body.text)


@router.delete(f"{_DRAFT}/working-copy", response={204: None, **CALL})
def delete_working_copy(request: HttpRequest, session_id: UUID, draft_id: UUID) -> Status[None]:
    """Throw the working copy of a draft away, if there is one. The draft stays as it is."""
    throw_away(session_id, draft_id)
    return Status(204, None)


@router.post(f"{_DRAFT}/working-copy/keep", response={201: NarrativeDraftDocument, **CALL})
def keep_the_working_copy(
    request: HttpRequest, session_id: UUID, draft_id: UUID
) -> Status[NarrativeDraft]:
    """Store the working copy as another draft, whose `origin_id` is the draft that was edited, and
    remove the working copy.

    Paragraphs that stayed as they were keep their receipts. If the draft was the chosen one, the
    new draft becomes the chosen one. 409 if there is nothing to keep.
    """
    kept = keep_working_copy(session_id, draft_id)
    return Status(201, drafts_of(get_chapter(session_id)).get(pk=kept.pk))


@router.get(_CHOSEN, response={200: ChosenDraftDocument, **READ, **refusals(409)})
def read_chosen_draft(request: HttpRequest, session_id: UUID) -> ChosenDraftDocument:
    """Return the draft that stands for the chapter in its story. 409 while there is no draft."""
    chapter = get_chapter(session_id)
    draft = get_chosen_draft(chapter)
    is_explicit = find_choice(chapter) is not None
    return ChosenDraftDocument(session_id=chapter.pk, draft_id=draft.pk, is_explicit=is_explicit)


@router.put(_CHOSEN, response={200: ChosenDraftDocument, **WRITE})
def put_chosen_draft(
    request: HttpRequest, session_id: UUID, body: ChosenDraftBody
) -> ChosenDraftDocument:
    """Choose the draft that stands for the chapter in its story. It remains the chosen one when
    another draft is built."""
    choose_draft(session_id, body.draft_id)
    return ChosenDraftDocument(session_id=session_id, draft_id=body.draft_id, is_explicit=True)


@router.delete(_CHOSEN, response={204: None, **CALL})
def delete_chosen_draft(request: HttpRequest, session_id: UUID) -> Status[None]:
    """Let the newest draft stand for the chapter in its story again."""
    forget_choice(session_id)
    return Status(204, None)


@router.get(
    f"{_DRAFT}/differences/{{uuid:new_draft_id}}",
    response={200: DifferencesDocument, **READ, **refusals(422)},
)
def get_differences(
    request: HttpRequest, session_id: UUID, draft_id: UUID, new_draft_id: UUID
) -> DifferencesDocument:
    """Compare a draft with another one of the same chapter, paragraph by paragraph and word by
    word. The space between paragraphs is not compared. The comparison takes a few seconds at most:
    words that are not compared by then are shown as removed and added."""
    chapter = get_chapter(session_id)
    _, old = find_draft(chapter, draft_id)
    _, new = find_draft(chapter, new_draft_id)
    return DifferencesDocument(
        session_id=chapter.pk,
        old_draft_id=old.pk,
        new_draft_id=new.pk,
        rows=[_row(one) for one in compare_drafts(old, new)],
    )


def _row(row: Row) -> RowDocument:
    parts = [PartDocument(change=one.change.value, text=one.text) for one in row.parts]
    return RowDocument(old=row.old, new=row.new, parts=parts)
