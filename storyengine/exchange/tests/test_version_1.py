"""Tests that a file of version 1 can be imported, and that turns and attempts are made of its
events."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.fold.folding import fold_chapter
from memory.models import MemoryBlock
from sessions.committing import reply_of
from sessions.models import Attempt, Session
from sessions.record import attempts_at
from sessions.tests.factories import make_active_chapter, make_chapter
from sessions.transcript import read_transcript
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.tests.chapters import as_version_1, build_chapter, make_whole_chapter

pytestmark = pytest.mark.django_db

File = dict[str, Any]


def old_file(chapter: Session) -> File:
    return as_version_1(json.loads(export_chapter(chapter.pk).to_json()))


def read(file: File) -> Session:
    return import_chapter(json.dumps(file).encode())


def said(role: str, text: str, number: int, second: int) -> dict[str, Any]:
    return {
        "prompt_index": number,
        "role": role,
        "agent_slot": 1 if role == "agent" else None,
        "text": text,
        "created_at": f"2026-01-31T20:00:{second:02}.000000Z",
    }


def file_of(*events: dict[str, Any], prompts: int) -> File:
    """Return a version 1 file of a chapter in play with these events. The lock is its only memory
    block."""
    chapter = make_whole_chapter()
    file = old_file(chapter)
    file["chapter"] |= {
        "events": list(events),
        "prompt_index": prompts,
        "last_summarized_prompt_index": 0,
        "memory_blocks": file["chapter"]["memory_blocks"][:1],
        "narrative_drafts": [],
    }
    return file


def texts_of(attempt: Attempt) -> list[tuple[str, str]]:
    return [(event.role, event.text) for event in attempt.events.order_by("position")]


class TestTurns:
    def test_each_reply_is_an_attempt_and_the_last_is_chosen(self) -> None:
        copy = read(
            file_of(
                said("user", "Who is there?", 1, 0),
                said("agent", "Nobody.", 1, 1),
                said("agent", "I am.", 1, 2),
                said("user", "Come in.", 2, 3),
                said("agent", "No.", 2, 4),
                prompts=2,
            )
        )
        first, second = copy.turns.order_by("number")
        assert (first.number, second.number) == (1, 2)
        attempts = attempts_at(first)
        assert [texts_of(attempt) for attempt in attempts] == [
            [("user", "Who is there?"), ("agent", "Nobody.")],
            [("user", "Who is there?"), ("agent", "I am.")],
        ]
        assert [attempt.kind for attempt in attempts] == ["prompt", "reroll"]
        assert {attempt.words for attempt in attempts} == {"Who is there?"}
        assert first.chosen == attempts[1]
        assert [attempt.source for attempt in attempts] == [None, None]
        assert reply_of(second.chosen).text == "No."
        assert second.attempts.count() == 1

    def test_times_and_witnesses_are_those_of_play(self) -> None:
        copy = read(
            file_of(said("user", "Who?", 1, 0), said("agent", "I am.", 1, 7), prompts=1),
        )
        attempt = copy.turns.get().chosen
        assert (attempt.submitted_at.second, attempt.actor, attempt.witnesses) == (0, 1, None)
        assert attempt.committed_at is not None
        assert attempt.committed_at.second == 7
        times = [event.created_at.second for event in attempt.events.order_by("position")]
        assert times == [0, 7]
        everybody = copy.selected_agent_slots
        assert [event.witnesses for event in attempt.events.all()] == [everybody, everybody]

    def test_what_the_system_said_is_with_the_chosen_attempt(self) -> None:
        copy = read(
            file_of(
                said("user", "Who is there?", 1, 0),
                said("agent", "Nobody.", 1, 1),
                said("system", "The lamp went out.", 1, 2),
                said("agent", "I am.", 1, 3),
                prompts=1,
            )
        )
        other, chosen = attempts_at(copy.turns.get())
        assert texts_of(other) == [("user", "Who is there?"), ("agent", "Nobody.")]
        assert texts_of(chosen)[2:] == [("system", "The lamp went out.")]

    def test_what_the_system_said_before_the_first_prompt_is_with_the_first_turn(self) -> None:
        copy = read(
            file_of(
                said("system", "It begins.", 0, 0),
                said("user", "Who is there?", 1, 1),
                said("agent", "I am.", 1, 2),
                said("system", "The lamp went out.", 1, 3),
                said("user", "Come in.", 2, 4),
                said("agent", "No.", 2, 5),
                prompts=2,
            )
        )
        first, second = copy.turns.order_by("number")
        assert texts_of(first.chosen) == [
            ("user", "Who is there?"),
            ("agent", "I am."),
            ("system", "It begins."),
            ("system", "The lamp went out."),
        ]
        assert {event.prompt_index for event in first.chosen.events.all()} == {1}
        assert len(texts_of(second.chosen)) == 2


class TestTheRest:
    def test_deltas_and_drafts_are_of_the_chosen_attempts(self) -> None:
        copy = read(old_file(make_whole_chapter()))
        delta = copy.memory_blocks.get(type=MemoryBlock.Type.TURN_DELTA)
        assert delta.attempt == copy.turns.get(number=7).chosen
        others = copy.memory_blocks.exclude(pk=delta.pk)
        assert [block.attempt for block in others] == [None, None]
        last = copy.turns.get(number=10).chosen
        assert reply_of(last).text == "Or so."
        assert [draft.attempt for draft in copy.narrative_drafts.all()] == [last, last, last]

    def test_all_of_the_cast_know_its_memory(self) -> None:
        copy = read(old_file(make_whole_chapter()))
        known = {block.type: block.audience for block in copy.memory_blocks.all()}
        assert len(copy.selected_agent_slots) > 1
        assert known == {
            MemoryBlock.Type.WORLD_CHAPTER_LOCK: None,
            MemoryBlock.Type.TURN_DELTA: copy.selected_agent_slots,
            MemoryBlock.Type.CANON_CORRECTION: copy.selected_agent_slots,
        }

    def test_a_draft_of_nothing_played_is_of_no_attempt(self) -> None:
        file = old_file(make_whole_chapter())
        file["chapter"]["narrative_drafts"][0]["source_snapshot"]["max_prompt_index_used"] = 0
        drafts = read(file).narrative_drafts.order_by("created_at")
        assert [draft.attempt is None for draft in drafts] == [True, False, False]

    def test_words_that_nobody_answered_are_attempts(self) -> None:
        file = old_file(make_whole_chapter())
        file["chapter"]["unanswered_turns"][0] |= {"kind": "reroll", "prompt_index": 9}
        copy = read(file)
        aside, failed = copy.attempts.exclude(status="committed").order_by("submitted_at")
        assert (aside.kind, aside.status, aside.words) == (
            *("reroll", "set_aside", "Words left behind."),
        )
        assert aside.turn == copy.turns.get(number=9)
        assert (failed.kind, failed.status, failed.turn) == ("prompt", "failed", None)
        assert (failed.actor, failed.partial_text, failed.error) == (
            *(1, "Half a re", "The server is gone."),
        )

    @pytest.mark.parametrize("make", [make_chapter, make_active_chapter])
    def test_a_chapter_without_a_prompt(self, make: Any) -> None:
        chapter = make()
        if chapter.tab1_locked:
            MemoryBlock.objects.create(
                session=chapter,
                type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
                from_prompt_index=0,
                to_prompt_index=0,
                json_payload={},
            )
        copy = read(old_file(chapter))
        assert (copy.state, copy.turns.count()) == (chapter.state, 0)


class TestReading:
    def test_it_reads_as_where_it_came_from(self) -> None:
        chapter = make_whole_chapter()
        copy = read(old_file(chapter))
        text = read_transcript(copy).plain_text
        assert text == read_transcript(chapter).plain_text
        assert "Or so." in text
        assert fold_chapter(copy) == fold_chapter(chapter)

    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_so_does_any_chapter(self, data: st.DataObject) -> None:
        # Version 1 has only one audience for each stretch, because all characters could read all of
        # memory.
        chapter = build_chapter(data, most_audiences=1)
        copy = read(old_file(chapter))
        assert read_transcript(copy).plain_text == read_transcript(chapter).plain_text
        assert fold_chapter(copy) == fold_chapter(chapter)

    def test_what_is_exported_then_is_version_2_and_comes_back(self) -> None:
        copy = read(old_file(make_whole_chapter()))
        content = export_chapter(copy.pk).to_json()
        file = json.loads(content)
        assert file["version"] == 2
        assert [len(turn["attempts"]) for turn in file["chapter"]["turns"]] == [1] * 9 + [2]
        again = json.loads(export_chapter(import_chapter(content).pk).to_json())
        assert again["chapter"] == file["chapter"]
