"""Tab 3: the memory, the instructions to the narrator, and the drafts."""

import hashlib
import json
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import is_allowed, provider_host
from agents.calling.objects import what_the_check_said
from agents.exceptions import ModelNotReady, PromptTooLong
from agents.flows.ending import Setback, find_setback
from agents.flows.estimates import estimate_build
from agents.flows.narrating import cancel_build, request_build
from agents.flows.rebuilding import RebuiltScene, rebuilt_scene
from agents.models import Job
from agents.running.database import in_database
from agents.running.jobs import latest_jobs
from agents.running.recovery import is_left_behind, recover
from memory.blocks import counting_blocks
from memory.corrections import why_not_now
from memory.drafts import drafts_of
from memory.models import MemoryBlock, NarrativeDraft
from memory.stretches import CatchingUp, calls_to_accept, catching_up, due_stretches, may_end_early
from memory.telling.rendering import ReadableBlock, readable_block
from sessions.access import get_chapter
from sessions.chapters import save_narrative_agent
from sessions.limits import (
    MAX_TARGET_WORDS,
    MIN_TARGET_WORDS,
    NARRATIVE_AGENT_CHAR_LIMIT,
)
from sessions.models import Attempt, Session
from sessions.states import PLAYABLE, State
from storyengine.books.formats import FORMATS
from storyengine.tabs.now import NowPanel, read_now
from storyengine.tabs.page_status import status_with_memory
from storyengine.web.header import header_context
from storyengine.web.model_notice import read_model_notice
from storyengine.web.numbers import number_up_to, read_whole_number
from storyengine.web.render import HttpRequest, answer, nothing_new, show

_UPDATE = "chapter/_update.html"

# The most memory blocks that the page shows. A long chapter has hundreds of blocks.
BLOCKS_SHOWN = 10


@dataclass(frozen=True)
class ShownBlock:
    """A memory block as readable text, with its number and with its payload as JSON. The first
    block has the number 1."""

    number: int
    readable: ReadableBlock
    json: str


@dataclass(frozen=True)
class ChapterSigns:
    """The values by which an open page learns that there is something new to show."""

    chapter: Session
    jobs: dict[str, Job]
    block_count: int
    draft_count: int

    @property
    def build(self) -> Job | None:
        return self.jobs.get(Job.Kind.NARRATE)

    @property
    def is_in_play(self) -> bool:
        return self.chapter.state in PLAYABLE

    @property
    def setback(self) -> Setback | None:
        return find_setback(self.chapter, self.jobs)

    @property
    def calls_to_accept(self) -> int:
        return calls_to_accept(self.chapter, is_ending=False)

    @property
    def catching_up(self) -> CatchingUp | None:
        return catching_up(self.chapter)

    @property
    def poll_seconds(self) -> int:
        """The seconds between two polls of the page. It is 0 if nothing can change without the
        user."""
        if any(job.is_live for job in self.jobs.values()) or self.chapter.turn_in_flight:
            return 2
        # The state shows work, but no job is running. The job has just ended, and the state will
        # change, so the page has to ask again.
        if self.chapter.state in (State.LOCKING, State.SUMMARIZING, State.NARRATING):
            return 2
        return 10 if self.is_in_play else 0

    @property
    def memory_version(self) -> str:
        """A digest of everything that the memory cell shows. When the digest changes, the cell is
        out of date."""
        return _digest(
            self.chapter.state,
            self.chapter.is_ending,
            self.chapter.prompt_index,
            # The choice of another attempt can change which blocks count, while the number of these
            # blocks stays the same. But each choice sets `last_played_at`.
            self.chapter.last_played_at.isoformat(),
            self.setback.job.error if self.setback else "",
            self.calls_to_accept,
            self.chapter.accepted_calls,
            self.block_count,
        )

    @property
    def version(self) -> str:
        shown: list[Any] = [self.memory_version, self.poll_seconds, self.draft_count]
        if self.build:
            shown += [self.build.status, self.build.error, self.build.progress]
            shown += [len(self.build.partial_text)]
        return _digest(*shown)


