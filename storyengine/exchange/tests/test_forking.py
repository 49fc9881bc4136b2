"""Tests that a fork has everything that its origin had after one of the origin's turns. Later
changes of the fork do not change the origin, and later changes of the origin do not change the
fork."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.flows.replies.choosing import edit_reply
from agents.flows.replies.tests.trying import try_again
from agents.flows.replies.turns import keep_reply
from agents.flows.tests.playing import play, play_many, reroll
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.tests.replies import answer_in_form, world_lock
from memory.canon.corrections import write_correction
from memory.fold.folding import fold_chapter
from memory.models import MemoryBlock
from memory.tests.factories import add_lock
from sessions.chapter.access import get_chapter
from sessions.exceptions import UnknownChapter, UnknownTurn, WrongState
from sessions.models import Attempt, Session, State
from sessions.play.attempts import open_prompt
from sessions.play.breaking import pending_attempt
from sessions.record.transcript import read_transcript
from sessions.tests.factories import (
    add_prompts,
    make_active_chapter,
    make_chapter,
)
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_reading import read_chapter_file
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.invariants import check_invariants
from storyengine.exchange.tests.chapters import (
    OWN,
    add_unanswered,
    build_chapter,
    exported,
    make_whole_chapter,
)
from testing.refusals import NOT_BEGUN

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    provider.fallback = answer_in_form
    chapter = make_active_chapter()
    add_lock(chapter, world_lock())
    return chapter


class TestContents:
    @pytest.mark.parametrize("number", [1, 7, 10, 14])
    def test_it_is_the_chapter_in_which_only_those_turns_were_played(
        self, chapter: Session, run_jobs: RunJobs, number: int
    ) -> None:
        for _ in range(number):
            play_many(chapter, 1)
            run_jobs()
        before = exported(chapter, *OWN)
        for _ in range(number, 17):
            play_many(chapter, 1)
            run_jobs()
        assert get_chapter(chapter.pk).last_summarized_prompt_index == 14
        after = exported(chapter)
        fork = fork_chapter(chapter.pk, number)
        assert exported(fork, *OWN) == before
        assert exported(chapter) == after

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_at_the_last_turn_it_reads_as_its_origin(self, data: st.DataObject) -> None:
        with transaction.atomic():
            origin = build_chapter(data)
            if not origin.prompt_index:
                return
            fork = fork_chapter(origin.pk, origin.prompt_index)
            emptied: dict[str, Any] = {
                "narrative_drafts": [],
                "unanswered_attempts": [],
                "state": "ACTIVE",
            }
            emptied |= {"chosen_draft": None, "working_copies": []}
            kept = exported(origin, *OWN, *emptied, "next_agent_slot")
            assert exported(fork, *OWN, *emptied, "next_agent_slot") == kept
            assert {name: exported(fork)[name] for name in emptied} == emptied
            assert read_transcript(fork).plain_text == read_transcript(origin).plain_text
            assert fold_chapter(fork) == fold_chapter(origin)
            transaction.set_rollback(True)

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_at_any_turn_it_can_be_exported_and_has_nothing_of_later_ones(
        self, data: st.DataObject
    ) -> None:
        with transaction.atomic():
            origin = build_chapter(data)
            if not origin.prompt_index:
                return
            number = data.draw(st.integers(1, origin.prompt_index), label="forked at")
            fork = fork_chapter(origin.pk, number)
            check_invariants(read_chapter_file(export_chapter(fork.pk).to_json()))
            mine, theirs = exported(fork), exported(origin)
            assert mine["turns"] == theirs["turns"][:number]
            blocks = theirs["memory_blocks"]
            assert mine["memory_blocks"] == [
                block for block in blocks if block["to_prompt_index"] <= number
            ]
            assert mine["narrative_drafts"] == mine["unanswered_attempts"] == []
            transaction.set_rollback(True)

    def test_it_has_all_committed_attempts_and_nothing_that_broke(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        play_many(chapter, 2)
        reroll(chapter)
        edit_reply(chapter.pk, 2, "By hand.")
        trial = try_again(chapter, "Be brief.", name="AGENT_IDENTITY")
        assert trial.status == Attempt.Status.COMMITTED
        stopped = Attempt.Status.STOPPED
        add_unanswered(chapter, stopped, words="Half.", partial_text="I keep")
        keep_reply(chapter.pk)
        add_unanswered(chapter, Attempt.Status.SET_ASIDE, words="Left behind.")
        add_unanswered(chapter, Attempt.Status.FAILED, words="It breaks.")
        fork = fork_chapter(chapter.pk, 3)
        assert fork.prompt_index == 3
        kinds = fork.attempts.filter(turn__number=2).order_by("committed_at")
        assert [one.kind for one in kinds] == ["prompt", "reroll", "edit", "trial"]
        assert fork.turns.get(number=2).chosen.kind == Attempt.Kind.EDIT
        [kept] = fork.attempts.filter(turn__number=3)
        assert kept.events.get(position=1).text == "I keep"
        assert not fork.attempts.exclude(status=Attempt.Status.COMMITTED).exists()
        assert pending_attempt(fork) is None

    def test_a_ruling_stands_after_the_turn_at_which_it_was_made(self, chapter: Session) -> None:
        for number in range(1, 6):
            add_prompts(chapter, 1)
            write_correction(chapter.pk, canon=f"True since {number}.", readers=[1, 2])
        fork = fork_chapter(chapter.pk, 3)
        rulings = fork.memory_blocks.filter(type=MemoryBlock.Type.CANON_CORRECTION)
        said = {ruling.json_payload["canon"] for ruling in rulings}
        assert said == {"True since 1.", "True since 2.", "True since 3."}
        assert [ruling.audience for ruling in rulings] == [[1, 2]] * 3
        assert fork.differs_by_reader


class TestStates:
    @pytest.mark.parametrize("state", [State.ACTIVE, State.SUMMARIZING, State.ENDED, "NARRATING"])
    def test_it_is_in_play_whatever_its_origin_is(self, state: str) -> None:
        origin = make_whole_chapter()
        Session.objects.filter(pk=origin.pk).update(
            state=state, is_ending=state == State.SUMMARIZING, accepted_calls=4
        )
        fork = fork_chapter(origin.pk, 10)
        assert (fork.state, fork.is_ending, fork.accepted_calls) == (State.ACTIVE, False, 0)
        assert fork.tab1_locked
        assert get_chapter(origin.pk).state == state

    @pytest.mark.parametrize("state", [State.DRAFT_TAB1, State.LOCKING])
    def test_before_it_has_begun_there_is_nothing_to_fork(self, state: State) -> None:
        origin = make_chapter(state=state)
        with pytest.raises(WrongState, match=NOT_BEGUN):
            fork_chapter(origin.pk, 1)
        assert Session.everything.count() == 1

    @pytest.mark.parametrize("state", [State.IMPORTING, State.RESETTING])
    def test_one_that_is_not_there_has_no_fork(self, state: State) -> None:
        origin = make_whole_chapter()
        Session.objects.filter(pk=origin.pk).update(state=state)
        with pytest.raises(UnknownChapter):
            fork_chapter(origin.pk, 1)
        assert Session.everything.count() == 1

    @pytest.mark.parametrize("number", [-1, 0, 11, 10**30])
    def test_a_turn_that_is_not_there(self, number: int) -> None:
        origin = make_whole_chapter()
        with pytest.raises(UnknownTurn):
            fork_chapter(origin.pk, number)
        assert Session.everything.count() == 1

    def test_what_is_in_flight_is_not_in_it_and_goes_on(self, chapter: Session) -> None:
        add_prompts(chapter, 2)
        running = open_prompt(chapter.pk, actor=1, words="Who?", submission_key="new").attempt
        fork = fork_chapter(chapter.pk, 2)
        assert fork.turn_in_flight is None
        assert fork.attempts.count() == 2
        assert get_chapter(chapter.pk).turn_in_flight == running.pk


class TestPlay:
    def test_the_next_prompt_asks_for_the_memory_that_is_lacking(
        self, chapter: Session, run_jobs: RunJobs, noticed: list[str]
    ) -> None:
        add_prompts(chapter, 9)
        fork = fork_chapter(chapter.pk, 8)
        assert not Job.objects.exists()
        assert noticed == []
        play(fork)
        assert run_jobs() == 1
        fork.refresh_from_db()
        assert (fork.prompt_index, fork.last_summarized_prompt_index) == (9, 7)
        assert get_chapter(chapter.pk).last_summarized_prompt_index == 0

    def test_its_last_turn_can_be_written_again_and_its_origin_stays(
        self, chapter: Session
    ) -> None:
        play_many(chapter, 3)
        before = exported(chapter)
        fork = fork_chapter(chapter.pk, 2)
        reroll(fork)
        assert fork.turns.get(number=2).attempts.count() == 2
        assert exported(chapter) == before
