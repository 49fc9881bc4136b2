"""Reads everything that Tab 3 shows: the memory, the instructions to the narrator, and a draft with
its receipts."""

import json
import uuid
from dataclasses import dataclass
from functools import cached_property

from agents.calling.records.behind_failures import what_the_check_said
from agents.flows.telling.rebuilding import RebuiltScene, rebuilt_scene
from agents.models import Job
from agents.running.jobs import latest_jobs
from agents.running.recovery import recover
from memory.blocks.blocks import counting_blocks
from memory.blocks.stretches import due_stretches, may_end_early
from memory.canon.corrections import why_not_now
from memory.models import MemoryBlock, NarrativeDraft, WorkingCopy
from memory.prose.drafts import drafts_of, find_choice, shown_draft
from memory.prose.editing.working_copies import find_working_copy
from memory.telling.rendering import ReadableBlock, readable_block
from sessions.models import State
from storyengine.tabs.chapter.chapter_signs import ChapterSigns
from storyengine.tabs.chapter.now_pages import NowPanel, read_now
from storyengine.tabs.chapter.told_drafts import ToldDraft, read_told
from storyengine.tabs.page_status import status_with_memory
from storyengine.web.numbers import number_up_to

# The page shows at most this many memory blocks. A long chapter has hundreds of blocks.
BLOCKS_SHOWN = 10
# Up to this number of drafts, each draft has a link.
_FEW_DRAFTS = 4


@dataclass(frozen=True)
class ShownBlock:
    """A memory block as readable text, with its number and with its payload as JSON. The first
    block has the number 1."""

    number: int
    readable: ReadableBlock
    json: str


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
    # The number of the draft that the page shows first, and the key of the chosen draft.
    first_draft: int
    chosen: uuid.UUID | None
    # Whether the address asks for the Now view, and whether it asks for all items of this view.
    shows_now: bool
    shows_all: bool
    # The paragraph whose turns are shown, and the prompt whose paragraphs are marked, as texts from
    # the address.
    paragraph: str = ""
    prompt: str = ""

    @property
    def draft_number(self) -> int:
        return self.named_draft or self.first_draft

    @property
    def is_chosen(self) -> bool:
        return self.draft is not None and self.draft.pk == self.chosen

    @property
    def origin_number(self) -> int:
        """The number of the draft that the shown draft was made from, or 0."""
        keys = [one.pk for one in self.drafts]
        origin = self.draft.origin_id if self.draft else None
        return keys.index(origin) + 1 if origin in keys else 0

    @property
    def near_drafts(self) -> list[int]:
        """The numbers of the drafts that have a link. If there are few drafts, each has one.
        Otherwise these are the drafts beside the shown draft, the first draft and the newest
        drafts."""
        last = len(self.drafts)
        shown = {1, last - 1, last, *range(self.draft_number - 1, self.draft_number + 2)}
        return [number for number in range(1, last + 1) if last <= _FEW_DRAFTS or number in shown]

    @cached_property
    def working_copy(self) -> WorkingCopy | None:
        return find_working_copy(self.draft) if self.draft else None

    @cached_property
    def told(self) -> ToldDraft | None:
        """The shown draft with the prompts that its paragraphs tell."""
        if self.draft is None:
            return None
        asked = {"paragraph": self.paragraph, "prompt": self.prompt}
        return read_told(self.chapter, self.draft, self.draft_number, **asked)

    @property
    def folds(self) -> bool:
        """Whether memory and the narrator are each folded to one line, because there is a draft."""
        return bool(self.drafts)

    @property
    def opens_memory(self) -> bool:
        """Whether the fold of memory is open, because the address names a part of memory."""
        return bool(self.names_of_memory)

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
        shows the draft of `shown_draft`, or the draft that is being written."""
        return self.reads_draft or self.draft_number != self.first_draft

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
    def has_finished(self) -> bool:
        """Whether the newest build has added its draft."""
        is_done = self.build is not None and self.build.status == Job.Status.DONE
        return is_done and bool(self.drafts)

    @property
    def check_said(self) -> str:
        """The reason that the engine's check gave for refusing the narrator's answer, or "" if it
        was not refused."""
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


def read_page(
    session_id: uuid.UUID,
    draft: str,
    *,
    until: str = "",
    shows_now: bool = False,
    shows_all: bool = False,
    paragraph: str = "",
    prompt: str = "",
) -> ChapterPage:
    """Return the page. `draft` is the number of the draft to show, and `until` is the number of the
    last memory block to show. Both are texts from an address."""
    recover(session_id)
    chapter, _, block_count, _ = status_with_memory(session_id)
    drafts = list(drafts_of(chapter))
    choice = find_choice(chapter)
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
        first_draft=shown_draft(drafts, choice),
        chosen=choice.draft_id if choice else drafts[-1].pk if drafts else None,
        shows_now=shows_now,
        shows_all=shows_all,
        paragraph=paragraph,
        prompt=prompt,
    )