@dataclass(frozen=True)
class ChapterPage(ChapterSigns):
    # The memory blocks that are shown, and the number of the last shown block. The first block of a
    # chapter has the number 1. The last shown block is the newest one, unless the address names
    # another block.
    blocks: list[MemoryBlock]
    last_block: int
    drafts: list[NarrativeDraft]
    # The number of the draft that the address names, or 0 if it names none. The first draft has the
    # number 1.
    named_draft: int
    # Whether the address asks for the Now view, and whether it asks for all items of this view.
    shows_now: bool
    shows_all: bool

    @property
    def draft_number(self) -> int:
        return self.named_draft or len(self.drafts)

    @property
    def draft(self) -> NarrativeDraft | None:
        return self.drafts[self.draft_number - 1] if self.draft_number else None

    @property
    def shown_blocks(self) -> list[ShownBlock]:
        roster = self.chapter.characters
        return [
            ShownBlock(
                number,
                readable_block(block, roster),
                json.dumps(block.json_payload, ensure_ascii=False, indent=2),
            )
            for number, block in enumerate(self.blocks, self.earlier_blocks + 1)
        ]

    @property
    def earlier_blocks(self) -> int:
        """The number of blocks that are older than the shown ones."""
        return self.last_block - len(self.blocks)

    @property
    def next_last_block(self) -> int:
        """The number of the last block on the next page of blocks."""
        return min(self.last_block + BLOCKS_SHOWN, self.block_count)

    @cached_property
    def now(self) -> NowPanel:
        return read_now(self.chapter, shows_all=self.shows_all)

    @property
    def can_correct(self) -> bool:
        return not why_not_now(self.chapter)

    @property
    def is_building(self) -> bool:
        return self.chapter.state == State.NARRATING

    @property
    def reads_draft(self) -> bool:
        """Whether the address names an earlier draft while a new draft is being written."""
        return self.is_building and bool(self.named_draft)

    @property
    def shows_draft(self) -> bool:
        return self.reads_draft or not self.is_building

    @property
    def words(self) -> int:
        return int(self.build.progress.get("words", 0)) if self.build else 0

    @property
    def target_words(self) -> int:
        asked = self.build.progress.get("target_words") if self.build else None
        return int(asked or self.chapter.target_words)

    @property
    def is_pinned(self) -> bool:
        """Whether an address must name the draft that is shown. An address that names no draft
        shows the newest draft, or the draft that is being written."""
        return self.reads_draft or self.draft_number != len(self.drafts)

    @property
    def names_of_memory(self) -> dict[str, str]:
        """The query parameters that name the shown part of memory. The newest part needs no
        parameter."""
        is_earlier = self.last_block < self.block_count
        names = {
            "show": "now" if self.shows_now else "",
            "all": "1" if self.shows_all else "",
            "until": str(self.last_block) if is_earlier else "",
        }
        return {name: value for name, value in names.items() if value}

    @property
    def names(self) -> dict[str, str]:
        """The query parameters that name the shown part of memory and the shown draft."""
        draft = {"draft": str(self.draft_number)} if self.is_pinned else {}
        return draft | self.names_of_memory

    @property
    def next_memory_prompt(self) -> int:
        chapter = self.chapter
        # A stretch that is already due is written with the next prompt, whether it is full or ended
        # early.
        if due_stretches(chapter, is_ending=False):
            return chapter.prompt_index + 1
        return chapter.last_summarized_prompt_index + chapter.chunk_size_prompts

    @property
    def memory_may_come_earlier(self) -> bool:
        first = self.chapter.prompt_index + 1
        return may_end_early(self.chapter) and self.next_memory_prompt > first

    @property
    def can_build(self) -> bool:
        return self.chapter.state == State.ENDED

    @property
    def unfinished_build(self) -> Job | None:
        """The newest build if it failed or was cancelled, or None."""
        stopped = (Job.Status.FAILED, Job.Status.CANCELLED)
        if self.build is None or self.is_building or self.build.status not in stopped:
            return None
        return self.build

    @property
    def check_said(self) -> str:
        """What the engine's check said of the narrator's answer, or "" if it was not refused."""
        return what_the_check_said(self.unfinished_build)

    @property
    def unfinished_rebuild(self) -> RebuiltScene | None:
        """The scene that the unfinished build was to write again, or None."""
        return rebuilt_scene(self.unfinished_build) if self.unfinished_build else None

    @property
    def is_before_lock(self) -> bool:
        return self.chapter.state in (State.DRAFT_TAB1, State.LOCKING)

    @property
    def is_remembering(self) -> bool:
        return self.chapter.state == State.SUMMARIZING or self.chapter.is_ending


