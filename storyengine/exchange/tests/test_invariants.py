"""A file whose parts do not fit together is refused, and says which."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sessions.models import Session
from storyengine.exchange.exceptions import BadChapterFile
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.reading import read_chapter_file
from storyengine.exchange.tests.chapters import make_whole_chapter

pytestmark = pytest.mark.django_db

Chapter = dict[str, Any]


def renumber(chapter: Chapter) -> None:
    """Prompt 3 is missing."""
    chapter["events"] = [one for one in chapter["events"] if one["prompt_index"] != 3]


def repeat(chapter: Chapter) -> None:
    """Prompt 3 is there twice."""
    chapter["events"][4:4] = chapter["events"][4:6]


def no_reply(chapter: Chapter) -> None:
    del chapter["events"][5]


def no_last_reply(chapter: Chapter) -> None:
    del chapter["events"][-2:]


def no_prompt(chapter: Chapter) -> None:
    del chapter["events"][0]


def two_prompts(chapter: Chapter) -> None:
    chapter["events"].insert(1, chapter["events"][0])


def cut_off(chapter: Chapter) -> None:
    del chapter["events"][-3:]


def same_time(chapter: Chapter) -> None:
    chapter["events"][1]["created_at"] = chapter["events"][0]["created_at"]


def speaker_absent(chapter: Chapter) -> None:
    chapter["events"][1]["agent_slot"] = 4


def no_speaker(chapter: Chapter) -> None:
    chapter["events"][1]["agent_slot"] = None


def speaking_prompt(chapter: Chapter) -> None:
    chapter["events"][0]["agent_slot"] = 1


def more_prompts(chapter: Chapter) -> None:
    chapter["prompt_index"] = 11


def gap_in_slots(chapter: Chapter) -> None:
    chapter["selected_agent_slots"] = [1, 3]


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
    chapter["events"] = []


def unknown_source(chapter: Chapter) -> None:
    chapter["narrative_drafts"][1]["source_snapshot"]["memory_blocks_used"] = [0, 3]


def same_source(chapter: Chapter) -> None:
    chapter["narrative_drafts"][0]["source_snapshot"]["memory_blocks_used"] = [1, 1]


def source_beyond(chapter: Chapter) -> None:
    chapter["narrative_drafts"][0]["source_snapshot"]["max_prompt_index_used"] = 11


def two_broken(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0]["status"] = "stopped"


def reroll_of_nothing(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0] |= {"kind": "reroll", "prompt_index": None}


def reroll_beyond(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0] |= {"kind": "reroll", "prompt_index": 11}


def numbered_prompt(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0]["prompt_index"] = 3


def turn_to_nobody(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0]["agent_slot"] = 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renumber, "chapter.events[4].prompt_index must be 3: prompts go from 1 to n"),
        (repeat, "chapter.events[6].prompt_index must be 4"),
        (no_reply, "chapter.events[5] follows prompt 3, which has no reply"),
        (no_last_reply, "chapter.events ends with prompt 10, which has no reply"),
        (no_prompt, "chapter.events[0] answers no prompt"),
        (two_prompts, "chapter.events[1] follows prompt 1, which has no reply"),
        (cut_off, "chapter.prompt_index must be 9, the number of prompts in events"),
        (same_time, "chapter.events[1].created_at must be later"),
        (speaker_absent, "chapter.events[1].agent_slot is none of the selected agents"),
        (no_speaker, "chapter.events[1].agent_slot is none of the selected agents"),
        (speaking_prompt, "chapter.events[0].agent_slot must be null"),
        (more_prompts, "chapter.prompt_index must be 10"),
        (gap_in_slots, "chapter.selected_agent_slots must be 1 to n"),
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
        (begun_draft, "chapter.prompt_index must be 0 before a chapter has begun"),
        (begun_draft_without_prompts, "chapter.memory_blocks must be empty before"),
        (unknown_source, "chapter.narrative_drafts[1].source_snapshot.memory_blocks_used must"),
        (same_source, "chapter.narrative_drafts[0].source_snapshot.memory_blocks_used must"),
        (source_beyond, "source_snapshot.max_prompt_index_used is beyond the last prompt"),
        (two_broken, "chapter.unanswered_turns may hold one turn at most"),
        (reroll_of_nothing, "chapter.unanswered_turns[0].prompt_index must be a prompt"),
        (reroll_beyond, "chapter.unanswered_turns[0].prompt_index must be a prompt"),
        (numbered_prompt, "chapter.unanswered_turns[0].prompt_index must be a prompt"),
        (turn_to_nobody, "chapter.unanswered_turns[0].agent_slot is none of the selected"),
    ],
)
def test_what_does_not_fit_together(change: Callable[[Chapter], None], message: str) -> None:
    file = json.loads(export_chapter(make_whole_chapter().pk).to_json())
    change(file["chapter"])
    with pytest.raises(BadChapterFile) as caught:
        read_chapter_file(json.dumps(file).encode())
    assert message in str(caught.value)
    assert Session.objects.count() == 1
