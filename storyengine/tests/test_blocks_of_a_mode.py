"""Tests of a mode's own kind of memory block, when the block is stored late or cannot be
stored."""

from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling.tests.exploring import native as native
from agents.flows.replies.tests.trying import try_again
from agents.llm.providers.scripted import ScriptedProvider
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from agents.tests.replies import answer_in_form, turn_delta
from agents.tests.second_mode import install
from memory.tests.factories import write_delta
from sessions.models import Session
from sessions.play import committing
from storyengine.api.tests.calling import address, assert_problem, call
from storyengine.exchange.importing import import_chapter
from storyengine.tests.lighthouse.log import enter_signals
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.playing_the_lighthouse import attempts, played, written
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]

TOO_LONG = "x" * 100


@pytest.fixture
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.blocks.blocks.PAYLOAD_CHAR_LIMIT", 100)


@pytest.fixture(autouse=True)
def _entered(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("*signal* Keep off.")
    played(chapter, witnesses=[1])


def blocks(chapter: Session) -> Any:
    return call("GET", address(chapter)).json()["memory_blocks"]


@pytest.mark.parametrize("has_wrong_pointer", [False, True])
def test_a_chapter_ends_right_after_it(
    chapter: Session, provider: ScriptedProvider, has_wrong_pointer: bool
) -> None:
    """If the delta of the last stretch is stored already, the chapter ends without another one,
    although the summary pointer is wrong."""
    if has_wrong_pointer:
        write_delta(chapter.turns.get().chosen, from_prompt_index=1, payload=turn_delta())
        Session.objects.update(last_summarized_prompt_index=0)
    provider.fallback = answer_in_form
    assert call("POST", address(chapter, "end")).status_code == 202
    work_on(chapter.jobs.get().pk)
    # If the same summary were due again, a second call would be made and paid for.
    assert not due_jobs().exists()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.last_summarized_prompt_index) == ("ENDED", 1)
    assert chapter.memory_blocks.filter(type="turn_delta").count() == 1


@pytest.mark.parametrize(
    ("path", "body"), [("prompt", {"agent_slot": 1, "user_text": "Go on."}), ("end", {})]
)
def test_a_mode_without_jobs_stores_that_of_a_trial_that_is_adopted(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    path: str,
    body: dict[str, Any],
) -> None:
    play = replace(MODE.play, job_kinds={}, after_commit=enter_signals)
    install(monkeypatch, settings, lighthouse=replace(MODE, play=play))
    provider.enqueue("*signal* Come back.", "I climb.")
    trial = try_again(chapter, "Somebody who is afraid.")
    call("POST", address(chapter, "turns/1/choose"), {"attempt_id": str(trial.pk)})
    assert blocks(chapter) == []
    assert call("POST", address(chapter, path), body).status_code in (201, 202)
    [block] = blocks(chapter)
    assert block["json_payload"] == {"signals": ["Come back."]}


def test_an_edit_has_one_of_its_own_at_once(chapter: Session) -> None:
    edit = call("POST", address(chapter, "turns/1/edit"), {"text": "Keep away."})
    assert edit.status_code == 201
    [block] = blocks(chapter)
    assert block["json_payload"] == {"signals": ["Keep away."]}


@pytest.mark.usefixtures("_short_blocks")
def test_an_edit_whose_block_cannot_be_stored_is_refused(chapter: Session) -> None:
    edit = call("POST", address(chapter, "turns/1/edit"), {"text": TOO_LONG})
    problem = assert_problem(edit, 422, "invalid-input")
    assert "it has more than 100 characters" in problem["detail"]
    assert len(attempts(chapter, 1)) == len(blocks(chapter)) == 1


@pytest.mark.usefixtures("_short_blocks")
def test_a_file_whose_block_cannot_be_stored_is_played_on_and_ended(
    chapter: Session, provider: ScriptedProvider, caplog: pytest.LogCaptureFixture
) -> None:
    committing.edit_reply(chapter.pk, 1, TOO_LONG)
    copy = import_chapter(written(chapter))
    provider.enqueue("I row.")
    played(copy)
    latest = copy.turns.get(number=1).chosen
    assert f"what follows attempt {latest.pk} met an error of the program" in caplog.text
    assert "xxx" not in caplog.text
    assert call("POST", address(copy, "end")).status_code == 202
