"""Tests that the chapter of the pictures can be stored, and shows what the pictures are to show."""

import tomllib

import pytest

from memory.fold.folding import fold_chapter
from memory.prose.receipts.draft_receipts import read_receipts
from memory.telling.now_view import now_view
from sessions.chapter.access import get_chapter
from sessions.chapter.people import persons_before
from sessions.models import State
from sessions.play.latest_turn import latest_turn
from testing.pictured_chapter import CHAPTER_FILE, edit, end, follow, play

pytestmark = pytest.mark.django_db

TOLD = tomllib.loads(CHAPTER_FILE.read_text(encoding="utf-8"))


def test_it_is_played_ended_and_told() -> None:
    chapter = get_chapter(play(TOLD).pk)
    assert (chapter.state, chapter.prompt_index) == (State.ACTIVE, 9)
    assert chapter.last_summarized_prompt_index == 7
    # The picture of the Now view shows the very prompts of each fact, and nowhere a whole stretch.
    items = [item for section in now_view(fold_chapter(chapter)) for item in section.items]
    assert {str(one) for item in items for one in item.sources} == {"0", "1-2", "3", "5", "7"}

    assert latest_turn(get_chapter(edit(TOLD).pk)).attempts.count() == 2

    chapter = get_chapter(end(TOLD).pk)
    receipts = read_receipts(chapter, chapter.narrative_drafts.get())
    assert chapter.state == State.ENDED
    # The pictures show how an invented paragraph and a prompt that was left out are marked.
    assert [one.paragraph.text[:9] for one in receipts.receipts if one.is_invented] == ["Next door"]
    assert receipts.untold_prompts == [6]

    following = get_chapter(follow(TOLD).pk)
    assert persons_before(following, chapter) == {1: 1, 2: 2, 3: None}
