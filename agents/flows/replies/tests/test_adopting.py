"""Tests of a trial that the user adopts: its reply is chosen, and no model is called."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling.records.call_records import calls_behind_prompt
from agents.flows.remembering.late_results import finish_with_result
from agents.flows.replies.choosing import choose_reply
from agents.flows.replies.tests.trying import chapter as chapter
from agents.flows.replies.tests.trying import contents, replies_to, tried
from agents.flows.replies.trials import adopt_trial, read_trial
from agents.flows.tests.playing import play, play_many
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.modes.registry import all_modes
from agents.modes.world_rules import NO_WORLD
from agents.running.job_kinds import JobKind, Watch
from agents.running.jobs import claim
from agents.running.results import ask_for_result
from agents.tests.second_mode import install
from memory.blocks.blocks import counting_blocks
from memory.models import MemoryBlock
from sessions.exceptions import TurnInFlight, WrongState
from sessions.models import Attempt, Session, State
from sessions.play.played_world import changes_that_count
from sessions.record.chosen_events import chosen_events

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


async def run_nothing(job: Job, watch: Watch) -> None:
    """Do nothing, because the tests finish their jobs themselves."""


def chosen_replies(chapter: Session) -> list[str]:
    return list(chosen_events(chapter).filter(role="agent").values_list("text", flat=True))


@pytest.fixture
def seven(provider: ScriptedProvider, chapter: Session) -> Session:
    """Return a chapter with seven answered prompts, whose summary is due."""
    play_many(chapter, 5)
    return chapter


class TestAdopting:
    def test_it_is_chosen_without_a_call_and_the_earlier_reply_stays(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        trial = tried(chapter, provider)
        attempt = adopt_trial(chapter.pk, trial.pk)
        chapter.refresh_from_db()
        assert attempt.pk == trial.pk == chapter.turns.get(number=2).chosen_id
        assert (attempt.kind, attempt.status) == (Attempt.Kind.TRIAL, Attempt.Status.COMMITTED)
        assert replies_to(chapter, 2) == ["I look at the lamp.", "I run to the quay."]
        assert chapter.attempts.count() == 3
        assert (chapter.prompt_index, chapter.turn_in_flight) == (2, None)
        assert len(provider.history) == 3
        behind = calls_behind_prompt(chapter, 2)
        assert [call.use for call in behind.calls] == [
            *("Another reply", "The chosen reply, a trial with the identity changed")
        ]
        trial_now = read_trial(chapter.pk, trial.pk)
        assert (trial_now.is_adopted, trial_now.can_adopt) == (True, False)

    def test_the_next_prompt_and_memory_carry_it_and_not_the_other(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        adopt_trial(chapter.pk, tried(chapter, provider).pk)
        chapter.refresh_from_db()
        asked = len(provider.history)
        play_many(chapter, 5)
        run_jobs()
        later = provider.history[asked:]
        assert len(later) == 6
        for request in later:
            sent = "".join(text for _, text in contents(request))
            assert "I run to the quay." in sent
            assert "I look at the lamp." not in sent

    def test_twice_is_once_also_when_play_has_gone_on(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        trial = tried(chapter, provider)
        attempts = {adopt_trial(chapter.pk, trial.pk).pk for _ in range(2)}
        play(chapter, "On we go.")
        attempts.add(adopt_trial(chapter.pk, trial.pk).pk)
        assert attempts == {trial.pk}
        assert len(replies_to(chapter, 2)) == 2


class TestRefusals:
    def test_once_play_has_gone_on(self, chapter: Session, provider: ScriptedProvider) -> None:
        trial = tried(chapter, provider)
        play(chapter, "On we go.")
        with pytest.raises(WrongState, match="gone on"):
            adopt_trial(chapter.pk, trial.pk)
        chapter.refresh_from_db()
        assert chapter.turn_in_flight is None
        assert [len(replies_to(chapter, number)) for number in (2, 3)] == [2, 1]
        assert chosen_replies(chapter)[1] == "I look at the lamp."

    @pytest.mark.parametrize("changes", [{"state": State.ENDED}, {"is_ending": True}])
    def test_in_a_chapter_that_is_not_in_play(
        self, chapter: Session, provider: ScriptedProvider, changes: Any
    ) -> None:
        trial = tried(chapter, provider)
        Session.objects.update(**changes)
        with pytest.raises(WrongState, match=r"not in play|is ending"):
            adopt_trial(chapter.pk, trial.pk)
        assert chosen_replies(chapter)[1] == "I look at the lamp."

    def test_while_a_reply_is_written(self, chapter: Session, provider: ScriptedProvider) -> None:
        trial = tried(chapter, provider)
        Session.objects.update(turn_in_flight=uuid.uuid4())
        with pytest.raises(TurnInFlight):
            adopt_trial(chapter.pk, trial.pk)
        assert chosen_replies(chapter)[1] == "I look at the lamp."


class TestMemory:
    def test_the_pointer_moves_back_where_memory_covered_the_turn_and_forth_again(
        self, seven: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        def memory() -> tuple[int, int]:
            seven.refresh_from_db()
            deltas = counting_blocks(seven).filter(type=MemoryBlock.Type.TURN_DELTA)
            return seven.last_summarized_prompt_index, deltas.count()

        run_jobs()
        earlier = seven.turns.get(number=7).chosen_id
        trial = tried(seven, provider)
        assert memory() == (7, 1)
        adopt_trial(seven.pk, trial.pk)
        assert memory() == (0, 0)
        choose_reply(seven.pk, 7, earlier)
        assert memory() == (7, 1)
        assert len(provider.history) == 9

    @pytest.mark.parametrize(
        ("before", "after"),
        [(Job.Status.QUEUED, Job.Status.CANCELLED), (Job.Status.RUNNING, Job.Status.RUNNING)],
    )
    def test_a_summary_of_the_earlier_reply_does_not_count(
        self,
        seven: Session,
        provider: ScriptedProvider,
        run_jobs: RunJobs,
        before: Job.Status,
        after: Job.Status,
    ) -> None:
        summary = Job.objects.get(kind=Job.Kind.SUMMARIZE)
        Job.objects.update(status=before, lease_token=uuid.uuid4())
        adopt_trial(seven.pk, tried(seven, provider).pk)
        summary.refresh_from_db()
        assert summary.status == after
        play(seven, "On we go.")
        assert run_jobs() == 1
        seven.refresh_from_db()
        assert seven.last_summarized_prompt_index == 7
        assert "I run to the quay." in provider.history[-1].messages[-1].content


def test_a_trial_takes_the_late_results_that_wait_for_its_turn(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> None:
    kinds = {"sound": JobKind(run_nothing, lambda job, error: None)}
    game_master = all_modes()[0]
    tidal = replace(
        game_master,
        name="tidal",
        play=replace(game_master.play, job_kinds=kinds),
        world=replace(NO_WORLD, change_kinds=frozenset({"tide"})),
    )
    install(monkeypatch, settings, tidal=tidal)
    Session.objects.update(mode="tidal")
    chapter.refresh_from_db()
    asker = chapter.turns.select_related("chosen__turn").get(number=2).chosen
    job = claim(ask_for_result(asker, "sound", "tide").pk)
    assert job is not None
    assert finish_with_result(job, {"level": 3})
    play(chapter, "The tide turns.")
    trial = tried(chapter, provider)
    assert [change.kind for change in trial.changes.all()] == ["tide"]
    adopt_trial(chapter.pk, trial.pk)
    assert [change.attempt for change in changes_that_count(chapter)] == [trial]
