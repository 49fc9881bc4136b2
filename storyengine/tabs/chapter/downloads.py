"""Downloads: the transcript, one draft as a book, or all texts of a chapter."""

import json
import uuid
from collections.abc import Sequence

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from memory.blocks.blocks import counting_blocks
from memory.models import MemoryBlock, NarrativeDraft
from memory.prose.drafts import find_draft
from memory.telling.rendering import readable_block
from sessions.chapter.access import get_chapter, read_at_one_moment
from sessions.models import Attempt, Session
from sessions.play.breaking import attempts_set_aside, pending_attempt
from sessions.record.transcript import read_transcript
from sessions.roster import SLOTS, Character
from storyengine.books.book import book_of
from storyengine.books.formats import TEXT, format_named
from storyengine.books.sending import send_book
from storyengine.books.transcripts import TRANSCRIPT_FORMATS, Play
from storyengine.web.files import file_stem, send_file
from storyengine.web.render import HttpRequest

_RULE = "=" * 72


@require_safe
def transcript(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    wanted = format_named(_asked_for(request), TRANSCRIPT_FORMATS)
    play = Play(chapter.title, read_transcript(chapter, limit=None))
    name = f"{file_stem(chapter.title)}-transcript.{wanted.suffix}"
    return send_file(name, wanted.write(play), wanted.media_type)


@require_safe
def draft(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    number, one = find_draft(chapter, draft_id)
    book = book_of(chapter.pk, chapter.title, [one])
    which = "" if chapter.narrative_drafts.count() == 1 else f"-draft-{number}"
    return send_book(book, _asked_for(request), which=which)


def _asked_for(request: HttpRequest) -> str:
    """Return the format that the address names. An address without a format names text."""
    return request.GET.get("format", "txt")


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
    content = "\n\n".join(parts) + "\n"
    return send_file(f"{file_stem(chapter.title)}-everything.txt", content.encode(), TEXT)


def _setup(chapter: Session) -> list[str]:
    tab1 = chapter.tab1
    own = {slot: chapter.private_text(slot) for slot in SLOTS}
    return [
        _part("World", tab1.world_text),
        _part("Chapter", tab1.chapter_text),
        *(
            _part(_agent_heading(slot, chapter), text)
            for slot, text in own.items()
            if text or slot in chapter.selected_agent_slots
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