@require_safe
def show_chapter(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = _read_named(session_id, request.GET)
    return show(request, "chapter/chapter.html", _context(page))


@require_safe
async def status(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Answer a poll while memory or a draft is written. Without news, the answer has no content."""
    if await in_database(_is_as_seen, session_id, request.GET.get("seen", "")):
        return nothing_new()
    return await sync_to_async(_show_news)(request, session_id)


def _is_as_seen(session_id: uuid.UUID, seen: str) -> bool:
    return read_status(session_id).version == seen


def _show_news(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = _read_named(session_id, request.GET)
    context = _context(page) | {"seen_memory": request.GET.get("memory", "")}
    if page.reads_draft and request.GET.get("reads"):
        # Only the progress of the build is replaced, because the user may be reading the draft or
        # selecting its text.
        response = show(request, _UPDATE, context | {"leaves_draft": True})
        response["HX-Retarget"] = "#build-state"
        return response
    return show(request, _UPDATE, context)


@require_POST
def save(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    words = request.POST.get("target_words")
    save_narrative_agent(
        session_id,
        definition_text=request.POST.get("definition_text"),
        target_words=None if words is None else read_whole_number(words, "The target length"),
    )
    if request.htmx:
        return nothing_new()
    return HttpResponseRedirect(reverse("pages:draft", args=[session_id]))


@require_safe
def show_estimate(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show the estimate of a build. An estimate takes a moment, so Tab 3 asks for it after the tab
    has loaded."""
    chapter = get_chapter(session_id)
    # An open page may be old: the chapter may have been reopened, or another page may have begun a
    # build.
    if chapter.state != State.ENDED:
        return nothing_new()
    context: dict[str, Any] = {"chapter": chapter}
    if not request.htmx:
        context |= header_context(chapter, "chapter")
    try:
        context["estimate"] = estimate_build(chapter)
    except PromptTooLong as error:
        context["refusal"] = str(error)
    except ModelNotReady:
        # No message is shown here, because Tab 3 already says that the model is not ready.
        context["refusal"] = ""
    template = "chapter/_estimate.html" if request.htmx else "chapter/estimate.html"
    return show(request, template, context)


@require_POST
def build(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    request_build(session_id)
    return _answer(request, session_id)


@require_POST
def cancel(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    cancel_build(session_id)
    return _answer(request, session_id)


def _answer(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    page = _read_named(session_id, request.POST)
    address = reverse("pages:draft", args=[session_id], query=page.names or None)
    return answer(request, partial=_UPDATE, context=_context(page), page=address)


def _read_named(session_id: uuid.UUID, names: QueryDict) -> ChapterPage:
    """Return the page that the parameters of an address or the fields of a form name."""
    return read_page(
        session_id,
        names.get("draft", ""),
        until=names.get("until", ""),
        shows_now=names.get("show") == "now",
        shows_all=names.get("all") == "1",
    )


def read_page(
    session_id: uuid.UUID,
    draft: str,
    *,
    until: str = "",
    shows_now: bool = False,
    shows_all: bool = False,
) -> ChapterPage:
    """Return the page. `draft` is the number of the draft to show, and `until` is the number of the
    last memory block to show. Both are texts from an address."""
    recover(session_id)
    chapter, _, block_count, _ = status_with_memory(session_id)
    drafts = list(drafts_of(chapter))
    blocks = counting_blocks(chapter)
    last_block = number_up_to(block_count, until) or block_count
    return ChapterPage(
        chapter=chapter,
        jobs=latest_jobs(chapter),
        block_count=block_count,
        draft_count=len(drafts),
        blocks=list(blocks[max(last_block - BLOCKS_SHOWN, 0) : last_block]),
        last_block=last_block,
        drafts=drafts,
        named_draft=number_up_to(len(drafts), draft),
        shows_now=shows_now,
        shows_all=shows_all,
    )


def read_status(session_id: uuid.UUID) -> ChapterSigns:
    """Return the values by which a page learns that there is something new to show. Two queries
    read these values. If a process has died, the attempts and jobs that it left running are ended
    first."""
    signs, attempt = _read_status(session_id)
    if is_left_behind(signs.chapter, signs.jobs, attempt):
        recover(session_id)
        signs, _ = _read_status(session_id)
    return signs


def _read_status(session_id: uuid.UUID) -> tuple[ChapterSigns, Attempt | None]:
    chapter, attempt, blocks, drafts = status_with_memory(session_id)
    return ChapterSigns(chapter, latest_jobs(chapter), blocks, drafts), attempt


def _digest(*shown: Any) -> str:
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def _context(page: ChapterPage) -> dict[str, Any]:
    host = provider_host()
    return header_context(page.chapter, "chapter") | {
        "page": page,
        "formats": FORMATS,
        "limit": NARRATIVE_AGENT_CHAR_LIMIT,
        "min_words": MIN_TARGET_WORDS,
        "max_words": MAX_TARGET_WORDS,
        "notice": read_model_notice(),
        "host": host,
        "is_allowed": is_allowed(host),
    }
