"""A turn is all or nothing, one at a time, and the same however often it is sent."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from sessions.chapters import choose_panel
from sessions.exceptions import (
    InvalidInput,
    KeyReused,
    TooLong,
    TurnInFlight,
    UnknownChapter,
    WrongState,
)
from sessions.leases import renew_turns
from sessions.models import Event, Session, Turn
from sessions.states import State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from sessions.turns import (
    broken_turn,
    commit_turn,
    extend_broken_text,
    fail_turn,
    open_prompt,
    open_reroll,
    pending_turn,
    recover_stale_turns,
    set_aside,
    set_aside_turns,
    stop_turn,
    take_broken_text,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def send(chapter: Session, text: str = "The door opens.", *, slot: int = 1, key: str = "k") -> Turn:
    return open_prompt(chapter.pk, agent_slot=slot, user_text=text, submission_key=key).turn


def test_a_prompt_is_stored_before_it_counts(chapter: Session) -> None:
    turn = send(chapter)
    chapter.refresh_from_db()
    assert chapter.prompt_index == 0
    assert chapter.turn_in_flight == turn.pk
    assert pending_turn(chapter) == turn
    assert not chapter.events.exists()


def test_a_commit_writes_both_events_and_moves_the_chapter(chapter: Session) -> None:
    turn = send(chapter, "Line one.\r\nLine two.")
    commit_turn(turn, "I step in.")
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
    commit_turn(send(chapter, slot=slot), "Yes.")
    chapter.refresh_from_db()
    assert chapter.next_agent_slot == follows


def test_a_panel_that_was_chosen_during_the_reply_stays(chapter: Session) -> None:
    turn = send(chapter, slot=1)
    choose_panel(chapter.pk, 3)
    commit_turn(turn, "Yes.")
    chapter.refresh_from_db()
    assert chapter.next_agent_slot == 3


def test_a_failed_turn_moves_nothing_and_keeps_words_and_text(chapter: Session) -> None:
    turn = send(chapter)
    fail_turn(turn, error="No answer.", partial_text="I st")
    chapter.refresh_from_db()
    turn.refresh_from_db()
    assert (chapter.prompt_index, chapter.turn_in_flight, chapter.next_agent_slot) == (0, None, 1)
    assert (turn.user_text, turn.partial_text, turn.error) == (
        "The door opens.",
        "I st",
        "No answer.",
    )
    assert broken_turn(chapter) == turn


def test_the_same_submission_in_flight_is_refused(chapter: Session) -> None:
    send(chapter)
    with pytest.raises(TurnInFlight):
        send(chapter)
    assert chapter.turns.count() == 1


def test_a_second_submission_in_flight_is_refused_and_leaves_no_row(chapter: Session) -> None:
    send(chapter, key="one")
    with pytest.raises(TurnInFlight):
        send(chapter, key="two")
    assert chapter.turns.count() == 1


def test_the_same_submission_after_success_is_the_same_turn(chapter: Session) -> None:
    commit_turn(send(chapter), "Yes.")
    again = open_prompt(chapter.pk, agent_slot=1, user_text="The door opens.", submission_key="k")
    assert not again.must_run
    assert again.turn.prompt_index == 1
    chapter.refresh_from_db()
    assert chapter.prompt_index == 1


def test_other_words_under_a_key_that_was_answered_are_refused(chapter: Session) -> None:
    commit_turn(send(chapter), "Yes.")
    with pytest.raises(KeyReused):
        send(chapter, "Other words.")
    with pytest.raises(KeyReused):
        send(chapter, slot=2)


@pytest.mark.parametrize("status", ["failed", "stopped", "set-aside"])
def test_words_that_were_accepted_stay_when_others_come_under_their_key(
    chapter: Session, status: str
) -> None:
    turn = send(chapter)
    if status == "stopped":
        stop_turn(turn, partial_text="I st")
    else:
        fail_turn(turn, error="No answer.", partial_text="I st")
    if status == "set-aside":
        assert set_aside(turn)
    before = chapter.turns.values().get()
    with pytest.raises(KeyReused):
        send(chapter, "Other words.")
    with pytest.raises(KeyReused):
        send(chapter, slot=2)
    assert chapter.turns.values().get() == before
    chapter.refresh_from_db()
    assert chapter.turn_in_flight is None
    # The same words are the same submission: it runs again.
    assert send(chapter).pk == turn.pk


def test_a_broken_turn_that_was_kept_in_another_window_is_not_kept_twice(chapter: Session) -> None:
    stop_turn(send(chapter), partial_text="I step")
    seen_before = broken_turn(chapter)
    kept = take_broken_text(broken_turn(chapter))
    commit_turn(kept, kept.partial_text)
    with pytest.raises(WrongState):
        take_broken_text(seen_before)
    assert chapter.events.count() == 2


def test_words_that_were_set_aside_can_be_read_again(chapter: Session) -> None:
    fail_turn(send(chapter, key="one"), error="No answer.", partial_text="I st")
    commit_turn(send(chapter, "Something else.", key="two"), "Yes.")
    assert [turn.user_text for turn in set_aside_turns(chapter)] == ["The door opens."]


def test_events_keep_their_order_when_the_clock_is_set_back(
    chapter: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_turn(send(chapter, "One.", key="one"), "Yes.")
    earlier = timezone.now() - timedelta(hours=1)
    monkeypatch.setattr("sessions.turns.timezone.now", lambda: earlier)
    commit_turn(send(chapter, "Two.", key="two"), "No.")
    texts = [event.text for event in chapter.events.order_by("created_at")]
    assert texts == ["One.", "Yes.", "Two.", "No."]


def test_the_same_submission_after_a_failure_runs_again(chapter: Session) -> None:
    first = send(chapter)
    fail_turn(first, error="No answer.", partial_text="")
    second = open_prompt(chapter.pk, agent_slot=1, user_text="The door opens.", submission_key="k")
    assert second.must_run
    assert second.turn.pk == first.pk
    assert commit_turn(first, "Too late: this attempt is over.") is None
    assert commit_turn(second.turn, "Yes.") is not None
    assert [event.text for event in chapter.events.all()] == ["The door opens.", "Yes."]


def test_a_failed_turn_does_not_stand_in_the_way(chapter: Session) -> None:
    broken = send(chapter, key="one")
    fail_turn(broken, error="No answer.", partial_text="")
    fresh = send(chapter, "Something else.", key="two")
    commit_turn(fresh, "Yes.")
    broken.refresh_from_db()
    assert broken.status == Turn.Status.SET_ASIDE
    assert broken.user_text == "The door opens."
    assert pending_turn(chapter) is None


def test_a_stop_keeps_the_text_and_it_can_become_the_reply(chapter: Session) -> None:
    turn = send(chapter)
    assert stop_turn(turn, partial_text="I step")
    extend_broken_text(turn, "I step in, and")
    kept = take_broken_text(broken_turn(chapter))
    commit_turn(kept, kept.partial_text)
    assert chapter.events.latest("created_at").text == "I step in, and"


def test_a_turn_that_was_taken_for_dead_gets_all_words_that_were_shown(chapter: Session) -> None:
    turn = send(chapter)
    Turn.objects.update(lease_until=timezone.now() - timedelta(seconds=1), partial_text="I")
    assert recover_stale_turns()
    extend_broken_text(turn, "I step in.")
    assert broken_turn(chapter).partial_text == "I step in."


def test_nothing_to_keep_is_refused(chapter: Session) -> None:
    stop_turn(send(chapter), partial_text="")
    with pytest.raises(WrongState):
        take_broken_text(broken_turn(chapter))
    chapter.refresh_from_db()
    assert chapter.turn_in_flight is None


def test_a_stopped_attempt_cannot_renew_or_commit(chapter: Session) -> None:
    turn = send(chapter)
    assert not renew_turns([(turn, "I st")])
    stop_turn(turn)
    assert renew_turns([(turn, "I step in")]) == {turn.run_id}
    assert commit_turn(turn, "I step in.") is None
    assert not chapter.events.exists()


def test_the_turn_of_a_dead_process_is_failed_with_its_text(chapter: Session) -> None:
    turn = send(chapter)
    renew_turns([(turn, "I st")])
    Turn.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert recover_stale_turns() == 1
    turn.refresh_from_db()
    chapter.refresh_from_db()
    assert (turn.status, turn.partial_text) == (Turn.Status.FAILED, "I st")
    assert "stopped while this reply" in turn.error
    assert chapter.turn_in_flight is None


def test_a_new_prompt_takes_over_from_a_dead_process(chapter: Session) -> None:
    send(chapter, key="one")
    Turn.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert commit_turn(send(chapter, key="two"), "Yes.") is not None


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
    assert not chapter.turns.exists()


def test_the_cap_counts_code_points_and_a_line_break_as_one(chapter: Session) -> None:
    text = "\N{GRINNING FACE}" * 4_998 + "\r\n" + "x"
    assert len(send(chapter, text).user_text) == 5_000


def test_a_slot_that_is_not_in_the_chapter_is_refused(chapter: Session) -> None:
    with pytest.raises(InvalidInput):
        send(chapter, slot=4)


@pytest.mark.parametrize("state", [s for s in State if s not in (State.ACTIVE, State.SUMMARIZING)])
def test_prompts_are_refused_outside_play(state: State) -> None:
    chapter = make_chapter(state=state)
    with pytest.raises(UnknownChapter if state is State.IMPORTING else WrongState):
        send(chapter)


def test_prompting_goes_on_while_memory_is_written() -> None:
    chapter = make_active_chapter(state=State.SUMMARIZING)
    commit_turn(send(chapter), "Yes.")
    chapter.refresh_from_db()
    assert (chapter.prompt_index, chapter.state) == (1, State.SUMMARIZING)


def test_prompts_are_refused_while_the_chapter_is_ending() -> None:
    with pytest.raises(WrongState, match="ending"):
        send(make_active_chapter(is_ending=True))


def test_a_reroll_adds_a_reply_to_the_same_prompt(chapter: Session) -> None:
    add_prompts(chapter, 2)
    turn = open_reroll(chapter.pk, submission_key="r").turn
    commit_turn(turn, "Another answer.")
    chapter.refresh_from_db()
    replies = chapter.events.filter(prompt_index=2, role=Event.Role.AGENT)
    assert [event.text for event in replies] == ["reply 2", "Another answer."]
    assert (chapter.prompt_index, chapter.rerolling_prompt_index) == (2, None)


def test_a_reroll_is_refused_once_memory_covers_its_prompt(chapter: Session) -> None:
    add_prompts(chapter, 7)
    Session.objects.update(last_summarized_prompt_index=7)
    with pytest.raises(WrongState):
        open_reroll(chapter.pk, submission_key="r")
    assert not chapter.turns.exists()


def test_a_key_belongs_to_one_kind_of_turn(chapter: Session) -> None:
    fail_turn(send(chapter), error="No answer.", partial_text="")
    with pytest.raises(InvalidInput):
        open_reroll(chapter.pk, submission_key="k")
    assert broken_turn(chapter).user_text == "The door opens."


def test_a_reroll_needs_a_reply(chapter: Session) -> None:
    with pytest.raises(WrongState):
        open_reroll(chapter.pk, submission_key="r")


def test_a_commit_for_a_chapter_that_was_reset_writes_nothing(chapter: Session) -> None:
    turn = send(chapter)
    Session.objects.filter(pk=chapter.pk).delete()
    assert commit_turn(turn, "Too late.") is None
    assert not Event.objects.exists()


def test_a_reply_is_stored_word_for_word_without_what_no_database_takes(chapter: Session) -> None:
    commit_turn(send(chapter), " a\x00b\ud800c \n")
    assert chapter.events.latest("created_at").text == " a\ufffdb\ufffdc \n"


def test_an_unknown_chapter_is_said_so() -> None:
    with pytest.raises(Exception, match="no such chapter"):
        open_prompt(uuid.uuid4(), agent_slot=1, user_text="x", submission_key="k")
