"""Tests of the transcript on Tab 2, in the order of the points A to I of the specification."""

import pytest
from django.test import TestCase
from hypothesis import given
from hypothesis import strategies as st

from sessions.models import Attempt
from sessions.play.committing import edit_reply
from sessions.record.transcript import (
    BOUNDARY_ABOVE_NOTE,
    DASHED_LINE,
    TRUNCATION_NOTE,
    Entry,
    normalize_blank_lines,
    read_prompts,
    read_transcript,
    window_entries,
)
from sessions.roster import character
from sessions.tests.factories import add_prompts, add_reply, make_active_chapter


@pytest.mark.django_db
def test_prompts_are_numbered_and_replies_are_labelled() -> None:
    chapter = make_active_chapter(agent_names={"2": "Kara"})
    add_prompts(chapter, 2)
    assert read_transcript(chapter).plain_text == (
        "1) beat 1\n\nAgent Red: reply 1\n\n2) beat 2\n\nKara: reply 2"
    )


@pytest.mark.django_db
def test_the_chosen_attempt_is_shown_and_all_replies_where_they_are_asked_for() -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 1)
    add_reply(chapter, 1, "second")
    window = read_transcript(chapter)
    assert window.plain_text == "1) beat 1\n\nAgent Red: second"
    every = read_transcript(chapter, with_all_replies=True)
    assert [entry.rendered for entry in every.entries] == [
        *("1) beat 1", "Agent Red: reply 1", "Agent Red: second")
    ]
    assert [(entry.place, entry.is_chosen) for entry in every.entries] == [
        *(("", True), ("1 of 2", False), ("2 of 2", True))
    ]
    # The plain text, which the user can copy, has only the reply of the chosen attempt.
    assert every.plain_text == window.plain_text


@pytest.mark.django_db
def test_a_reply_says_how_it_was_made() -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 1)
    add_reply(chapter, 1, "tried", is_chosen=False)
    changed = {"layer_name": "AGENT_IDENTITY"}
    Attempt.objects.filter(kind="reroll").update(kind="trial", changed_layer=changed)
    edit_reply(chapter.pk, 1, "by hand")
    every = read_prompts(chapter, 1, 1, with_all_replies=True)
    assert [(entry.text, entry.place, entry.made) for entry in every.entries] == [
        ("beat 1", "", ""),
        ("reply 1", "1 of 3", ""),
        ("tried", "2 of 3", "with the identity changed"),
        ("by hand", "3 of 3", "edited by hand"),
    ]
    told = read_prompts(chapter, 1, 1).entries
    assert [(entry.place, entry.made) for entry in told] == [("", ""), ("", "edited by hand")]


@pytest.mark.django_db
def test_one_dashed_line_stands_after_the_last_summarised_prompt() -> None:
    chapter = make_active_chapter(last_summarized_prompt_index=7)
    add_prompts(chapter, 8)
    text = read_transcript(chapter).plain_text
    assert text.count(DASHED_LINE) == 1
    assert f"reply 7\n\n{DASHED_LINE}\n\n8) beat 8" in text


@pytest.mark.django_db
def test_the_window_shows_the_newest_and_says_what_is_missing() -> None:
    chapter = make_active_chapter(last_summarized_prompt_index=7)
    add_prompts(chapter, 30, reply="x" * 5_000)
    window = read_transcript(chapter)
    assert window.char_count <= 60_000
    assert window.plain_text.startswith(f"{TRUNCATION_NOTE}\n\n{BOUNDARY_ABOVE_NOTE}")
    assert window.entries[-1].text.endswith(" 30")
    assert len(read_transcript(chapter, limit=None).entries) == 60


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\n\n\n\n\nb", "a\n\n\nb"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("a\n \n\t\n\n\nb", "a\n\n\nb"),
        ("\n\na\nb\n", "a\nb"),
    ],
)
def test_blank_lines_are_collapsed_to_two(text: str, shown: str) -> None:
    assert normalize_blank_lines(text) == shown


entries = st.builds(
    Entry,
    prompt_index=st.integers(1, 40),
    role=st.sampled_from(["user", "agent"]),
    prefix=st.sampled_from(["1) ", "Agent Red: "]),
    text=st.text(max_size=120),
    character=st.none() | st.just(character(1)),
)


@given(
    shown=st.lists(entries, max_size=30).map(lambda es: sorted(es, key=lambda e: e.prompt_index)),
    boundary=st.integers(0, 40),
    limit=st.integers(200, 2_000),
)
def test_the_window_is_a_whole_end_of_the_transcript_within_its_limit(
    shown: list[Entry], boundary: int, limit: int
) -> None:
    window = window_entries(reversed(shown), boundary, limit)
    assert window.char_count <= limit
    assert window.entries == shown[len(shown) - len(window.entries) :]
    assert window.is_truncated == (len(window.entries) < len(shown))
    assert window.plain_text.count(DASHED_LINE) <= 1 + sum(
        DASHED_LINE in entry.rendered for entry in shown
    )
    assert window.before_boundary + window.after_boundary == window.entries


class ReadingTheWindow(TestCase):
    def test_takes_one_query_however_long_the_chapter(self) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 40)
        with self.assertNumQueries(1):
            read_transcript(chapter)
