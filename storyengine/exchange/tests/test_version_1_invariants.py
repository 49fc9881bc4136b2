"""Tests that a version 1 file whose parts contradict each other is refused, and that the message
uses the words of that version."""

import json

import pytest

from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.tests.chapters import as_version_1, make_whole_chapter
from storyengine.exchange.tests.misfits import (
    IN_EVERY_VERSION,
    Change,
    Chapter,
    begun_draft,
    more_prompts,
    refusal,
)

pytestmark = pytest.mark.django_db


def old_renumber(chapter: Chapter) -> None:
    """Remove prompt 3."""
    chapter["events"] = [one for one in chapter["events"] if one["prompt_index"] != 3]


def old_repeat(chapter: Chapter) -> None:
    """Add prompt 3 a second time."""
    chapter["events"][4:4] = chapter["events"][4:6]


def old_no_reply(chapter: Chapter) -> None:
    del chapter["events"][5]


def old_no_last_reply(chapter: Chapter) -> None:
    del chapter["events"][-2:]


def old_no_prompt(chapter: Chapter) -> None:
    del chapter["events"][0]


def old_two_prompts(chapter: Chapter) -> None:
    chapter["events"].insert(1, chapter["events"][0])


def old_cut_off(chapter: Chapter) -> None:
    del chapter["events"][-3:]


def old_same_time(chapter: Chapter) -> None:
    chapter["events"][1]["created_at"] = chapter["events"][0]["created_at"]


def old_speaker_absent(chapter: Chapter) -> None:
    chapter["events"][1]["agent_slot"] = 4


def old_no_speaker(chapter: Chapter) -> None:
    chapter["events"][1]["agent_slot"] = None


def old_speaking_prompt(chapter: Chapter) -> None:
    chapter["events"][0]["agent_slot"] = 1


def old_two_broken(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0]["status"] = "stopped"


def old_reroll_of_nothing(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0] |= {"kind": "reroll", "prompt_index": None}


def old_reroll_beyond(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0] |= {"kind": "reroll", "prompt_index": 11}


def old_numbered_prompt(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0]["prompt_index"] = 3


def old_turn_to_nobody(chapter: Chapter) -> None:
    chapter["unanswered_turns"][0]["agent_slot"] = 7


def old_unordered(chapter: Chapter) -> None:
    chapter["unanswered_turns"].reverse()


def old_system_alone(chapter: Chapter) -> None:
    """Keep only a system event that comes before the first prompt."""
    said = chapter["events"][0] | {"role": "system", "prompt_index": 0}
    chapter |= {"events": [said], "prompt_index": 0}


def old_draft_with_words(chapter: Chapter) -> None:
    """Put a system event into a chapter whose Tab 1 is open. No turn can be made of this event."""
    said = chapter["events"][0] | {"role": "system", "prompt_index": 0}
    chapter |= {"state": "DRAFT_TAB1", "events": [said]}


IN_VERSION_1: list[tuple[Change, str]] = [
    (old_renumber, "chapter.events[4].prompt_index must be 3: prompts go from 1 to n"),
    (old_repeat, "chapter.events[6].prompt_index must be 4"),
    (old_no_reply, "chapter.events[5] follows prompt 3, which has no reply"),
    (old_no_last_reply, "chapter.events ends with prompt 10, which has no reply"),
    (old_no_prompt, "chapter.events[0] answers no prompt"),
    (old_two_prompts, "chapter.events[1] follows prompt 1, which has no reply"),
    (old_cut_off, "chapter.prompt_index must be 9, the number of prompts in events"),
    (old_same_time, "chapter.events[1].created_at must be later"),
    (old_speaker_absent, "chapter.events[1].agent_slot is none of the selected agents"),
    (old_no_speaker, "chapter.events[1].agent_slot is none of the selected agents"),
    (old_speaking_prompt, "chapter.events[0].agent_slot must be null"),
    (old_two_broken, "chapter.unanswered_turns may hold one turn at most"),
    (old_reroll_of_nothing, "chapter.unanswered_turns[0].prompt_index must be a prompt"),
    (old_reroll_beyond, "chapter.unanswered_turns[0].prompt_index must be a prompt"),
    (old_numbered_prompt, "chapter.unanswered_turns[0].prompt_index must be a prompt"),
    (old_turn_to_nobody, "chapter.unanswered_turns[0].agent_slot is none of the selected"),
    (more_prompts, "chapter.prompt_index must be 10, the number of prompts in events"),
    (begun_draft, "chapter.events must be empty before a chapter has begun"),
    (old_unordered, "chapter.unanswered_turns must be in the order of their times"),
    (old_system_alone, "chapter.events must hold a prompt, unless it is empty"),
    (old_draft_with_words, "chapter.events must be empty before a chapter has begun"),
]


@pytest.mark.parametrize(("change", "message"), IN_EVERY_VERSION + IN_VERSION_1)
def test_what_does_not_fit_together_in_version_1(change: Change, message: str) -> None:
    file = as_version_1(json.loads(export_chapter(make_whole_chapter().pk).to_json()))
    change(file["chapter"])
    assert message in refusal(file)
