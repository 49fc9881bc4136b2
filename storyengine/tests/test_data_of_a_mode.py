"""Tests of the data of a mode: the data that a prompt has besides its words, and a kind of
memory block of the mode's own."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says, sent_text
from agents.flows.replies.tests.trying import try_again
from agents.llm.providers.failures.call_errors import ProviderTimeout
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.registry import find_mode
from agents.tests.replies import answer_in_form, turn_delta
from memory.blocks.blocks import write_own_block
from memory.fold.block_reading import block_readers
from memory.fold.folding import fold_chapter
from memory.telling.rendering import block_forms, readable_block, render
from memory.tests.factories import write_delta
from sessions.models import Attempt, Session
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.api.tests.calling import RunJobs, address, assert_problem, call
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.importing import import_chapter
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import chosen, played, prompt, reroll, written
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]


class TestGiven:
    """Tests of the data that a prompt has besides its words."""

    NORTH, SOUTH = {"degrees": 0}, {"degrees": 180, "with_a_lamp": True}
    POINTS_NORTH, POINTS_SOUTH = "points to 0 degrees.", "points to 180 degrees with a lamp."

    def test_it_is_in_the_request_of_this_prompt_alone(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I look.", "I wait.")
        played(chapter, given=self.NORTH)
        played(chapter)
        first, second = map(sent_text, provider.history)
        assert self.POINTS_NORTH in first
        assert "points to" not in second
        assert chosen(chapter, 1)["given"] == {"degrees": 0, "with_a_lamp": False}
        assert chosen(chapter, 2)["given"] is None

    def test_a_retry_has_it_without_saying_it_again(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderTimeout("Too slow."), ProviderTimeout("Too slow."), "I look.")
        for given in (self.NORTH, None, self.NORTH):
            answer = prompt(chapter, key="k", given=given)
        assert answer.status_code == 201
        assert all(self.POINTS_NORTH in sent_text(sent) for sent in provider.history)
        assert len(provider.history) == 3
        other = prompt(chapter, key="k", given=self.SOUTH)
        assert_problem(other, 409, "key-reused")

    def test_another_attempt_has_it_unless_it_has_its_own(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I look.", "I stare.", "I turn.")
        played(chapter, given=self.NORTH)
        reroll(chapter)
        reroll(chapter, given=self.SOUTH)
        _, again, turned = map(sent_text, provider.history)
        assert self.POINTS_NORTH in again
        assert self.POINTS_SOUTH in turned
        edit = call("POST", address(chapter, "turns/1/edit"), {"text": "I shade my eyes."})
        assert edit.status_code == 201
        assert chosen(chapter, 1)["given"] == self.SOUTH

    def test_a_trial_has_it_in_all_steps(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I look.")
        played(chapter, given=self.NORTH)
        provider.enqueue(says("native", "I light it.", ("light", {"lamp": "n"})), "It burns.")
        try_again(chapter, "Somebody who is afraid.")
        assert all(self.POINTS_NORTH in sent_text(sent) for sent in provider.history)
        assert len(provider.history) == 3

    def test_a_dry_run_shows_it(self, chapter: Session) -> None:
        body = {"agent_slot": 1, "user_text": "Go on.", "given": self.NORTH}
        layers = call("POST", address(chapter, "dry-run"), body).json()["layers"]
        assert self.POINTS_NORTH in layers[-1]["text"]

    @pytest.mark.parametrize("path", ["prompt", "reroll", "dry-run"])
    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"degrees": 360}, "degrees"),
            ({"degrees": 1, "minutes": 2}, "minutes"),
            ({}, "degrees is missing"),
            ({"degrees": 1, "\x00": 1}, "not text"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self,
        chapter: Session,
        provider: ScriptedProvider,
        path: str,
        given: dict[str, Any],
        problem: str,
    ) -> None:
        provider.enqueue("I look.")
        played(chapter)
        body = {"agent_slot": 1, "user_text": "Go on.", "given": given}
        refused = assert_problem(call("POST", address(chapter, path), body), 422, "invalid-input")
        assert problem in refused["detail"]
        assert Attempt.objects.count() == 1

    def test_a_mode_without_such_a_model_takes_nothing(self) -> None:
        refused = assert_problem(prompt(make_active_chapter(), given={}), 422, "invalid-input")
        assert "carries nothing but its words" in refused["detail"]

    def test_it_has_a_cap(self, chapter: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agents.modes.fields.GIVEN_CHAR_LIMIT", 10)
        refused = assert_problem(prompt(chapter, given=self.SOUTH), 422, "invalid-input")
        assert "longer than 10 characters" in refused["detail"]

    def test_a_copy_from_a_file_retries_with_it(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I look.", ProviderTimeout("Too slow."))
        played(chapter, given=self.NORTH)
        prompt(chapter, given=self.SOUTH)
        copy = import_chapter(written(chapter))
        assert json.loads(written(copy))["chapter"] == json.loads(written(chapter))["chapter"]
        provider.enqueue("I stare.")
        key = call("GET", address(copy)).json()["pending_turn"]["submission_key"]
        played(copy, key=key)
        assert self.POINTS_SOUTH in sent_text(provider.history[-1])
        assert chosen(copy, 1)["given"] == {**self.NORTH, "with_a_lamp": False}

    def test_a_file_with_what_does_not_fit_is_refused(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I look.")
        played(chapter, given=self.NORTH)
        file = json.loads(written(chapter))
        file["chapter"]["turns"][0]["attempts"][0]["given"] = {"degrees": 400}
        problem = r"turns\[0\].attempts\[0\].given is nothing that a prompt of lighthouse carries"
        with pytest.raises(BadChapterFile, match=problem):
            import_chapter(json.dumps(file).encode())


class TestMemoryOfItsOwn:
    """Tests of the mode's own kind of memory block, the log of the signals."""

    @pytest.fixture(autouse=True)
    def _entered(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue("*signal* Keep off.")
        played(chapter, witnesses=[1])

    def blocks(self, chapter: Session) -> Any:
        return call("GET", address(chapter)).json()["memory_blocks"]

    def test_its_readers_are_told_what_it_comes_to(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I climb.", "I row.")
        played(chapter, 1)
        played(chapter, 2)
        _, reader, other = map(sent_text, provider.history)
        assert "<canon>Signal: Keep off.</canon>" in reader
        assert "Keep off" not in other
        [block] = self.blocks(chapter)
        assert (block["type"], block["audience"]) == ("lighthouse.log", [1])
        assert (block["from_prompt_index"], block["to_prompt_index"]) == (1, 1)
        assert block["json_payload"] == {"signals": ["Keep off."]}

    def test_it_is_told_as_the_mode_tells_it(self, chapter: Session) -> None:
        [block] = chapter.memory_blocks.all()
        assert render(block) == "Log of the light, prompt 1\nSignals: Keep off."
        shown = readable_block(block, chapter.characters)
        assert (shown.title, shown.badge) == ("Log of the light, prompt 1, known to Agent Red", "")
        assert [(one.label, one.lines) for one in shown.sections] == [("Signals", ["Keep off."])]
        download = (
            Client().get(reverse("pages:download-everything", args=[chapter.pk])).content.decode()
        )
        assert "Memory: Log of the light, prompt 1, known to Agent Red\n" in download

    def test_it_counts_while_its_attempt_is_chosen_and_is_stored_once(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        first = chosen(chapter, 1)["attempt_id"]
        provider.enqueue("I climb.")
        reroll(chapter)
        assert self.blocks(chapter) == []
        call("POST", address(chapter, "turns/1/choose"), {"attempt_id": first})
        assert len(self.blocks(chapter)) == 1
        provider.enqueue("I row.")
        played(chapter)
        assert chapter.memory_blocks.count() == 1

    def test_one_that_is_not_everybodys_has_requests_composed_anew_for_each(self) -> None:
        chapter = make_active_chapter(mode="lighthouse", selected_agent_slots=(1, 2))
        add_prompts(chapter, 1)
        assert not chapter.differs_by_reader
        write_own_block(chapter.turns.get().chosen, "lighthouse.log", {"signals": ["Stay."]}, [1])
        before = chapter.updated_at
        now = Session.objects.get(pk=chapter.pk)
        assert now.differs_by_reader
        assert now.updated_at > before

    def test_a_stretch_of_its_turn_alone_is_remembered_beside_it(self, chapter: Session) -> None:
        chapter.refresh_from_db()
        attempt = chapter.turns.get().chosen
        assert write_delta(attempt, from_prompt_index=1, payload=turn_delta())
        chapter.refresh_from_db()
        assert chapter.last_summarized_prompt_index == 1
        assert write_delta(attempt, from_prompt_index=1, payload=turn_delta()) is None

    @pytest.mark.parametrize("is_split", [False, True])
    def test_memory_of_an_earlier_stretch_is_written_without_it(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, is_split: bool
    ) -> None:
        """The signal in the latest turn is in no request for an earlier stretch. Another attempt at
        this turn may lack it, and a copy may end before the turn."""
        late = make_active_chapter(
            mode="lighthouse", selected_agent_slots=(1, 2), chunk_size_prompts=3
        )
        provider.enqueue("I climb.", "I look.", "I wait.", "*signal* Come back.")
        for number in range(4):
            played(late, witnesses=[1] if is_split and number == 1 else None)
        provider.fallback = answer_in_form
        run_jobs()
        written = [sent_text(sent) for sent in provider.history if "turn_delta" in sent_text(sent)]
        assert len(written) == 1 + is_split
        assert not any("Come back" in sent for sent in written)

    def what_it_saw(self, chapter: Session) -> str:
        page = Client().get(reverse("pages:memory-calls", args=[chapter.pk, 1]))
        return page.content.decode()

    @pytest.mark.parametrize("is_edited", [False, True])
    def test_what_it_saw_are_the_calls_of_the_reply_that_it_tells(
        self, chapter: Session, provider: ScriptedProvider, is_edited: bool
    ) -> None:
        if is_edited:
            call("POST", address(chapter, "turns/1/edit"), {"text": "Keep away."})
        html = self.what_it_saw(chapter)
        assert "Log of the light, prompt 1" in html
        assert "The reply that it tells" in html
        [made] = chapter.llm_artifacts.all()
        assert f"?call={made.pk}" in html
        assert "You keep a lighthouse." in html

    def test_in_a_copy_no_call_is_recorded_for_it(self, chapter: Session) -> None:
        html = self.what_it_saw(import_chapter(written(chapter)))
        assert "The program made it of the reply to prompt 1" in html

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (
                {"type": "lighthouse.book"},
                "type is no kind of memory block that lighthouse",
            ),
            ({"json_payload": {}}, "json_payload is nothing that Log of the light can tell"),
            ({"json_payload": {"signals": [1]}}, "json_payload is nothing that Log of the light"),
            ({"attempt": None}, "attempt must be null for a lock and a correction"),
            ({"audience": None}, "audience must be null for a world_chapter_lock"),
            ({"from_prompt_index": 2}, "to_prompt_index is before the block's first prompt"),
            ({"from_prompt_index": 0}, "to_prompt_index is before the block's first prompt"),
        ],
    )
    def test_a_file_with_a_block_that_does_not_fit_is_refused(
        self, chapter: Session, change: dict[str, Any], problem: str
    ) -> None:
        file = json.loads(written(chapter))
        file["chapter"]["memory_blocks"][0] |= change
        with pytest.raises(BadChapterFile, match=problem):
            import_chapter(json.dumps(file).encode())

    def test_without_its_mode_it_is_named_and_adds_nothing(
        self, chapter: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delitem(block_forms, "lighthouse.log")
        monkeypatch.delitem(block_readers, "lighthouse.log")
        [block] = chapter.memory_blocks.all()
        assert readable_block(block).title == "Prompt 1"
        assert fold_chapter(chapter).truths == {}


class TestFiles:
    """Tests that the data in a file must fit the declaration of the chapter's mode."""

    @pytest.fixture
    def file(self, chapter: Session, provider: ScriptedProvider) -> Any:
        provider.enqueue("*sea* A wave.")
        played(chapter)
        return json.loads(written(chapter))

    def refused(self, file: Any, problem: str) -> None:
        with pytest.raises(BadChapterFile, match=problem):
            import_chapter(json.dumps(file).encode())

    def test_one_who_acts_may_come_to_what_nobody_says(self, file: Any) -> None:
        copy = import_chapter(json.dumps(file).encode())
        assert [event.agent_slot for event in copy.events.all()] == [None, None]

    def test_an_agent_of_another_mode_is_refused(self, file: Any) -> None:
        file["chapter"]["turns"][0]["attempts"][0]["agent"] = "character"
        self.refused(file, "agent is no agent that lighthouse declares")

    def test_a_draft_is_refused_where_nothing_is_narrated(self, file: Any) -> None:
        file["chapter"]["narrative_drafts"] = [
            {
                "narrative_agent_definition_text": "",
                "target_words": 900,
                "source_snapshot": {"max_prompt_index_used": 1, "memory_blocks_used": []},
                "chapter_text": "A wave came.",
                "created_at": file["exported_at"],
                "attempt": 0,
            }
        ]
        self.refused(file, "narrative_drafts must be empty: lighthouse has no narration")

    def test_a_delta_is_refused_where_nothing_is_remembered(
        self, file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file["chapter"]["last_summarized_prompt_index"] = 1
        file["chapter"]["memory_blocks"] = [
            {
                "type": "turn_delta",
                "from_prompt_index": 1,
                "to_prompt_index": 1,
                "json_payload": {},
                "created_at": file["exported_at"],
                "audience": [1, 2],
                "attempt": 0,
            }
        ]
        import_chapter(json.dumps(file).encode())
        mode = find_mode("lighthouse")
        assert mode is not None
        other = replace(mode, stages=frozenset())
        monkeypatch.setattr("agents.modes.registry.find_mode", lambda name: other)
        self.refused(file, "last_summarized_prompt_index must be 0: lighthouse has no memory")
