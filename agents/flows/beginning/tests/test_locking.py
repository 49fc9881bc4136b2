"""The lock stores agent 0's block unchanged. If the lock fails, Tab 1 can be edited again."""

import json
from collections.abc import Callable

import pytest

from agents.flows.beginning.locking import request_lock
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.jobs import (
    latest_jobs,
)
from agents.tests.replies import world_lock
from sessions.chapter.chapters import SetupChange, save_setup
from sessions.exceptions import InvalidInput, WrongState
from sessions.models import State
from sessions.tests.factories import make_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


def test_an_empty_world_and_chapter_is_refused() -> None:
    chapter = make_chapter()
    save_setup(chapter.pk, SetupChange(world_text=" ", chapter_text="\n"))
    with pytest.raises(InvalidInput, match="empty"):
        request_lock(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.DRAFT_TAB1


def test_locking_twice_is_refused(provider: ScriptedProvider) -> None:
    chapter = make_chapter()
    request_lock(chapter.pk)
    with pytest.raises(WrongState):
        request_lock(chapter.pk)
    assert Job.objects.count() == 1


def test_the_lock_is_stored_exactly_as_returned(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    payload = {**world_lock(), "surplus": {"kept": [1, 2]}}
    provider.enqueue(json.dumps(payload))
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    assert chapter.memory_blocks.get().json_payload == payload


def test_agent_0_gets_both_texts_and_the_roster(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_chapter(agent_names={"2": "Kara"})
    request_lock(chapter.pk)
    run_jobs()
    prompt = provider.history[0].messages[-1].content
    assert "A harbour town" in prompt
    assert "The lighthouse is dark" in prompt
    assert "2: orange: Kara" in prompt


def test_one_repair_shows_the_model_its_error(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue('{"memory_type": "world_chapter_lock"}')
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE
    assert len(provider.history) == 2
    roles = [message.role for message in provider.history[1].messages]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "scripts", [["not json", "not json"], [ProviderRefused("401: the key was refused")]]
)
def test_a_failed_lock_makes_tab_1_editable_again(
    provider: ScriptedProvider, run_jobs: RunJobs, scripts: list[str | Exception]
) -> None:
    provider.enqueue(*scripts)
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.tab1_locked) == (State.DRAFT_TAB1, False)
    assert chapter.tab1.world_text
    assert latest_jobs(chapter)["lock"].error
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE
    assert latest_jobs(chapter)["lock"].error == ""
