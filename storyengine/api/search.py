"""The search for passages of a chapter."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from memory.recalling import Reader, recall
from sessions.access import get_chapter
from sessions.exceptions import InvalidInput
from sessions.limits import CANON_CHAR_LIMIT, MAX_AGENTS
from storyengine.api.documents import Document
from storyengine.api.problems import READ, refusals

router = Router(tags=["Play"])


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
    score: float = Field(description="How well it fits. Compare it only within one answer.")


class SearchDocument(Document):
    """The turns and the entries of memory that the words are about."""

    session_id: UUID
    results: list[FoundDocument] = Field(description="Best first; of equals, the earlier first.")


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
    sign in `q` has a meaning.

    With `slot`, only what this character witnessed and may know is found. With `thoughts`, thoughts
    are found too. Replies that are not chosen are never found, and neither is what the Game Master
    withdrew from memory. Of the chapters that this one came from, turns and events are found: with
    `slot`, those that the same person witnessed there.
    """
    chapter = get_chapter(session_id)
    if slot is not None and slot not in chapter.selected_agent_slots:
        raise InvalidInput(f"There is no agent {slot} in this chapter. Nothing was searched.")
    readers = None if slot is None else (slot,)
    passages = recall(Reader(chapter, readers, with_thoughts=thoughts), q, limit)
    return SearchDocument(
        session_id=chapter.pk,
        results=[
            FoundDocument(
                session_id=(one.earlier or chapter).pk,
                chapter=(one.earlier or chapter).title,
                prompt_index=one.prompt_index,
                text=one.text,
                score=round(one.score, 6),
            )
            for one in passages
        ],
    )
