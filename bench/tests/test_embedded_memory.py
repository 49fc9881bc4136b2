"""Tests of the locks and deltas that agents 0 and 8 write without a user."""

from typing import Any

import pytest

from agents.llm.providers.scripted import ScriptedProvider
from bench.embedded_jobs import lock_chapter_of, summarize_chunk
from bench.embedded_memory import memory_figures
from sessions.chapter.access import get_chapter
from testing.long_memory import CHUNK
from testing.session_data import synthetic_session


@pytest.mark.django_db
def test_a_lock_and_deltas_are_written_even_after_one_that_is_not_valid(
    provider: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    session = synthetic_session(3 * CHUNK)
    chapter = lock_chapter_of(session, 0)
    assert chapter is not None
    summarize_chunk(chapter.pk, session.pairs[:CHUNK])
    provider.enqueue("nonsense", "nonsense")
    summarize_chunk(chapter.pk, session.pairs[CHUNK : 2 * CHUNK])
    summarize_chunk(chapter.pk, session.pairs[2 * CHUNK :])
    chapter = get_chapter(chapter.pk)
    assert chapter.last_summarized_prompt_index == chapter.prompt_index == 3 * CHUNK
    told = capsys.readouterr().out
    assert told.count('"is_valid": true') == 3
    assert told.count('"is_valid": false') == 1


def test_thirty_eight_of_forty_are_enough() -> None:
    def verdicts(kind: str, valid: int, broken: int) -> list[bool | None]:
        one: dict[str, Any] = {"kind": kind, "seconds": 30.0, "calls": 1, "is_valid": True}
        played = [one] * valid + [{**one, "is_valid": False}] * broken
        return [figure.passed for figure in memory_figures(played)]

    assert verdicts("lock", 38, 2) == [True, True]
    assert verdicts("delta", 37, 3) == [False, True]
