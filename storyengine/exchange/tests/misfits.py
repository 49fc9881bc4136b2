"""Functions that make one part of a chapter's file contradict another part, and a check that the
file is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sessions.models import Session
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.file_reading import read_chapter_file

Chapter = dict[str, Any]
Change = Callable[[Chapter], None]


def more_prompts(chapter: Chapter) -> None:
    chapter["prompt_index"] = 11


def gap_in_slots(chapter: Chapter) -> None:
    chapter["cast"][1]["is_selected"] = False


def next_absent(chapter: Chapter) -> None:
    chapter["next_agent_slot"] = 4


def no_lock(chapter: Chapter) -> None:
    del chapter["memory_blocks"][0]


def two_locks(chapter: Chapter) -> None:
    chapter["memory_blocks"].insert(0, chapter["memory_blocks"][0])


def lock_of_prompts(chapter: Chapter) -> None:
    chapter["memory_blocks"][0]["to_prompt_index"] = 1


def gap_in_memory(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["from_prompt_index"] = 2


def overlap(chapter: Chapter) -> None:
    delta = {**chapter["memory_blocks"][1], "from_prompt_index": 7, "to_prompt_index": 9}
    chapter["memory_blocks"].insert(2, delta)


def turned_round(chapter: Chapter) -> None:
    chapter["memory_blocks"][1] |= {"from_prompt_index": 1, "to_prompt_index": 0}


def beyond(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["to_prompt_index"] = 14


def pointer_beyond(chapter: Chapter) -> None:
    chapter["last_summarized_prompt_index"] = 10


def correction_of_prompts(chapter: Chapter) -> None:
    chapter["memory_blocks"][2]["from_prompt_index"] = 1


def unordered(chapter: Chapter) -> None:
    chapter["memory_blocks"].reverse()


def ended_too_early(chapter: Chapter) -> None:
    chapter["state"] = "ENDED"


def begun_draft(chapter: Chapter) -> None:
    chapter["state"] = "DRAFT_TAB1"


def begun_draft_without_prompts(chapter: Chapter) -> None:
    chapter |= {"state": "DRAFT_TAB1", "prompt_index": 0, "last_summarized_prompt_index": 0}
    chapter |= {"turns": [], "unanswered_attempts": []}


def unknown_source(chapter: Chapter) -> None:
    chapter["narrative_drafts"][1]["source_snapshot"]["memory_blocks_used"] = [0, 3]


def same_source(chapter: Chapter) -> None:
    chapter["narrative_drafts"][0]["source_snapshot"]["memory_blocks_used"] = [1, 1]


def source_beyond(chapter: Chapter) -> None:
    chapter["narrative_drafts"][0]["source_snapshot"]["max_prompt_index_used"] = 11


OF_MEMORY_AND_STATE: list[tuple[Change, str]] = [
    (gap_in_slots, "must be 1 to n without a gap"),
    (next_absent, "chapter.next_agent_slot is none of the selected agents"),
    (no_lock, "chapter.memory_blocks must hold one world_chapter_lock"),
    (two_locks, "chapter.memory_blocks must hold one world_chapter_lock"),
    (lock_of_prompts, "chapter.memory_blocks[0] is a world_chapter_lock"),
    (gap_in_memory, "chapter.memory_blocks[1].from_prompt_index must be 1"),
    (overlap, "chapter.memory_blocks[2].from_prompt_index must be 8"),
    (turned_round, "chapter.memory_blocks[1].to_prompt_index is before"),
    (beyond, "chapter.memory_blocks[1].to_prompt_index is beyond the last prompt"),
    (pointer_beyond, "chapter.last_summarized_prompt_index must be 7"),
    (correction_of_prompts, "chapter.memory_blocks[2] is a canon_correction"),
    (unordered, "chapter.memory_blocks must be in the order of their times"),
    (ended_too_early, "chapter.state is ENDED, but memory does not cover"),
    (begun_draft_without_prompts, "chapter.memory_blocks must be empty before"),
    (unknown_source, "chapter.narrative_drafts[1].source_snapshot.memory_blocks_used must"),
    (same_source, "chapter.narrative_drafts[0].source_snapshot.memory_blocks_used must"),
    (source_beyond, "source_snapshot.max_prompt_index_used is beyond the last prompt"),
]


def refusal(file: dict[str, Any]) -> str:
    with pytest.raises(BadChapterFile) as caught:
        read_chapter_file(json.dumps(file).encode())
    assert Session.objects.count() == 1
    return str(caught.value)
