"""A fork has of its origin what was there after one of its turns, and goes on by itself."""

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from agents.calling.spending import check_budget, inherited_spending, spending_of
from agents.exceptions import BudgetSpent
from agents.flows.choosing import edit_reply
from agents.flows.ending import request_end
from agents.flows.replies import keep_reply
from agents.flows.tests.playing import play, play_many, reroll
from agents.flows.tests.trying import try_again
from agents.models import Job, LLMArtifact
from agents.prompting.layers import Tier
from agents.prompting.sandwich import Subject, compose
from agents.providers.base import ModelRequest
from agents.providers.scripted import ScriptedProvider
from agents.running.recovery import recover
from agents.tests.declared import CHARACTERS
from agents.tests.replies import answer_in_form, turn_delta, world_lock
from memory.corrections import write_correction
from memory.fold.folding import fold_chapter
from memory.models import MemoryBlock
from memory.tests.factories import add_delta, add_lock
from sessions import importing
from sessions.access import get_chapter
from sessions.attempts import open_prompt, pending_attempt
from sessions.chapters import delete_chapter, reset_chapter
from sessions.committing import find_turn
from sessions.exceptions import KeyReused, UnknownChapter, UnknownTurn, WrongState
from sessions.models import Attempt, Session, Turn
from sessions.states import State
from sessions.tests.factories import (
    add_prompts,
    add_reply,
    add_turn,
    make_active_chapter,
    make_chapter,
)
from sessions.tests.racing import at_once, successes
from sessions.transcript import read_transcript
from sessions.world import NewChange, add_changes
from storyengine.exchange import exporting, forking
from storyengine.exchange import importing as file_importing
from storyengine.exchange.exporting import export_chapter, export_until
from storyengine.exchange.forking import ForkUnderWay, TooLargeToFork, fork_chapter
from storyengine.exchange.invariants import check_invariants
from storyengine.exchange.limits import OF_THE_OPERATOR
from storyengine.exchange.reading import read_chapter_file
from storyengine.exchange.tests.chapters import (
    add_unanswered,
    build_chapter,
    make_whole_chapter,
)
from storyengine.exchange.tests.test_large_imports import counts, let_lease_run_out

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
# What a fork has of its own.
OWN = ("title", "created_at", "last_played_at")
SECRET = "zq7secret"


