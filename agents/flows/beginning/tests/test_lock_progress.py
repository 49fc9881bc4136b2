"""While agent 0 writes a lock, what it has written so far can be read and measured."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.calling.model_access import model_of
from agents.flows.beginning.lock_progress import read_lock_progress
from agents.models import Job, LLMArtifact
from agents.prompting.declarations import WORLD_SUMMARY
from agents.prompting.forms.object_forms import read_unfinished
from agents.prompting.forms.schemas import WorldChapterLock
from agents.tests.replies import world_lock
from memory.telling.rendering import readable_lock
from sessions.models import Session, State
from sessions.tests.factories import make_chapter

JSON = json.dumps(world_lock(["Mara ünd", 'Tom "the elder"', "A\\B"]))
MODEL = model_of(WORLD_SUMMARY).name
XML = (
    "<world_chapter_lock><world><genre>gothic</genre><tone>quiet</tone>"
    "<rules_of_reality><item>the sea takes one name a year</item></rules_of_reality></world>"
    "<chapter><premise>the lamp is dark</premise></chapter></world_chapter_lock>"
)


def lines_of(text: str) -> list[str]:
    sections = readable_lock(read_unfinished(text, WorldChapterLock))
    return [line for section in sections for line in section.lines]


@given(st.sampled_from([JSON, f"Here it is:\n```json\n{JSON}\n```", XML]), st.data())
def test_every_beginning_of_an_answer_is_read(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    whole = "\n".join(lines_of(text))
    for line in lines_of(text[:cut]):
        # Only the last line may be cut.
        assert line in whole or any(one in whole for one in line.split("; "))


@pytest.mark.parametrize("text", [JSON, XML])
def test_a_field_is_there_as_soon_as_it_has_begun(text: str) -> None:
    until = text.index("the sea takes") + len("the sea takes")
    assert lines_of(text[:until]) == [
        "gothic; quiet",
        *(["loss"] if text is JSON else []),
        "the sea takes",
    ]


@pytest.fixture
def chapter(db: None) -> Session:
    return make_chapter(state=State.LOCKING)


def lock_job(chapter: Session, text: str, status: str = Job.Status.RUNNING) -> Job:
    return Job.objects.create(
        session=chapter, kind=Job.Kind.LOCK, key="lock", status=status, partial_text=text
    )


def test_it_counts_tokens_against_what_earlier_locks_took(chapter: Session) -> None:
    for length in (2_000, 4_000, 9_000):
        LLMArtifact.objects.create(
            session=chapter,
            agent="world_lock",
            agent_id=0,
            model=MODEL,
            raw_output_ref="x" * length,
        )
    # The call of another agent and a call that failed say nothing about a lock.
    for other in ({"agent": "memory"}, {"agent": "world_lock", "error": "It broke off."}):
        LLMArtifact.objects.create(
            session=chapter, model=MODEL, raw_output_ref="x" * 50_000, **other
        )
    progress = read_lock_progress(lock_job(chapter, JSON[:300]))
    assert progress is not None
    assert progress.expected == 1_300
    assert progress.tokens == pytest.approx(100, abs=5)
    assert (progress.percent, progress.step) == (7, 0)


@pytest.mark.parametrize("status", [Job.Status.QUEUED, Job.Status.FAILED])
def test_what_a_broken_try_has_left_is_no_progress(chapter: Session, status: str) -> None:
    assert read_lock_progress(lock_job(chapter, JSON[:300], status)) is None
