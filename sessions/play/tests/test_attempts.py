"""Tests that an attempt is stored whole or not at all, and that a submission which is sent again
stores no second attempt.

A chapter has at most one turn in flight.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import choose_panel
from sessions.exceptions import (
    InvalidInput,
    KeyReused,
    TooLong,
    TurnInFlight,
    UnknownChapter,
    WrongState,
)
from sessions.leases import renew_attempts
from sessions.models import Attempt, Event, Session, State
from sessions.play.attempts import Writer, open_prompt, open_reroll, open_trial, start_keeping
from sessions.play.breaking import (
    attempts_set_aside,
    broken_attempt,
    extend_broken_text,
    fail_attempt,
    pending_attempt,
    recover_dead_attempts,
    set_broken_aside,
    stop_attempt,
)
from sessions.play.committing import commit_attempt, edit_reply
from sessions.record.chosen_events import chosen_events
from sessions.tests.factories import add_prompts, make_active_chapter, make_cast, make_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def send(
    chapter: Session, text: str = "The door opens.", *, slot: int = 1, key: str = "k"
) -> Attempt:
    return open_prompt(chapter.pk, actor=slot, words=text, submission_key=key).attempt


def test_a_prompt_is_stored_before_it_counts(chapter: Session) -> None:
    attempt = send(chapter)
    chapter.refresh_from_db()
    assert chapter.prompt_index == 0
    assert chapter.turn_in_flight == attempt.pk
    assert pending_attempt(chapter) == attempt
    assert not chapter.events.exists()


def test_a_commit_writes_both_events_and_moves_the_chapter(chapter: Session) -> None:
    attempt = send(chapter, "Line one.\r\nLine two.")
    commit_attempt(attempt, "I step in.")
    chapter.refresh_from_db()
    user, agent = chapter.events.all()
    assert (chapter.prompt_index, chapter.turn_in_flight) == (1, None)
    assert (user.role, user.prompt_index, user.agent_slot) == ("user", 1, None)
    assert user.text == "Line one.\nLine two."
    assert (agent.role, agent.prompt_index, agent.agent_slot) == ("agent", 1, 1)
    assert agent.text == "I step in."
    assert user.created_at < agent.created_at


@pytest.mark.parametrize(("slot", "follows"), [(1, 2), (2, 3), (3, 1)])
def test_the_panel_goes_to_the_next_higher_slot_and_wraps_round(
    chapter: Session, slot: int, follows: int
) -> None:
    commit_attempt(send(chapter, slot=slot), "Yes.")
    chapter.refresh_from_db()
    assert chapter.next_agent_slot == follows


def test_a_failed_turn_moves_nothing_and_keeps_words_and_text(chapter: Session) -> None:
    attempt = send(chapter)
    fail_attempt(attempt, error="No answer.", partial_text="I st")
    chapter.refresh_from_db()
    attempt.refresh_from_db()
    assert (chapter.prompt_index, chapter.turn_in_flight, chapter.next_agent_slot) == (0, None, 1)
    assert (attempt.words, attempt.partial_text, attempt.error) == (
        "The door opens.",
        "I st",
        "No answer.",
    )
    assert broken_attempt(chapter) == attempt


def test_a_second_submission_in_flight_is_refused_and_leaves_no_row(chapter: Session) -> None:
    send(chapter, key="one")
    with pytest.raises(TurnInFlight):
        send(chapter, key="two")
    assert chapter.attempts.count() == 1


def test_the_same_submission_after_success_is_the_same_turn(chapter: Session) -> None:
    commit_attempt(send(chapter), "Yes.")
    again = open_prompt(chapter.pk, actor=1, words="The door opens.", submission_key="k")
    assert not again.must_run
    assert again.attempt.turn is not None
    assert again.attempt.turn.number == 1
    chapter.refresh_from_db()
    assert chapter.prompt_index == 1


def refuse(_chapter: Session, _actor: int | None) -> Writer:
    raise InvalidInput("Nobody answers by now.")


class TestSentAgain:
    """Tests that a submission which is sent again is found by its key, although the mode would
    refuse it now."""

    def test_a_prompt_that_its_mode_would_refuse_now(self, chapter: Session) -> None:
        sent: dict[str, Any] = {"actor": 3, "words": "The door opens.", "witnesses": [2]}
        first = open_prompt(chapter.pk, submission_key="k", **sent).attempt
        fail_attempt(first, error="No answer.", partial_text="")
        make_cast(chapter, (1,))
        again = open_prompt(chapter.pk, submission_key="k", answers=refuse, **sent)
        assert (again.attempt.pk, again.must_run) == (first.pk, True)
        commit_attempt(again.attempt, "Yes.")
        last = open_prompt(chapter.pk, submission_key="k", answers=refuse, **sent)
        assert (last.attempt.pk, last.must_run) == (first.pk, False)
        with pytest.raises(KeyReused):
            open_prompt(chapter.pk, submission_key="k", answers=refuse, **{**sent, "words": "No."})
        with pytest.raises(InvalidInput, match="by now"):
            open_prompt(chapter.pk, submission_key="other", answers=refuse, **sent)

    def test_who_acted_alone_and_is_not_addressed_by_the_user(self, chapter: Session) -> None:
        first = open_prompt(
            chapter.pk,
            actor=2,
            words="",
            submission_key="k",
            answers=lambda _chapter, actor: Writer(actor, "explorer.keeper", needs_words=False),
        ).attempt
        fail_attempt(first, error="No answer.", partial_text="")
        again = open_prompt(
            chapter.pk,
            actor=2,
            words="",
            submission_key="k",
            answers=lambda _chapter, _actor: Writer(None, "explorer.narrator"),
        )
        assert (again.attempt.pk, again.attempt.agent) == (first.pk, "explorer.keeper")

    def test_an_actor_whom_the_mode_chose_by_a_world_that_has_moved_on(
        self, chapter: Session
    ) -> None:
        def in_turn(chapter: Session, actor: int | None) -> Writer:
            return Writer(actor or 1 + chapter.attempts.count() % 3, needs_words=False)

        sent: dict[str, Any] = {"words": "Go on.", "submission_key": "k", "answers": in_turn}
        first = open_prompt(chapter.pk, actor=None, **sent).attempt
        commit_attempt(first, "I go.")
        again = open_prompt(chapter.pk, actor=None, **sent)
        assert (again.attempt.pk, again.attempt.actor, again.must_run) == (first.pk, 1, False)
        with pytest.raises(KeyReused):
            open_prompt(chapter.pk, actor=2, **sent)


def test_other_words_under_a_key_that_was_answered_are_refused(chapter: Session) -> None:
    commit_attempt(send(chapter), "Yes.")
    with pytest.raises(KeyReused):
        send(chapter, "Other words.")
    with pytest.raises(KeyReused):
        send(chapter, slot=2)


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_words_that_were_accepted_stay_when_others_come_under_their_key(
    chapter: Session, status: str
) -> None:
    attempt = send(chapter)
    if status == "stopped":
        stop_attempt(attempt, partial_text="I st")
    else:
        fail_attempt(attempt, error="No answer.", partial_text="I st")
    before = chapter.attempts.values().get()
    with pytest.raises(KeyReused):
        send(chapter, "Other words.")
    with pytest.raises(KeyReused):
        send(chapter, slot=2)
    assert chapter.attempts.values().get() == before
    chapter.refresh_from_db()
    assert chapter.turn_in_flight is None
    # The first prompt is sent again with its words and its key. So the same attempt runs again.
    assert send(chapter).pk == attempt.pk


def test_what_was_set_aside_stays_so(chapter: Session) -> None:
    fail_attempt(send(chapter), error="No answer.", partial_text="I st")
    set_broken_aside(chapter)
    with pytest.raises(WrongState, match="set aside"):
        send(chapter)
    assert chapter.attempts.get().status == Attempt.Status.SET_ASIDE


def test_a_retry_keeps_the_text_of_the_run_before_until_it_brings_its_own(
    chapter: Session,
) -> None:
    stop_attempt(send(chapter), partial_text="I step")
    again = send(chapter)
    renew_attempts([(again, "")])
    fail_attempt(again, error="No answer.", partial_text="")
    assert broken_attempt(chapter).partial_text == "I step"
    third = send(chapter)
    renew_attempts([(third, "I run")])
    assert chapter.attempts.get().partial_text == "I run"


def test_a_broken_turn_that_was_kept_in_another_window_is_not_kept_twice(chapter: Session) -> None:
    stop_attempt(send(chapter), partial_text="I step")
    seen_before = broken_attempt(chapter)
    kept = start_keeping(broken_attempt(chapter))
    commit_attempt(kept, kept.partial_text)
    with pytest.raises(WrongState):
        start_keeping(seen_before)
    assert chapter.events.count() == 2


def test_words_that_were_set_aside_can_be_read_again(chapter: Session) -> None:
    fail_attempt(send(chapter, key="one"), error="No answer.", partial_text="I st")
    commit_attempt(send(chapter, "Something else.", key="two"), "Yes.")
    assert [attempt.words for attempt in attempts_set_aside(chapter)] == ["The door opens."]


def test_the_same_submission_after_a_failure_runs_again(chapter: Session) -> None:
    first = send(chapter)
    fail_attempt(first, error="No answer.", partial_text="")
    second = open_prompt(chapter.pk, actor=1, words="The door opens.", submission_key="k")
    assert second.must_run
    assert second.attempt.pk == first.pk
    assert commit_attempt(first, "Too late: this attempt is over.") is None
    assert commit_attempt(second.attempt, "Yes.") is not None
    assert [event.text for event in chapter.events.all()] == ["The door opens.", "Yes."]


def test_a_failed_turn_does_not_stand_in_the_way(chapter: Session) -> None:
    broken = send(chapter, key="one")
    fail_attempt(broken, error="No answer.", partial_text="")
    fresh = send(chapter, "Something else.", key="two")
    commit_attempt(fresh, "Yes.")
    broken.refresh_from_db()
    assert broken.status == Attempt.Status.SET_ASIDE
    assert broken.words == "The door opens."
    assert pending_attempt(chapter) is None


def test_a_stop_keeps_the_text_and_it_can_become_the_reply(chapter: Session) -> None:
    attempt = send(chapter)
    assert stop_attempt(attempt, partial_text="I step")
    extend_broken_text(attempt, "I step in, and")
    kept = start_keeping(broken_attempt(chapter))
    commit_attempt(kept, kept.partial_text)
    assert chapter.events.latest("position").text == "I step in, and"


def test_nothing_to_keep_is_refused(chapter: Session) -> None:
    stop_attempt(send(chapter), partial_text="")
    with pytest.raises(WrongState):
        start_keeping(broken_attempt(chapter))
    chapter.refresh_from_db()
    assert chapter.turn_in_flight is None


def test_a_stopped_attempt_cannot_renew_or_commit(chapter: Session) -> None:
    attempt = send(chapter)
    assert not renew_attempts([(attempt, "I st")])
    stop_attempt(attempt)
    assert renew_attempts([(attempt, "I step in")]) == {attempt.run_id}
    assert commit_attempt(attempt, "I step in.") is None
    assert not chapter.events.exists()


def test_the_turn_of_a_dead_process_is_failed_with_its_text(chapter: Session) -> None:
    attempt = send(chapter)
    renew_attempts([(attempt, "I st")])
    Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert recover_dead_attempts() == 1
    attempt.refresh_from_db()
    chapter.refresh_from_db()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.FAILED, "I st")
    assert "stopped while this reply" in attempt.error
    assert chapter.turn_in_flight is None


def test_an_attempt_that_was_taken_for_dead_gets_all_words_that_were_shown(
    chapter: Session,
) -> None:
    attempt = send(chapter)
    past = timezone.now() - timedelta(seconds=1)
    Attempt.objects.update(lease_until=past, partial_text="I")
    assert recover_dead_attempts()
    extend_broken_text(attempt, "I step in.")
    assert broken_attempt(chapter).partial_text == "I step in."


def test_a_new_prompt_takes_over_from_a_dead_process(chapter: Session) -> None:
    send(chapter, key="one")
    Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert commit_attempt(send(chapter, key="two"), "Yes.") is not None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x" * 5001, TooLong),
        ("  \n ", InvalidInput),
        ("a\x00b", InvalidInput),
        ("a\ud800b", InvalidInput),
    ],
)
def test_bad_words_are_refused_and_nothing_is_stored(
    chapter: Session, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        send(chapter, text)
    chapter.refresh_from_db()
    assert chapter.turn_in_flight is None
    assert not chapter.attempts.exists()


def test_a_slot_that_is_not_in_the_chapter_is_refused(chapter: Session) -> None:
    with pytest.raises(InvalidInput):
        send(chapter, slot=4)


@pytest.mark.parametrize("state", [s for s in State if s not in (State.ACTIVE, State.SUMMARIZING)])
def test_prompts_are_refused_outside_play(state: State) -> None:
    chapter = make_chapter(state=state)
    with pytest.raises(UnknownChapter if state is State.IMPORTING else WrongState):
        send(chapter)


def test_prompts_are_refused_while_the_chapter_is_ending() -> None:
    with pytest.raises(WrongState, match="ending"):
        send(make_active_chapter(is_ending=True))


def test_a_reroll_is_another_attempt_at_the_same_turn(chapter: Session) -> None:
    add_prompts(chapter, 2)
    attempt = open_reroll(chapter.pk, submission_key="r").attempt
    commit_attempt(attempt, "Another answer.")
    chapter.refresh_from_db()
    assert [event.text for event in chosen_events(chapter, from_prompt=2)] == [
        *("beat 2", "Another answer.")
    ]
    turn = chapter.turns.get(number=2)
    assert (turn.chosen, turn.attempts.count(), chapter.prompt_index) == (attempt, 2, 2)


def test_a_reroll_is_possible_after_memory_covers_its_turn(chapter: Session) -> None:
    add_prompts(chapter, 7)
    Session.objects.update(last_summarized_prompt_index=7)
    assert open_reroll(chapter.pk, submission_key="r").must_run


def test_a_turn_has_fifty_attempts_at_most(
    chapter: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions.play.latest_turn.MAX_ATTEMPTS_OF_A_TURN", 2)
    add_prompts(chapter, 1)
    commit_attempt(open_reroll(chapter.pk, submission_key="r").attempt, "Another.")
    with pytest.raises(WrongState, match="2 replies"):
        open_reroll(chapter.pk, submission_key="s")
    source = chapter.turns.get().chosen
    with pytest.raises(WrongState, match="2 replies"):
        open_trial(chapter.pk, source=source, changed_layer={}, submission_key="t")
    with pytest.raises(WrongState, match="2 replies"):
        edit_reply(chapter.pk, 1, "By hand.")
    assert chapter.attempts.count() == 2


@pytest.mark.parametrize("witnesses", [[1, 4], [2, 2], [0], [99]])
def test_witnesses_are_of_the_cast_and_each_named_once(
    chapter: Session, witnesses: list[int]
) -> None:
    with pytest.raises(InvalidInput, match="witnesses"):
        open_prompt(chapter.pk, actor=1, words="x", submission_key="k", witnesses=witnesses)
    assert not chapter.attempts.exists()


def test_without_witnesses_everybody_who_is_there_perceives_it(chapter: Session) -> None:
    commit_attempt(send(chapter), "Yes.")
    assert [event.witnesses for event in chapter.events.all()] == [[1, 2, 3], [1, 2, 3]]


def test_a_reroll_needs_a_reply(chapter: Session) -> None:
    with pytest.raises(WrongState):
        open_reroll(chapter.pk, submission_key="r")


def test_a_commit_for_a_chapter_that_was_reset_writes_nothing(chapter: Session) -> None:
    attempt = send(chapter)
    Session.objects.filter(pk=chapter.pk).delete()
    assert commit_attempt(attempt, "Too late.") is None
    assert not Event.objects.exists()


def test_a_reply_is_stored_word_for_word_without_what_no_database_takes(chapter: Session) -> None:
    commit_attempt(send(chapter), " a\x00b\ud800c \n")
    assert chapter.events.latest("position").text == " a\ufffdb\ufffdc \n"


class TestWithoutAnActor:
    """Tests of attempts in which a narrator writes and no member of the cast acts."""

    @pytest.fixture
    def narrated(self) -> Attempt:
        chapter = make_active_chapter()
        opened = open_prompt(
            chapter.pk,
            actor=None,
            words="I open the door.",
            submission_key="k",
            witnesses=[2],
            answers=lambda chapter, actor: Writer(actor, "explorer.narrator"),
        )
        assert commit_attempt(opened.attempt, "It creaks.")
        return opened.attempt

    def test_it_is_committed_and_moves_no_panel(self, narrated: Attempt) -> None:
        chapter = get_chapter(narrated.session_id)
        assert (chapter.prompt_index, chapter.next_agent_slot) == (1, 1)
        reply = narrated.events.get(role=Event.Role.AGENT)
        assert (reply.agent_slot, reply.witnesses) == (None, [2])


def test_a_panel_that_was_chosen_during_the_reply_stays(chapter: Session) -> None:
    attempt = send(chapter, slot=1)
    choose_panel(chapter.pk, 3)
    commit_attempt(attempt, "Yes.")
    chapter.refresh_from_db()
    assert chapter.next_agent_slot == 3
