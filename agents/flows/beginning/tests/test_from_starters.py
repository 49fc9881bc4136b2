"""A chapter from a starter is in play at once, without any model call, and it goes on like any
other chapter."""

from typing import Any

import pytest

from agents.flows.beginning.from_starters import begin_starter, open_starter, start_play
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.prompting.forms.schemas import WorldChapterLock, check_payload, with_roster
from memory.models import MemoryBlock
from sessions.chapter.chapters import SetupChange, save_setup
from sessions.chapter.starters import Starter, all_starters, next_prompt
from sessions.models import Attempt, Session, State
from sessions.record.transcript import read_transcript

pytestmark = pytest.mark.django_db

STARTERS = all_starters()
each_starter = pytest.mark.parametrize("starter", STARTERS, ids=lambda one: one.name)


@each_starter
def test_a_starter_is_in_play_after_its_turns_and_no_model_was_called(
    starter: Starter, provider: ScriptedProvider
) -> None:
    chapter = begin_starter(starter.name)
    assert (chapter.state, chapter.prompt_index, chapter.tab1_locked) == (State.ACTIVE, 3, True)
    assert (chapter.title, chapter.starter) == (starter.title, starter.name)
    assert not provider.history
    assert not LLMArtifact.objects.exists()
    assert not Job.objects.exists()
    told = [entry.text for entry in read_transcript(chapter).entries]
    assert told == [text for turn in starter.turns for text in (turn.prompt, turn.reply)]


@each_starter
def test_the_rows_say_that_they_came_with_the_starter(starter: Starter) -> None:
    chapter = begin_starter(starter.name)
    lock = chapter.memory_blocks.get()
    assert (lock.type, lock.came_with_starter) == (MemoryBlock.Type.WORLD_CHAPTER_LOCK, True)
    attempts = list(chapter.attempts.all())
    assert len(attempts) == 3
    for attempt in attempts:
        assert attempt.came_with_starter
        assert attempt.status == Attempt.Status.COMMITTED


@each_starter
def test_its_lock_is_one_that_agent_0_could_have_written(starter: Starter) -> None:
    chapter = begin_starter(starter.name)
    payload = chapter.memory_blocks.get().json_payload
    check_payload(payload, WorldChapterLock)
    assert payload == with_roster(payload, chapter.characters)
    # Everybody is told of the lock, so it has no secret.
    for one in starter.characters:
        [secret] = [
            line for line in one.model_dump()["identity"].splitlines() if line.startswith("Secret:")
        ]
        assert secret.removeprefix("Secret: ") not in str(payload)


def test_prompt_4_is_answered_by_a_model_and_is_no_starter_s(provider: ScriptedProvider) -> None:
    chapter = begin_starter("nobody_aboard")
    attempt = play(chapter, next_prompt(chapter))
    assert attempt.status == Attempt.Status.COMMITTED
    assert not attempt.came_with_starter
    [sent] = provider.history
    asked = "\n".join(message.content for message in sent.messages)
    # The model has an example of each voice.
    for turn in STARTERS[0].turns:
        assert turn.reply.splitlines()[0] in asked
    chapter = Session.objects.get(pk=chapter.pk)
    assert (chapter.prompt_index, chapter.next_agent_slot) == (4, 2)
    assert next_prompt(chapter) == ""


def test_the_suggestion_goes_with_the_panel() -> None:
    chapter = begin_starter("nobody_aboard")
    chapter.next_agent_slot = 2
    assert next_prompt(chapter) == ""


class TestOpenedForChange:
    def test_tab_1_is_filled_and_open(self) -> None:
        chapter = open_starter("wanted_one_troll")
        assert chapter.state == State.DRAFT_TAB1
        assert chapter.tab1.world_text == STARTERS[2].world
        assert [one.name for one in chapter.characters] == [
            "Grizel Underarch",
            "Osbert Plum",
            "Wick",
        ]
        assert not chapter.memory_blocks.exists()

    def test_unchanged_it_begins_as_the_card_s_play_does(self, provider: ScriptedProvider) -> None:
        chapter = open_starter("wanted_one_troll")
        assert start_play(chapter.pk) is None
        chapter = Session.objects.get(pk=chapter.pk)
        assert (chapter.state, chapter.prompt_index) == (State.ACTIVE, 3)
        assert not provider.history

    @pytest.mark.parametrize(
        "change",
        [
            {"world_text": "A valley without bridges."},
            {"texts": {"identity_text": {"3": "A goat of forty, who has read law."}}},
        ],
    )
    def test_changed_it_is_an_ordinary_chapter(
        self, change: dict[str, Any], provider: ScriptedProvider, run_jobs: Any
    ) -> None:
        chapter = open_starter("wanted_one_troll")
        save_setup(chapter.pk, SetupChange(**change))
        job = start_play(chapter.pk)
        assert job is not None
        run_jobs()
        chapter = Session.objects.get(pk=chapter.pk)
        assert (chapter.state, chapter.prompt_index, chapter.starter) == (State.ACTIVE, 0, "")
        lock = chapter.memory_blocks.get()
        assert not lock.came_with_starter
        assert len(provider.history) == 1
        assert next_prompt(chapter) == ""
