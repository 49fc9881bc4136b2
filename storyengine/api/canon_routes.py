"""The present state of memory, and the GM's rulings about it."""

from uuid import UUID

from django.http import HttpRequest
from ninja import Router
from ninja.responses import Status

from memory.canon.corrections import write_answer, write_correction
from memory.canon.ruling_payloads import Answer
from memory.fold.folding import fold_chapter
from memory.telling.now_view import now_view
from sessions.chapter.access import get_chapter
from storyengine.api.bodies import AnswerBody, CorrectionBody
from storyengine.api.documents import MemoryBlockDocument, NowDocument, NowSectionDocument
from storyengine.api.problems import READ, WRITE

router = Router(tags=["Canon"])


@router.get("/session/{uuid:session_id}/now", response={200: NowDocument, **READ})
def get_now(request: HttpRequest, session_id: UUID) -> NowDocument:
    """Return the present state of the chapter, folded from its memory without a model."""
    chapter = get_chapter(session_id)
    sections = now_view(fold_chapter(chapter), chapter.characters)
    return NowDocument(
        session_id=chapter.pk,
        prompt_index=chapter.prompt_index,
        last_summarized_prompt_index=chapter.last_summarized_prompt_index,
        sections=[NowSectionDocument.model_validate(section) for section in sections],
    )


@router.post(
    "/session/{uuid:session_id}/canon-correction", response={201: MemoryBlockDocument, **WRITE}
)
def correct_canon(
    request: HttpRequest, session_id: UUID, body: CorrectionBody
) -> Status[MemoryBlockDocument]:
    """Rule which fact is true. The ruling is stored as a memory block, and overrides everything
    else that memory says about the fact.

    If the latest ruling is the same, no block is added.
    """
    block = write_correction(session_id, **dict(body))
    return Status(201, MemoryBlockDocument.model_validate(block))


@router.post("/session/{uuid:session_id}/answer", response={201: MemoryBlockDocument, **WRITE})
def answer_question(
    request: HttpRequest, session_id: UUID, body: AnswerBody
) -> Status[MemoryBlockDocument]:
    """Settle a contradiction that memory reports. The section `questions` of `now` lists the
    contradictions.

    `keep` makes `old` canon and withdraws `new`. `take_new` makes `new` canon and withdraws `old`.
    `ignore` changes no canon. Without `old` and `new`, `keep` changes no canon either. `take_new`
    needs `new`, and is refused if it would not change canon. Its `old` must be the `replaces` of an
    item of `now`, or empty. If the latest answer is the same, no block is added.
    """
    block = write_answer(
        session_id,
        body.question,
        Answer(body.answer),
        old=body.old,
        new=body.new,
        reason=body.reason,
        readers=body.readers,
    )
    return Status(201, MemoryBlockDocument.model_validate(block))
