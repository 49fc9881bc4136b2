"""The search for passages of a chapter."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from memory.recall.questions import Reader
from memory.recall.searching import Found, search
from sessions.chapter.access import get_chapter
from sessions.exceptions import InvalidInput
from sessions.limits import CANON_CHAR_LIMIT, MAX_AGENTS
from sessions.models import Session
from storyengine.api.documents import Document
from storyengine.api.problems import READ, refusals

router = Router(tags=["Play"])


class PieceDocument(Document):
    """A part of an excerpt."""

    text: str
    hit: bool = Field(description="Whether these are words that were searched for.")


class FoundDocument(Document):
    """A turn that was found, or an entry of memory."""

    session_id: UUID = Field(description="The chapter that has it: this one, or one before it.")
    chapter: str = Field(description="The title of that chapter.")
    prompt_index: int = Field(
        description="The number of the turn. For an entry of memory, the last prompt that it is "
        "about, or 0 if the lock says it."
    )
    text: str = Field(
        description="The prompt and its replies, as the transcript has them. An entry of memory "
        'begins with "Memory" and its prompts, and what an earlier chapter has with its title.'
    )
    excerpt: list[PieceDocument] = Field(
        description="The part of it around the first words that were searched for, in one line."
    )
    score: float = Field(description="How well it fits. Compare it only within one answer.")


class SearchDocument(Document):
    """The turns and the entries of memory that the words are about."""

    session_id: UUID
    results: list[FoundDocument] = Field(
        description="Those that have all words as they were typed, and then the others, each best "
        "first; of equals, the earlier first."
    )


@router.get(
    "/session/{uuid:session_id}/search", response={200: SearchDocument, **READ, **refusals(422)}
)
def search_session(
    request: HttpRequest,
    session_id: UUID,
    q: Annotated[str, Query(min_length=1, max_length=CANON_CHAR_LIMIT)],
    slot: Annotated[int | None, Query(ge=1, le=MAX_AGENTS)] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    thoughts: bool = False,
) -> SearchDocument:
    """Find the turns and the entries of memory that the words of `q` are about, without a model. No
    sign in `q` has a meaning, and marks of letters may be left out. If a prompt and a line of
    memory say the same, only the turn is found.

    With `slot`, a passage is found only if this character witnessed it or may know it. With
    `thoughts`, thoughts are found too. Replies that are not chosen are never found, nor are facts
    that the Game Master withdrew from memory. The earlier chapters that this chapter follows are
    searched too, for turns and events: with `slot`, for those that the same person witnessed.
    """
    chapter = get_chapter(session_id)
    if slot is not None and slot not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {slot} in this chapter. Nothing was searched.")
    readers = None if slot is None else (slot,)
    found = search(Reader(chapter, readers, with_thoughts=thoughts), q, limit)
    return SearchDocument(
        session_id=chapter.pk,
        results=[_document(one, chapter) for one in found],
    )


def _document(found: Found, searched: Session) -> FoundDocument:
    passage = found.passage
    chapter = passage.earlier or searched
    return FoundDocument(
        session_id=chapter.pk,
        chapter=chapter.title,
        prompt_index=passage.prompt_index,
        text=passage.text,
        excerpt=[PieceDocument(text=one.text, hit=one.is_hit) for one in found.excerpt],
        score=round(passage.score, 6),
    )
