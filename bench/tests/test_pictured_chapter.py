"""Tests that the chapter of the pictures can be stored, and shows what the pictures are to show."""

import tomllib

import pytest

from bench.pictured_chapter import CHAPTER_FILE, end, play
from memory.receipts.reading import read_receipts
from sessions.access import get_chapter
from sessions.states import State

pytestmark = pytest.mark.django_db

TOLD = tomllib.loads(CHAPTER_FILE.read_text(encoding="utf-8"))


def test_it_is_played_ended_and_told() -> None:
    chapter = get_chapter(play(TOLD).pk)
    assert (chapter.state, chapter.prompt_index) == (State.ACTIVE, 9)
    assert chapter.last_summarized_prompt_index == 7

    chapter = get_chapter(end(TOLD).pk)
    receipts = read_receipts(chapter, chapter.narrative_drafts.get())
    assert chapter.state == State.ENDED
    # The pictures show how an invented paragraph and a prompt that was left out are marked.
    assert [one.paragraph.text[:9] for one in receipts.receipts if one.is_invented] == ["Next door"]
    assert receipts.untold_prompts == [6]
