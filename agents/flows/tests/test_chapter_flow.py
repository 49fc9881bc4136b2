"""One chapter is played from the lock to the draft. Every agent answers in its own form."""

from collections.abc import Callable

import pytest

from agents.flows.beginning.locking import request_lock
from agents.flows.telling.ending import reopen, request_end
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play_many
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.running.jobs import latest_jobs
from memory.models import MemoryBlock
from sessions.models import State
from sessions.tests.factories import make_chapter

pytestmark = pytest.mark.django_db


def test_from_setup_to_prose(provider: ScriptedProvider, run_jobs: Callable[[], int]) -> None:
    chapter = make_chapter()
    request_lock(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.LOCKING
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.tab1_locked) == (State.ACTIVE, True)

    play_many(chapter, 7)
    assert chapter.state == State.SUMMARIZING
    run_jobs()
    play_many(chapter, 2)
    assert chapter.last_summarized_prompt_index == 7
    assert chapter.state == State.ACTIVE

    assert request_end(chapter.pk).state == State.SUMMARIZING
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ENDED, False)
    blocks = chapter.memory_blocks.values_list("type", "from_prompt_index", "to_prompt_index")
    assert list(blocks) == [
        ("world_chapter_lock", 0, 0),
        ("turn_delta", 1, 7),
        ("turn_delta", 8, 9),
    ]

    request_build(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.NARRATING
    run_jobs()
    chapter.refresh_from_db()
    draft = chapter.narrative_drafts.get()
    assert chapter.state == State.ENDED
    assert "The lamp was dark" in draft.chapter_text
    assert draft.source_snapshot["max_prompt_index_used"] == 9
    assert len(draft.source_snapshot["memory_block_ids_used"]) == 3
    assert latest_jobs(chapter)["narrate"].status == Job.Status.DONE
    assert LLMArtifact.objects.filter(error="").count() == LLMArtifact.objects.count()

    assert reopen(chapter.pk).state == State.ACTIVE
    chapter.refresh_from_db()
    play_many(chapter, 7)
    run_jobs()
    assert MemoryBlock.objects.filter(from_prompt_index=10, to_prompt_index=16).count() == 1
