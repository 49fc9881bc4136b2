"""Pages about model calls: the requests that models were sent, the request that would be sent next,
and the tokens that were used."""

import uuid
from dataclasses import dataclass

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.records.call_records import (
    CallRecord,
    CallsBehind,
    calls_behind_block,
    calls_behind_draft,
    calls_behind_prompt,
    read_sent_prompt,
)
from agents.calling.records.usage import inherited_usage, total_of, usage_by_agent
from agents.calling.spending import inherited_spending
from agents.flows.replies.dry_run import look_ahead
from agents.flows.replies.layers_to_try import why_not_tried
from memory.blocks.blocks import counting_blocks
from memory.models import MemoryBlock
from memory.prose.drafts import find_draft
from memory.telling.block_kinds import ENGINE_BLOCK_KINDS
from memory.telling.rendering import readable_block
from sessions.chapter.access import get_chapter
from sessions.exceptions import UnknownChapter
from sessions.models import DEFAULT_MODE, Session
from storyengine.tabs.play.play_tab import read_given
from storyengine.tabs.play.reply_streams import read_actor
from storyengine.web.header import header_context
from storyengine.web.render import HttpRequest, show


@dataclass(frozen=True)
class Subject:
    """A text whose model calls a page shows, and the tab that has the text."""

    title: str
    tab: str
    # The message of the page if no call of the text is recorded.
    no_calls: str = "No model call is recorded for it."
    # The address of the origin's page, if the text came with a fork and the origin still exists.
    origin: str = ""
    # For a reply, the number of its prompt, and the reason why the reply cannot be tried again, or
    # "" if it can.
    prompt_index: int = 0
    why_not_tried: str = ""

    @property
    def page_class(self) -> str:
        return "page-grey" if self.tab == "play" else "page-white"

    @property
    def back_name(self) -> str:
        return "pages:play" if self.tab == "play" else "pages:draft"

    @property
    def back_label(self) -> str:
        return "Back to play" if self.tab == "play" else "Back to the chapter"


@require_safe
def show_prompt(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    chapter = get_chapter(session_id)
    behind = calls_behind_prompt(chapter, number)
    came_with, is_of_origin = _why_no_calls(chapter, "reply", number)
    if behind.came_with_starter:
        came_with, is_of_origin = _of_starter(chapter, "reply"), False
    subject = Subject(
        f"The reply to prompt {number}",
        "play",
        came_with,
        reverse("pages:prompt-calls", args=[chapter.shown_origin_id, number])
        if is_of_origin
        else "",
        prompt_index=number,
        why_not_tried=why_not_tried(chapter, number, behind),
    )
    return _show_calls(request, chapter, subject, behind)


@require_safe
def show_block(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Show the calls that wrote a memory block. `number` is the block's place among the blocks that
    count. The first block has the number 1."""
    chapter = get_chapter(session_id)
    # Only the keys of the blocks are read here, because a long chapter has hundreds of blocks.
    keys = list(counting_blocks(chapter).values_list("pk", flat=True))
    if not 1 <= number <= len(keys):
        raise UnknownChapter("There is no such piece of memory in this chapter.")
    block = chapter.memory_blocks.get(pk=keys[number - 1])
    title = readable_block(block, chapter.characters).title
    reason, is_of_origin = _why_no_calls(chapter, "memory", block.to_prompt_index)
    if block.came_with_starter:
        reason, is_of_origin = _of_starter(chapter, "memory"), False
    elif block.type == MemoryBlock.Type.CANON_CORRECTION:
        reason = "You wrote it yourself: no model was asked."
    elif block.type not in ENGINE_BLOCK_KINDS:
        reason = (
            f"The program made it of the reply to prompt {block.to_prompt_index}, for which no "
            "model call is recorded."
        )
    origin = reverse("pages:draft", args=[chapter.shown_origin_id]) if is_of_origin else ""
    subject = Subject(f"Memory: {title}", "chapter", reason, origin)
    return _show_calls(request, chapter, subject, calls_behind_block(chapter, block))


@require_safe
def show_draft(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    number, draft = find_draft(chapter, draft_id)
    came_with, _ = _why_no_calls(chapter, "draft", chapter.prompt_index + 1)
    subject = Subject(f"Draft {number}", "chapter", came_with)
    return _show_calls(request, chapter, subject, calls_behind_draft(chapter, draft))


@require_POST
def show_next(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show the request that would be sent for the words in the prompt cell. Nothing is sent or
    stored."""
    chapter = get_chapter(session_id)
    actor = read_actor(request)
    text = request.POST.get("user_text", "")
    given = read_given(request)
    context = header_context(chapter, "play") | {
        "run": look_ahead(chapter, agent_slot=actor, user_text=text, given=given),
        "has_words": bool(text.strip()),
    }
    return show(request, "calls/next.html", context)


@require_safe
def show_usage(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    rows = [*usage_by_agent(chapter), *inherited_usage(chapter)]
    if request.htmx:
        return show(request, "calls/_usage_by_agent.html", {"rows": rows})
    context = header_context(chapter, "usage") | {
        "rows": rows,
        "total": total_of(row.usage for row in rows),
        "inherited": inherited_spending(chapter),
    }
    return show(request, "calls/usage.html", context)


def _why_no_calls(chapter: Session, text: str, number: int) -> tuple[str, bool]:
    """Return the reason why no call is recorded for a text about prompts up to `number`, and
    whether the origin of a fork has the calls."""
    came_with = "fork" if number <= chapter.forked_at_prompt else "file" * bool(chapter.imported_at)
    if not came_with:
        return Subject.no_calls, False
    reason = f"This {text} came with the {came_with}; the calls stay with the chapter it came from."
    return reason, came_with == "fork" and chapter.shown_origin_id is not None


def _of_starter(chapter: Session, text: str) -> str:
    source = "starter" if chapter.mode == DEFAULT_MODE else "scenario"
    return f"This {text} came with the {source}. People wrote it, and no model was asked."


def _show_calls(
    request: HttpRequest, chapter: Session, subject: Subject, behind: CallsBehind
) -> HttpResponse:
    call: CallRecord | None = behind.find(request.GET.get("call", ""))
    context = header_context(chapter, subject.tab) | {
        "subject": subject,
        "back": reverse(subject.back_name, args=[chapter.pk]),
        "behind": behind,
        "call": call,
        "prompt": read_sent_prompt(chapter, call) if call else None,
    }
    return show(request, "calls/calls.html", context)
