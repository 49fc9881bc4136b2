"""Tests that the built chapters are valid, as chapters that were really played are."""

import pytest

from memory.blocks.blocks import counting_deltas
from sessions.play.attempts import open_prompt
from testing.tab2_chapters import CHUNK, build_chapter


@pytest.mark.django_db
def test_a_built_chapter_remembers_its_play_and_takes_the_next_prompt() -> None:
    chapter = build_chapter(2 * (2 * CHUNK + 1))

    reached = [block.to_prompt_index for block in counting_deltas(chapter)]
    opened = open_prompt(chapter.pk, actor=3, words="Who is there?", submission_key="next")

    assert reached == [CHUNK, 2 * CHUNK]
    assert opened.must_run