def exported(chapter: Session, *without: str) -> dict[str, Any]:
    file = json.loads(export_chapter(chapter.pk).to_json())
    content: dict[str, Any] = file["chapter"]
    return {name: value for name, value in content.items() if name not in without}


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
            emptied = {"narrative_drafts": [], "unanswered_attempts": [], "state": "ACTIVE"}
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

    def test_an_earlier_choice_decides_the_pointer_and_the_dashed_line(
        self, chapter: Session
    ) -> None:
        """A delta of an attempt that is not chosen goes along and does not count."""
        add_prompts(chapter, 7)
        add_delta(chapter, 1, 7, turn_delta(1, 7, canon_locks=["of the first"]))
        add_reply(chapter, 7, "Or so.")
        first = fork_chapter(chapter.pk, 7)
        assert (first.last_summarized_prompt_index, first.memory_blocks.count()) == (0, 2)
        assert not read_transcript(first).boundary_is_visible
        add_delta(chapter, 1, 7, turn_delta(1, 7, canon_locks=["of the second"]))
        Session.objects.filter(pk=chapter.pk).update(last_summarized_prompt_index=7)
        second = fork_chapter(chapter.pk, 7)
        assert (second.last_summarized_prompt_index, second.memory_blocks.count()) == (7, 3)
        assert read_transcript(second).boundary_is_visible
        assert "of the second" in str(fold_chapter(second))
        assert "of the first" not in str(fold_chapter(second))

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

    def test_blocks_of_two_audiences_go_along(self, chapter: Session) -> None:
        add_prompts(chapter, 8)
        for audience in ([1, 2, 3], [1, 2]):
            add_delta(chapter, 1, 7, turn_delta(1, 7), audience=audience)
        Session.objects.filter(pk=chapter.pk).update(last_summarized_prompt_index=7)
        at_7, at_6 = fork_chapter(chapter.pk, 7), fork_chapter(chapter.pk, 6)
        deltas = at_7.memory_blocks.filter(type=MemoryBlock.Type.TURN_DELTA)
        assert [block.audience for block in deltas.order_by("created_at")] == [[1, 2, 3], [1, 2]]
        assert at_7.last_summarized_prompt_index == 7
        assert at_6.last_summarized_prompt_index == 0
        assert at_6.memory_blocks.count() == 1

    def test_the_panel_follows_the_attempt_that_its_last_turn_goes_by(
        self, chapter: Session
    ) -> None:
        for number, actor in ((1, 2), (2, 3)):
            add_turn(chapter, number, words="Go.", reply="I go.", actor=actor)
        Session.objects.filter(pk=chapter.pk).update(prompt_index=2, next_agent_slot=2)
        assert fork_chapter(chapter.pk, 1).next_agent_slot == 3
        assert fork_chapter(chapter.pk, 2).next_agent_slot == 1


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
        with pytest.raises(WrongState, match="has not begun"):
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

    def test_ending_it_asks_for_it_too(self, chapter: Session, run_jobs: RunJobs) -> None:
        add_prompts(chapter, 9)
        fork = fork_chapter(chapter.pk, 4)
        request_end(fork.pk)
        assert run_jobs() == 1
        assert get_chapter(fork.pk).state == State.ENDED

    def test_its_last_turn_can_be_written_again_and_its_origin_stays(
        self, chapter: Session
    ) -> None:
        play_many(chapter, 3)
        before = exported(chapter)
        fork = fork_chapter(chapter.pk, 2)
        reroll(fork)
        assert fork.turns.get(number=2).attempts.count() == 2
        assert exported(chapter) == before

    def test_a_fork_can_be_forked(self, chapter: Session) -> None:
        add_prompts(chapter, 3)
        first = fork_chapter(chapter.pk, 2)
        second = fork_chapter(first.pk, 1)
        assert (second.origin_id, second.origin_title) == (first.pk, first.title)
        assert [second.title, first.title] == ["The Dark Lamp (3)", "The Dark Lamp (2)"]


def repeat_the_secret(request: ModelRequest) -> str:
    """Agent 8 swears to whatever secret it was sent."""
    if "turn_delta" not in request.messages[0].content:
        return answer_in_form(request)
    told = " ".join(message.content for message in request.messages)
    sworn = [f"somebody spoke of {SECRET}"] if SECRET in told else []
    return json.dumps(turn_delta(canon_locks=sworn))


@pytest.mark.parametrize("number", [3, 8])
@pytest.mark.parametrize("tier", ["full", "medium", "minimal"])
def test_what_one_character_may_not_know_is_in_no_prompt_of_its_in_the_fork(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, number: int, tier: Tier
) -> None:
    """Neither before memory covers it, nor afterwards."""
    provider.fallback = repeat_the_secret
    play(chapter, f"She shows it: {SECRET}.", slot=1, witnesses=[2])
    for _ in range(9):
        play_many(chapter, 1)
        run_jobs()
    fork = fork_chapter(chapter.pk, number)

    def knows(slot: int) -> bool:
        subject = Subject(fork, slot, budget_tokens=1_000_000)
        layers = compose(CHARACTERS[slot].layers, subject, tier)
        return any(SECRET in piece.text for layer in layers for piece in layer.pieces)

    for _ in range(12):
        assert [slot for slot in (1, 2, 3) if knows(slot)] == [1, 2]
        play_many(fork, 1)
        run_jobs()
        fork.refresh_from_db()
    assert fork.last_summarized_prompt_index == (number + 12) // 7 * 7


