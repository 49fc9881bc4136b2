"""Tests of the events of an attempt, of their witnesses, and of the transcript that shows them."""

from typing import Any

import pytest

from sessions.models import THOUGHT, Attempt, Event, Session
from sessions.play.attempts import open_prompt, open_reroll
from sessions.play.committing import choose_attempt, commit_attempt, edit_reply
from sessions.play.events import NewEvent
from sessions.record.chosen_events import chosen_events, other_events
from sessions.record.transcript import read_prompts, read_transcript
from sessions.tests.factories import add_attempt, make_active_chapter

pytestmark = pytest.mark.django_db

OUTCOME = [
    NewEvent("Who goes there?", 2),
    NewEvent("Not him again.", 3, kind=THOUGHT),
    NewEvent("A shadow passes.", kind="seen", shown={"frame": "quay"}, witnesses=[3]),
    NewEvent("Only me.", 1, witnesses=[2]),
]


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"})


def play(chapter: Session, outcome: Any = OUTCOME, **sent: Any) -> Attempt:
    sent = {"actor": 1, "words": "Night.", "submission_key": "k", **sent}
    attempt = open_prompt(chapter.pk, **sent).attempt
    assert commit_attempt(attempt, outcome)
    chapter.refresh_from_db()
    return attempt


def without_words(chapter: Session, outcome: Any = OUTCOME) -> Attempt:
    """Commit a turn in which character 1 acts without a prompt."""
    attempt = add_attempt(chapter, actor=1, words="", submission_key="own")
    Session.objects.filter(pk=chapter.pk).update(turn_in_flight=attempt.pk)
    assert commit_attempt(attempt, outcome)
    chapter.refresh_from_db()
    return attempt


class TestAnOutcome:
    def test_its_events_follow_the_words_in_order(self, chapter: Session) -> None:
        play(chapter)
        rows = chapter.events.values_list("position", "role", "kind", "agent_slot", "text", "shown")
        assert list(rows) == [
            (0, "user", "said", None, "Night.", None),
            (1, "agent", "said", 2, "Who goes there?", None),
            (2, "agent", "thought", 3, "Not him again.", None),
            (3, "agent", "seen", None, "A shadow passes.", {"frame": "quay"}),
            (4, "agent", "said", 1, "Only me.", None),
        ]

    def test_its_actor_and_who_speaks_are_always_among_the_witnesses(
        self, chapter: Session
    ) -> None:
        play(chapter, witnesses=[1])
        witnesses = list(chapter.events.values_list("witnesses", flat=True))
        # The only witness of a thought is its thinker.
        assert witnesses == [[1], [1, 2], [3], [1, 3], [1, 2]]
        assert chapter.differs_by_reader

    def test_an_edit_keeps_all_but_what_was_said_last(self, chapter: Session) -> None:
        play(chapter)
        edit = edit_reply(chapter.pk, 1, "Nobody.")
        fields = ("position", "role", "kind", "agent_slot", "text", "shown", "witnesses")
        before, after = (
            list(one.events.values_list(*fields)) for one in (edit.source, edit) if one
        )
        assert after == [*before[:-1], (4, "agent", "said", 1, "Nobody.", None, [1, 2])]


class TestATurnWithoutWords:
    def test_it_writes_no_event_of_words(self, chapter: Session) -> None:
        attempt = without_words(chapter)
        roles = [event.role for event in attempt.events.all()]
        assert roles == [Event.Role.AGENT] * 4

    def test_its_transcript_shows_no_bare_number(self, chapter: Session) -> None:
        play(chapter, "I wait.")
        without_words(chapter)
        play(chapter, "I go.", words="Dawn.", submission_key="k3")
        told = "\n\n".join(
            [
                "1) Night.",
                "Mara: I wait.",
                "Tom: Who goes there?",
                "A shadow passes.",
                "Mara: Only me.",
                "3) Dawn.",
                "Mara: I go.",
            ]
        )
        assert read_transcript(chapter).plain_text == told
        assert read_transcript(chapter, limit=None).plain_text == told
        assert read_prompts(chapter, 1, 3).plain_text == told


class TestThoughts:
    def test_the_record_has_them_only_when_asked(self, chapter: Session) -> None:
        play(chapter)
        assert "Not him again." not in [event.text for event in chosen_events(chapter)]
        asked = chosen_events(chapter, with_thoughts=True)
        assert [event.text for event in asked if event.kind == THOUGHT] == ["Not him again."]

    def test_the_transcript_shows_none_also_of_other_attempts(self, chapter: Session) -> None:
        first = play(chapter)
        reroll = open_reroll(chapter.pk, submission_key="r").attempt
        commit_attempt(reroll, [NewEvent("Quiet.", 2), NewEvent("He lies.", 2, kind=THOUGHT)])
        for chosen in (reroll, first):
            choose_attempt(chapter.pk, 1, chosen.pk)
            shown = read_transcript(chapter, with_all_replies=True).entries
            told = [one.text for one in shown]
            assert {"Quiet.", "Only me."} <= set(told)
            assert not {"He lies.", "Not him again."} & set(told)
        assert other_events(chapter, from_prompt=1, to_prompt=1).count() == 2
