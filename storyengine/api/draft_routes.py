"""The drafts of a chapter: their texts as files, and the prompts that their paragraphs tell."""

from typing import Annotated, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import Field

from agents.exceptions import ModelNotReady
from agents.flows.telling.rebuilding import estimate_rebuild
from memory.models import NarrativeDraft
from memory.prose.drafts import chosen_draft, find_draft, last_prompt_of
from memory.prose.receipts.draft_receipts import Receipt, SceneReceipts, read_receipts
from sessions.chapter.access import get_chapter
from sessions.exceptions import WrongState
from sessions.models import Session
from storyengine.api.book_files import BOOK_FILE, FormatName
from storyengine.api.documents import CallsEstimateDocument, Document, PromptRange
from storyengine.api.problems import READ, refusals
from storyengine.books.book import book_of
from storyengine.books.sending import send_book

router = Router(tags=["Drafts"])


class ParagraphDocument(Document):
    number: int = Field(description="Counted from 1, headings and breaks included.")
    start: int = Field(description="The place of its first character in `chapter_text`.")
    kind: Literal["prose", "heading", "break"]
    text: str
    prompts: list[int] = Field(description="The prompts that it tells; empty where none is found.")
    confidence: Literal["certain", "likely", "unsure", "invented"] | None = Field(
        description="How sure that is. `invented`: it tells no prompt. Null for headings and "
        "breaks."
    )


class EventDocument(Document):
    text: str
    prompts: list[PromptRange] = Field(
        description="The prompts from which it comes; where memory names none, those of its block."
    )


class SceneDocument(Document):
    number: int
    first_prompt: int
    last_prompt: int
    target_words: int
    paragraphs: list[ParagraphDocument]
    prompts_not_told: list[int]
    events_not_told: list[EventDocument] = Field(description="Events of memory, in its words.")


class ReceiptsDocument(Document):
    """A draft, with the prompts that each paragraph tells, and the prompts that no paragraph
    tells."""

    session_id: UUID
    draft_id: UUID
    last_prompt: int = Field(description="The last prompt that the draft tells; 0 if not known.")
    has_scenes: bool = Field(
        description="False where scenes are not recorded; `scenes` is then the whole draft."
    )
    scenes: list[SceneDocument]


@router.get(
    "/session/{uuid:session_id}/text",
    response={**READ, **refusals(409, 422)},
    openapi_extra=BOOK_FILE,
)
def get_text(
    request: HttpRequest,
    session_id: UUID,
    format: FormatName = "txt",  # noqa: A002 (the API's name of it)
    draft: Annotated[UUID | None, Query(description="The chosen one if it is left out.")] = None,
) -> HttpResponse:
    """Return a draft as a file to read: the chapter's title, the names of its cast, and the prose.

    409 while there is no draft.
    """
    chapter = get_chapter(session_id)
    told = find_draft(chapter, draft)[1] if draft else get_chosen_draft(chapter)
    return send_book(book_of(chapter.pk, chapter.title, [told]), format)


@router.get(
    "/session/{uuid:session_id}/drafts/{uuid:draft_id}/receipts",
    response={200: ReceiptsDocument, **READ},
)
def get_receipts(request: HttpRequest, session_id: UUID, draft_id: UUID) -> ReceiptsDocument:
    """Return the prompts that each paragraph of a draft tells, and the parts of each scene's
    prompts that no paragraph tells. The program compares the words; no model is called."""
    chapter = get_chapter(session_id)
    _, draft = find_draft(chapter, draft_id)
    receipts = read_receipts(chapter, draft)
    return ReceiptsDocument(
        session_id=chapter.pk,
        draft_id=draft.pk,
        last_prompt=last_prompt_of(draft),
        has_scenes=receipts.has_scenes,
        scenes=[_scene(one) for one in receipts.scenes],
    )


@router.get(
    "/session/{uuid:session_id}/drafts/{uuid:draft_id}/scenes/{int:number}/rebuild-estimate",
    response={200: CallsEstimateDocument, **READ, **refusals(409, 422)},
)
def get_rebuild_estimate(
    request: HttpRequest, session_id: UUID, draft_id: UUID, number: int
) -> CallsEstimateDocument:
    """Estimate the model call that writes a scene again, on the assumption that the scene does not
    come out too short. For the estimate itself, no model is called."""
    try:
        estimate = estimate_rebuild(get_chapter(session_id), draft_id, number)
    except ModelNotReady as error:
        raise WrongState(str(error)) from error
    return CallsEstimateDocument.model_validate(estimate)


def get_chosen_draft(chapter: Session) -> NarrativeDraft:
    """Return the chosen draft. Raises WrongState if there is no draft."""
    chosen = chosen_draft(chapter)
    if chosen is None:
        raise WrongState("There is no draft yet. POST …/build-narrative has one written.")
    return chosen


def _scene(scene: SceneReceipts) -> SceneDocument:
    return SceneDocument(
        number=scene.number,
        first_prompt=scene.first,
        last_prompt=scene.last,
        target_words=scene.target_words,
        paragraphs=[_paragraph(one) for one in scene.receipts],
        prompts_not_told=list(scene.untold_prompts),
        events_not_told=[EventDocument.model_validate(one) for one in scene.untold_events],
    )


def _paragraph(receipt: Receipt) -> ParagraphDocument:
    told, match = receipt.paragraph, receipt.match
    return ParagraphDocument(
        number=told.number,
        start=told.start,
        kind=told.kind.value,
        text=told.text,
        prompts=list(receipt.prompts),
        confidence=None if match is None else match.confidence.value,
    )
