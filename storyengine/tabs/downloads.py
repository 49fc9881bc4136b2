"""Downloads of texts: the transcript, one draft, or all texts of a chapter."""

import json
import uuid
from collections.abc import Sequence

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from memory.blocks import counting_blocks
from memory.drafts import find_draft
from memory.models import MemoryBlock, NarrativeDraft
from memory.telling.rendering import readable_block
from sessions.access import get_chapter, read_at_one_moment
from sessions.attempts import attempts_set_aside, pending_attempt
from sessions.models import Attempt, Session
from sessions.roster import SLOTS, Character
from sessions.transcript import read_transcript
from storyengine.web.render import HttpRequest

_RULE = "=" * 72


@require_safe
def transcript(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    return _text_file(chapter, "transcript", read_transcript(chapter, limit=None).plain_text)


@require_safe
def draft(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    number, one = find_draft(chapter, draft_id)
    is_only_one = chapter.narrative_drafts.count() == 1
    return _text_file(chapter, "" if is_only_one else f"draft-{number}", one.chapter_text)


@require_safe
def everything(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Return a file with the setup, the transcript, the memory and the drafts, for people to
    read."""
    return read_at_one_moment(session_id, _everything)


def _everything(chapter: Session) -> HttpResponse:
    blocks, roster = counting_blocks(chapter), chapter.characters
    drafts = chapter.narrative_drafts.order_by("created_at")
    parts = [
        chapter.title,
        f"{chapter.get_state_display()}, {chapter.prompt_index} prompts",
        *_setup(chapter),
        _part("Transcript", read_transcript(chapter, limit=None).plain_text),
        *_unsent(chapter),
        *(_part(f"Memory: {_block_name(block, roster)}", _exact_json(block)) for block in blocks),
        _part("Narrative instructions", chapter.narrative_agent_definition_text),
        *(_draft_part(number, one) for number, one in enumerate(drafts, start=1)),
    ]
    return _text_file(chapter, "everything", "\n\n".join(parts))


def _setup(chapter: Session) -> list[str]:
    tab1 = chapter.tab1
    identities = chapter.agent_texts("identity_text")
    return [
        _part("World", tab1.world_text),
        _part("Chapter", tab1.chapter_text),
        *(
            _part(_agent_heading(slot, chapter), identities.get(str(slot), ""))
            for slot in SLOTS
            if slot in chapter.selected_agent_slots or identities.get(str(slot))
        ),
    ]


def _agent_heading(slot: int, chapter: Session) -> str:
    one = chapter.character(slot)
    absent = "" if slot in chapter.selected_agent_slots else ", not in this chapter"
    return f"Agent {slot} ({one.color}): {one.name}{absent}"


def _unsent(chapter: Session) -> list[str]:
    """Return the prompts that are in flight, broken or set aside. The transcript does not have
    their words."""
    pending = pending_attempt(chapter)
    attempts = [*attempts_set_aside(chapter), *([pending] if pending else [])]
    return [
        _part(
            _unsent_heading(attempt, chapter), f"{attempt.words}\n\n{attempt.partial_text}".strip()
        )
        for attempt in attempts
    ]


def _unsent_heading(attempt: Attempt, chapter: Session) -> str:
    to = "" if attempt.actor is None else f" to {chapter.character(attempt.actor).name}"
    return f"A prompt{to} that was not answered"


def _draft_part(number: int, one: NarrativeDraft) -> str:
    return _part(f"Draft {number}, {one.created_at:%Y-%m-%d %H:%M} UTC", one.chapter_text)


def _part(heading: str, text: str) -> str:
    return f"{_RULE}\n{heading}\n{_RULE}\n\n{text or '(empty)'}"


def _block_name(block: MemoryBlock, roster: Sequence[Character]) -> str:
    readable = readable_block(block, roster)
    return ", ".join(filter(None, (readable.title, readable.badge)))


def _exact_json(block: MemoryBlock) -> str:
    return json.dumps(block.json_payload, ensure_ascii=False, indent=2)


def file_stem(chapter: Session) -> str:
    """Return the chapter's title in a form that can begin the name of a file."""
    return slugify(chapter.title, allow_unicode=True)[:60].strip("-") or "chapter"


def _text_file(chapter: Session, kind: str, text: str) -> HttpResponse:
    stem = file_stem(chapter)
    name = f"{stem}-{kind}.txt" if kind else f"{stem}.txt"
    response = HttpResponse(text + "\n", content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
