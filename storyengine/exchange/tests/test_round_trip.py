"""Tests that an exported and imported chapter is the same chapter, except for its ids."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import Model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.models import Job
from memory.fold.folding import fold_chapter
from memory.models import DraftChoice, MemoryBlock, NarrativeDraft, WorkingCopy
from memory.prose.drafts import chosen_draft
from memory.tests.factories import add_delta, add_lock
from sessions.leases import renew_attempts
from sessions.models import Attempt, Event, EventTerms, Session, State, Tab1Inputs, Turn
from sessions.play.attempts import open_prompt
from sessions.play.breaking import pending_attempt
from sessions.tests.factories import (
    add_prompts,
    add_reply,
    make_active_chapter,
    make_cast,
    make_chapter,
)
from sessions.tests.weekly import few
from storyengine.exchange import exporting, importing
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.tests.chapters import (
    TRIED,
    add_unanswered,
    build_chapter,
    make_whole_chapter,
)

pytestmark = pytest.mark.django_db

# The fields in which an imported chapter may differ: ids, and fields of the process that ran an
# attempt.
_OWN = {
    Session: {"session_id", "story_id", "updated_at", "imported_at"},
    Tab1Inputs: {"session_id", "saved_at"},
    Event: {"event_id", "session_id", "attempt_id"},
    MemoryBlock: {"block_id", "session_id", "attempt_id"},
    NarrativeDraft: {
        *("draft_id", "session_id", "attempt_id", "job_id", "source_snapshot", "origin_id"),
    },
    WorkingCopy: {"draft_id", "session_id"},
    DraftChoice: {"draft_id", "session_id"},
    Turn: {"turn_id", "session_id", "chosen_id"},
    Attempt: {
        *("attempt_id", "session_id", "turn_id", "source_id"),
        *("submission_key", "run_id", "text_run_id", "lease_until", "updated_at"),
    },
}


def without_own(kind: type[Model], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _OWN[kind]}


def exported(chapter: Session) -> dict[str, Any]:
    """Return the content of the chapter's file without the time of the export."""
    file: dict[str, Any] = json.loads(export_chapter(chapter.pk).to_json())
    del file["exported_at"]
    return file


def import_again(chapter: Session) -> Session:
    return import_chapter(export_chapter(chapter.pk).to_json())


def found_by(chapter: Session) -> list[tuple[Any, ...]]:
    """Return the terms of all events of the chapter, also of attempts that are not chosen."""
    terms = EventTerms.objects.filter(event__session=chapter)
    in_order = terms.order_by("event__prompt_index", "event__attempt__committed_at", "event__text")
    return list(in_order.values_list("event__text", "language", "length", "counts"))


def test_an_imported_chapter_is_found_by_the_same_terms_and_its_file_has_none() -> None:
    chapter = make_active_chapter()
    add_lock(chapter, {})
    add_prompts(chapter, 2, text="Wo ist die Laterne, und wer hat sie?", reply="Ich habe sie.")
    english = "What is this, and where is it? Who has been here before them?"
    add_reply(chapter, 2, english, is_chosen=False)
    add_prompts(chapter, 1, text="Laternen", reply="Laternen")
    imported = import_again(chapter)
    assert found_by(imported) == found_by(chapter)
    assert {language for _, language, _, _ in found_by(imported)} == {"english", "german"}
    assert b'latern"' not in export_chapter(chapter.pk).to_json()


def test_the_language_goes_along() -> None:
    chapter = make_active_chapter(language="de-AT")
    add_lock(chapter, {})
    add_prompts(chapter, 1, text="Wo ist die Laterne, und wer hat sie?", reply="Ich habe sie.")
    copy = import_again(chapter)
    assert (copy.language, copy.found_language) == ("de-AT", "de")


