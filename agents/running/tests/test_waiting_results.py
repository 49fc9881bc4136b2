"""Tests of which late results wait for an attempt: those that no earlier chosen attempt has
taken."""

import pytest

from agents.models import Job
from agents.running.results import waiting_results
from agents.running.tests.finished_results import store_finished_result
from sessions.limits import MAX_RESULTS_OF_A_RUN
from sessions.models import Attempt, Session
from sessions.play.attempts import open_prompt, open_reroll
from sessions.play.breaking import fail_attempt
from sessions.play.committing import choose_attempt, commit_attempt
from sessions.play.played_world import store_changes, take_results
from sessions.play.tests.test_played_world import begin, note, play, world_of
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def finish(asker: Attempt, name: str = "done") -> Job:
    assert asker.turn is not None
    return store_finished_result(asker, asker.turn.number, name)


def take(attempt: Attempt) -> bool:
    return take_results(attempt, waiting_results(attempt))


def test_the_next_run_takes_a_result_first_and_once(chapter: Session) -> None:
    finish(play(chapter, "a"))
    attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
    assert take(attempt)
    store_changes(attempt, note("b"))
    commit_attempt(attempt, "I go.")
    assert world_of(chapter) == ["a", "done", "b"]
    after = begin(chapter, key="k2")
    take(after)
    assert world_of(chapter, attempt=after) == ["a", "done", "b"]


def test_only_the_committed_run_took_it(chapter: Session) -> None:
    finish(play(chapter, "a"))
    broken = begin(chapter)
    take(broken)
    fail_attempt(broken, error="No answer.", partial_text="")
    retry = begin(chapter)
    take(retry)
    commit_attempt(retry, "I go.")
    assert world_of(chapter) == ["a", "done"]


def test_a_result_that_nobody_chosen_took_waits(chapter: Session) -> None:
    finish(play(chapter, "a"))
    first = begin(chapter)
    commit_attempt(first, "I go.")
    reroll = open_reroll(chapter.pk, submission_key="r").attempt
    take(reroll)
    commit_attempt(reroll, "I go otherwise.")
    choose_attempt(chapter.pk, 2, first.pk)
    assert world_of(chapter) == ["a"]
    after = begin(chapter, key="k2")
    take(after)
    commit_attempt(after, "I go on.")
    assert world_of(chapter) == ["a", "done"]


def test_results_are_taken_in_the_order_of_the_turns_that_asked(chapter: Session) -> None:
    first, second = play(chapter), play(chapter)
    finish(second, "2")
    finish(first, "1")
    attempt = begin(chapter)
    take(attempt)
    assert world_of(chapter, attempt=attempt) == ["1", "2"]


def test_a_run_takes_only_so_many_and_the_next_one_takes_the_rest(chapter: Session) -> None:
    asker = play(chapter)
    names = [f"result {number}" for number in range(MAX_RESULTS_OF_A_RUN + 1)]
    for name in names:
        finish(asker, name)
    for key, least in (("k", -1), ("l", len(names))):
        attempt = begin(chapter, key=key)
        take(attempt)
        assert commit_attempt(attempt, "I go.")
        assert world_of(chapter) == names[:least]