class TestOnce:
    def test_the_same_form_twice_is_the_same_fork(self) -> None:
        origin = make_whole_chapter()
        fork = fork_chapter(origin.pk, 4, submission_key="form")
        assert fork_chapter(origin.pk, 4, submission_key="form") == fork
        assert Session.objects.count() == 2

    def test_without_a_key_each_is_a_fork_of_its_own(self) -> None:
        origin = make_whole_chapter()
        assert fork_chapter(origin.pk, 4) != fork_chapter(origin.pk, 4)

    def test_the_same_form_for_another_turn_is_refused(self) -> None:
        origin = make_whole_chapter()
        fork_chapter(origin.pk, 4, submission_key="form")
        with pytest.raises(KeyReused):
            fork_chapter(origin.pk, 5, submission_key="form")
        assert Session.objects.count() == 2

    def test_the_same_key_for_two_chapters_makes_two(self) -> None:
        forks = {fork_chapter(make_whole_chapter().pk, 4, submission_key="form") for _ in range(2)}
        assert len(forks) == 2

    @pytest.mark.django_db(transaction=True)
    def test_two_at_once_make_one(self) -> None:
        origin = make_whole_chapter()
        results = at_once(*[lambda: fork_chapter(origin.pk, 4, submission_key="form")] * 3)
        made = Session.everything.exclude(pk=origin.pk).get()
        assert made.state == State.ACTIVE
        assert set(successes(results)) == {made}
        refused = [one for one in results if one != made]
        assert all(isinstance(one, ForkUnderWay) for one in refused)
        assert fork_chapter(origin.pk, 4, submission_key="form") == made