@settings(max_examples=few(15, 60), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_chapter_comes_back_the_same(data: st.DataObject) -> None:
    chapter = build_chapter(data)
    copy = import_again(chapter)
    assert copy.pk != chapter.pk
    assert exported(copy) == exported(chapter)
    # The two folds are equal only if the import keeps the order of blocks that have the same time.
    assert fold_chapter(copy) == fold_chapter(chapter)


class TestWholeChapter:
    def test_every_field_of_every_row_comes_back(self) -> None:
        chapter = make_whole_chapter()
        copy = import_again(chapter)
        for kind in (Session, Tab1Inputs):
            [one] = kind._default_manager.filter(pk=copy.pk).values()
            [other] = kind._default_manager.filter(pk=chapter.pk).values()
            assert without_own(kind, one) == without_own(kind, other)
        orders: dict[type[Model], str] = {Attempt: "submitted_at", Turn: "number"}
        orders |= {WorkingCopy: "saved_at", DraftChoice: "chosen_at"}
        kinds = (Attempt, Turn, Event, MemoryBlock, NarrativeDraft, WorkingCopy, DraftChoice)
        for related in kinds:
            all_rows = related._default_manager.order_by(orders.get(related, "created_at")).values()
            copied, original = (
                [without_own(related, row) for row in all_rows.filter(session=owner)]
                for owner in (copy, chapter)
            )
            assert copied == original
            assert len(all_rows) == len(original) * 2 > 0

    def test_a_draft_names_its_origin_and_the_working_copies_name_their_drafts(self) -> None:
        copy = import_again(make_whole_chapter())
        first, second, edited = copy.narrative_drafts.order_by("created_at")
        assert [one.origin_id for one in (first, second, edited)] == [None, None, first.pk]
        assert [one.is_edited for one in (first, second, edited)] == [False, False, True]
        copies = dict(copy.working_copies.values_list("draft", "text"))
        assert copies == {edited.pk: "And again.", second.pk: "The second, unfinished"}
        assert chosen_draft(copy) == first
        kept = {"paragraph": 2, "prompts": [], "confidence": "invented"}
        assert edited.kept_receipts == [kept]

    def test_the_file_names_no_row_of_this_installation(self) -> None:
        chapter = make_whole_chapter()
        text = export_chapter(chapter.pk).to_json().decode()
        for kind in (Session, Attempt, Turn, Event, MemoryBlock, NarrativeDraft):
            ids = list(kind._default_manager.values_list("pk", flat=True))
            assert ids
            assert not [pk for pk in ids if str(pk) in text]

    @pytest.mark.parametrize("names", [{}, {"1": "Tom", "2": "tom"}], ids=["", "two of a name"])
    def test_play_goes_on_from_it(self, names: dict[str, str]) -> None:
        """An older chapter may have two characters of the same name, although Tab 1 now refuses
        this. It can still be played."""
        chapter = make_whole_chapter()
        make_cast(chapter, name=names)
        copy = import_again(chapter)
        assert names.items() <= copy.agent_names.items()
        opened = open_prompt(copy.pk, actor=2, words="On.", submission_key="on")
        assert opened.must_run

    def test_an_import_that_fails_half_way_leaves_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = export_chapter(make_whole_chapter().pk).to_json()

        def break_down(*_: object) -> None:
            raise OperationalError("the disk is full")

        monkeypatch.setattr(importing, "_unanswered", break_down)
        with pytest.raises(OperationalError):
            import_chapter(content)
        assert Session.everything.count() == 1
        assert MemoryBlock.objects.count() == 3

    def test_nothing_is_queued_by_an_import(self, noticed: list[str]) -> None:
        """A file must not cause calls of a model, so an import queues no job even if memory is
        behind."""
        chapter = make_active_chapter()
        add_lock(chapter, {})
        add_prompts(chapter, 8)
        copy = import_again(chapter)
        assert copy.state == State.ACTIVE
        assert not Job.objects.exists()
        assert noticed == []


class TestUnsettled:
    """Tests that a file leaves out work that is still going on."""

    def test_a_lock_that_is_being_written(self) -> None:
        chapter = make_chapter(state=State.LOCKING)
        copy = import_again(chapter)
        assert (copy.state, copy.tab1_locked) == (State.DRAFT_TAB1, False)
        assert copy.tab1.world_text == chapter.tab1.world_text

    @pytest.mark.parametrize("is_ending", [False, True])
    def test_a_summary_that_is_being_written(self, is_ending: bool) -> None:
        chapter = make_whole_chapter()
        Session.objects.filter(pk=chapter.pk).update(state=State.SUMMARIZING, is_ending=is_ending)
        copy = import_again(chapter)
        assert (copy.state, copy.is_ending) == (State.ACTIVE, False)

    def test_a_narration_that_is_being_written(self) -> None:
        chapter = make_whole_chapter()
        add_delta(chapter, 8, 10, {})
        Session.objects.filter(pk=chapter.pk).update(
            state=State.NARRATING, last_summarized_prompt_index=10
        )
        assert import_again(chapter).state == State.ENDED

    def test_a_reply_that_is_being_written_is_one_that_was_stopped(self) -> None:
        chapter = make_whole_chapter()
        attempt = open_prompt(
            chapter.pk, actor=1, words="Who is there?", submission_key="new"
        ).attempt
        renew_attempts([(attempt, "It is")])
        copy = import_again(chapter)
        assert copy.turn_in_flight is None
        pending = pending_attempt(copy)
        assert pending is not None
        assert (pending.status, pending.words, pending.partial_text) == (
            *(Attempt.Status.STOPPED, "Who is there?", "It is"),
        )

    def test_what_came_while_the_chapter_was_read_is_read_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chapter = make_whole_chapter()
        rest = ["One more."]

        def read_late(session: Session) -> Any:
            found = original(session)
            if rest:
                add_prompts(Session.objects.get(pk=chapter.pk), 1, text=rest.pop())
            return found

        original = exporting._events
        monkeypatch.setattr(exporting, "_events", read_late)
        file = exported(chapter)
        assert file["chapter"]["prompt_index"] == 11
        assert file["chapter"]["turns"][-1]["attempts"][0]["words"] == "One more. 11"

    @pytest.mark.parametrize("status", [Attempt.Status.RUNNING, Attempt.Status.FAILED])
    def test_a_trial_that_came_to_nothing_keeps_its_text(self, status: Attempt.Status) -> None:
        chapter = make_whole_chapter()
        turn = chapter.turns.get(number=10)
        trial = {"kind": Attempt.Kind.TRIAL, "turn": turn, "source": turn.chosen}
        add_unanswered(chapter, status, partial_text="I st", changed_layer=TRIED, **trial)
        copy = import_again(chapter)
        come = copy.attempts.get(kind=Attempt.Kind.TRIAL, turn__number=10, partial_text="I st")
        assert come.status != Attempt.Status.RUNNING
        assert come.source == copy.turns.get(number=10).chosen
        assert come.changed_layer == {name: TRIED[name] for name in TRIED if name != "call_id"}
        # The broken prompt or re-roll beside it can still be retried.
        assert pending_attempt(copy) is not None


class TestAttempts:
    """Tests that a file has every attempt, whether it is chosen or not."""

    def test_the_call_that_a_trial_started_from_stays_here(self) -> None:
        chapter = make_whole_chapter()
        call_id = str(uuid.uuid4())
        trial = chapter.attempts.get(kind=Attempt.Kind.TRIAL)
        Attempt.objects.filter(pk=trial.pk).update(changed_layer={**TRIED, "call_id": call_id})
        content = export_chapter(chapter.pk).to_json()
        assert call_id not in content.decode()
        copied = import_chapter(content).attempts.get(kind=Attempt.Kind.TRIAL)
        assert copied.changed_layer == TRIED