class TestHalfAFork:
    @pytest.fixture
    def half_way(self, monkeypatch: pytest.MonkeyPatch) -> Session:
        """What a process has left that died in the middle."""
        origin = make_whole_chapter()

        def die(*_: object) -> None:
            raise SystemExit

        with monkeypatch.context() as patched:
            patched.setattr(importing, "_remove", lambda _chapter: None)
            patched.setattr(file_importing, "_unanswered", die)
            with pytest.raises(SystemExit):
                fork_chapter(origin.pk, 4, submission_key="form")
        left = Session.everything.get(state=State.IMPORTING)
        assert (left.origin_id, left.events.count()) == (origin.pk, 8)
        return left

    def test_it_is_there_for_nobody_and_swept_with_its_lease(self, half_way: Session) -> None:
        origin = Session.objects.get()
        with pytest.raises(UnknownChapter):
            get_chapter(half_way.pk)
        recover()
        assert Session.everything.filter(pk=half_way.pk).exists()
        let_lease_run_out()
        recover()
        assert list(Session.everything.all()) == [origin]
        assert Turn.objects.count() == 10

    def test_the_same_form_waits_for_it_and_then_makes_it_anew(self, half_way: Session) -> None:
        origin = Session.objects.get()
        with pytest.raises(ForkUnderWay) as refused:
            fork_chapter(origin.pk, 4, submission_key="form")
        assert refused.value.retry_seconds
        let_lease_run_out()
        fork = fork_chapter(origin.pk, 4, submission_key="form")
        assert fork.prompt_index == 4
        assert Session.everything.count() == 2

    def test_its_origin_can_be_deleted_meanwhile(self, half_way: Session) -> None:
        delete_chapter(Session.objects.get().pk)
        half_way = Session.everything.get()
        assert (half_way.origin_id, half_way.origin_title) == (None, "The Dark Lamp")

    def test_what_names_it_as_its_origin_is_not_removed_with_it(self, half_way: Session) -> None:
        named = make_chapter(origin=half_way)
        let_lease_run_out()
        recover()
        assert not Session.everything.filter(pk=half_way.pk).exists()
        assert get_chapter(named.pk).origin_id is None

    def test_one_that_fails_leaves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        origin = make_whole_chapter()
        before = counts()
        monkeypatch.setattr(importing, "let_others_write", lambda _seconds: let_lease_run_out())
        with pytest.raises(importing.ImportLost, match="Nothing was kept"):
            fork_chapter(origin.pk, 4)
        assert counts() == before


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dies", [True, False])
def test_whichever_write_fails_the_same_form_makes_one_whole_fork(
    monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """A process that dies removes nothing itself; one whose database fails does, where it can."""
    origin = make_whole_chapter()
    before = counts()
    monkeypatch.setattr(importing, "PIECE_ROWS", 5)
    whole = exported(fork_chapter(origin.pk, 4), *OWN)
    after = counts()
    for at in range(1, 1_000):
        Session.objects.exclude(pk=origin.pk).delete()
        assert counts() == before
        failing = FailingWrite(at)
        with monkeypatch.context() as patched, connection.execute_wrapper(failing):
            if dies:
                patched.setattr(importing, "_remove", lambda _chapter: None)
            with suppress(OperationalError):
                fork_chapter(origin.pk, 4, submission_key="form")
        assert {one.prompt_index for one in Session.objects.all()} <= {4, 10}
        let_lease_run_out()
        fork = fork_chapter(origin.pk, 4, submission_key="form")
        assert exported(fork, *OWN) == whole
        assert counts() == after
        if failing.at > 0:
            break
    assert at > 10


class FailingWrite:
    """Fails the write of this number; `at` is 0 once it has."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and self.at > 0:
            self.at -= 1
            if not self.at:
                raise OperationalError("the disk is full")
        return execute(sql, *args)


class TestLimits:
    @pytest.mark.parametrize(
        ("name", "most"),
        [
            *[("turns", 3), ("attempts", 5), ("events", 7), ("memory_blocks", 1)],
            ("file_bytes", 1_000),
        ],
    )
    def test_more_than_the_operator_may_import_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, name: str, most: int
    ) -> None:
        origin = make_whole_chapter()
        number = 4 if name in ("turns", "events") else 10
        before = counts()
        limit: Any = {name: most}
        monkeypatch.setattr(forking, "OF_THE_OPERATOR", replace(OF_THE_OPERATOR, **limit))
        with pytest.raises(TooLargeToFork, match=f"{most:,}"):
            fork_chapter(origin.pk, number)
        assert counts() == before
        assert fork_chapter(origin.pk, 1).prompt_index == 1

    @pytest.mark.parametrize("limit", [{"changes": 1}, {"results": 0}, {"file_bytes": 2_000}])
    def test_changes_and_late_results_count(
        self, monkeypatch: pytest.MonkeyPatch, limit: dict[str, Any]
    ) -> None:
        origin = make_active_chapter()
        add_lock(origin, world_lock())
        add_prompts(origin, 2)
        second = origin.turns.get(number=2).chosen
        long = NewChange("wrote", {"what": "x" * 1_500})
        add_changes(second, [long], run_id=second.run_id)
        add_changes(second, [long], run_id=None)
        # What a run that was not committed did is not in the fork.
        add_changes(second, [long] * 9, run_id=uuid.uuid4())
        result = {"status": Job.Status.DONE, "result_kind": "tide", "result": {"level": 1}}
        origin.jobs.create(kind="simulate", key="k", attempt=second, to_prompt_index=2, **result)
        monkeypatch.setattr(forking, "OF_THE_OPERATOR", replace(OF_THE_OPERATOR, **limit))
        with pytest.raises(TooLargeToFork):
            fork_chapter(origin.pk, 2)
        assert fork_chapter(origin.pk, 1).prompt_index == 1
        few = replace(OF_THE_OPERATOR, changes=2, results=1)
        monkeypatch.setattr(forking, "OF_THE_OPERATOR", few)
        assert fork_chapter(origin.pk, 2).changes.count() == 2

    def test_only_what_the_fork_would_have_is_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = make_whole_chapter()
        few = replace(OF_THE_OPERATOR, turns=4, attempts=4, events=8, memory_blocks=1)
        monkeypatch.setattr(forking, "OF_THE_OPERATOR", few)
        assert fork_chapter(origin.pk, 4).prompt_index == 4


def add_call(chapter: Session, model: str = "nobody-knows", **tokens: int) -> None:
    LLMArtifact.objects.create(
        session=chapter,
        agent_id=1,
        provider="openai",
        model=model,
        input_hash="-",
        token_counts=tokens,
    )


class TestSpending:
    @pytest.fixture
    def origin(self) -> Session:
        origin = make_whole_chapter()
        add_call(origin, input=600, output=100, cached=0)
        add_call(origin, "o4-mini", input=1_000_000, output=1_000, cached=400_000)
        return origin

    def test_a_fork_has_spent_what_its_origin_had(self, origin: Session) -> None:
        fork = fork_chapter(origin.pk, 4)
        assert spending_of(fork.pk) == spending_of(origin.pk) == inherited_spending(fork)
        assert spending_of(fork.pk).tokens == 1_001_700
        assert not fork.llm_artifacts.exists()

    def test_what_either_spends_afterwards_is_its_own(self, origin: Session) -> None:
        fork = fork_chapter(origin.pk, 4)
        add_call(origin, input=50, output=0, cached=0)
        add_call(fork, input=7, output=0, cached=0)
        assert spending_of(fork.pk).tokens == 1_001_707
        assert inherited_spending(fork).tokens == 1_001_700
        assert spending_of(origin.pk).tokens == 1_001_750

    def test_a_fork_of_a_fork_has_inherited_both(self, origin: Session) -> None:
        first = fork_chapter(origin.pk, 4)
        add_call(first, input=7, output=0, cached=0)
        second = fork_chapter(first.pk, 2)
        delete_chapter(first.pk)
        delete_chapter(origin.pk)
        assert spending_of(second.pk).tokens == 1_001_707

    def test_it_counts_towards_both_caps(self, origin: Session, settings: Any) -> None:
        fork = fork_chapter(origin.pk, 4)
        settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = 0, 700
        with pytest.raises(BudgetSpent, match="700 tokens of the 700"):
            check_budget(fork.pk)
        settings.CHAPTER_TOKENS = 701
        check_budget(fork.pk)
        settings.CHAPTER_BUDGET = inherited_spending(fork).dollars
        with pytest.raises(BudgetSpent):
            check_budget(fork.pk)

    def test_no_further_query_is_asked_for_it(
        self, origin: Session, settings: Any, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        fork = fork_chapter(origin.pk, 4)
        settings.CHAPTER_TOKENS = 10**9
        with django_assert_num_queries(1):
            check_budget(fork.pk)

    def test_a_file_has_none_of_it(self, origin: Session) -> None:
        fork = fork_chapter(origin.pk, 4)
        content = export_chapter(fork.pk).to_json()
        again = file_importing.import_chapter(content)
        assert spending_of(again.pk).tokens == 0
        assert (again.is_fork, again.origin_id) == (False, None)


class TestItsOrigin:
    @pytest.mark.parametrize("end", [delete_chapter, reset_chapter])
    def test_a_fork_outlives_it(self, end: Callable[[Any], object]) -> None:
        origin = make_whole_chapter()
        fork = fork_chapter(origin.pk, 4)
        content = exported(fork)
        end(origin.pk)
        fork.refresh_from_db()
        assert exported(fork) == content
        assert (fork.origin_id, fork.origin_title) == (None, "The Dark Lamp")
        assert fork.forked_at_prompt == 4

    def test_it_outlives_its_forks(self) -> None:
        origin = make_whole_chapter()
        content = exported(origin)
        delete_chapter(fork_chapter(origin.pk, 4).pk)
        assert exported(origin) == content

    def test_one_that_goes_while_it_is_read_has_no_fork(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = make_whole_chapter()
        read = export_until

        def delete_afterwards(*args: Any) -> Any:
            found = read(*args)
            delete_chapter(origin.pk)
            return found

        monkeypatch.setattr(forking, "export_until", delete_afterwards)
        with pytest.raises(UnknownChapter, match="Nothing was stored"):
            fork_chapter(origin.pk, 4)
        assert not Session.everything.exists()

    def test_one_that_goes_in_the_middle_of_the_reading_has_no_fork(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = make_whole_chapter()

        def delete_afterwards(*args: Any) -> Any:
            found = find_turn(*args)
            delete_chapter(origin.pk)
            return found

        monkeypatch.setattr(exporting, "find_turn", delete_afterwards)
        with pytest.raises(UnknownChapter):
            fork_chapter(origin.pk, 4)
        assert not Session.everything.exists()

    @pytest.mark.django_db(transaction=True)
    def test_forks_and_a_deletion_at_once_end_well(self) -> None:
        origin = make_whole_chapter()
        results = at_once(
            lambda: fork_chapter(origin.pk, 4),
            lambda: delete_chapter(origin.pk),
            lambda: fork_chapter(origin.pk, 5),
        )
        made = [one for one in results if isinstance(one, Session)]
        assert set(Session.everything.all()) == set(made)
        assert not Session.everything.filter(origin__isnull=False).exists()
        connection.check_constraints()
