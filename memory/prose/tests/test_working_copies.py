"""Tests that a draft is edited in a working copy, and that unchanged paragraphs keep their
receipts."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.models import NarrativeDraft, WorkingCopy
from memory.prose.drafts import (
    ToldScene,
    choose_draft,
    chosen_draft,
    forget_choice,
    tell,
)
from memory.prose.editing import working_copies
from memory.prose.editing.working_copies import (
    UnknownWorkingCopy,
    divide,
    get_working_copy,
    keep_working_copy,
    save_working_copy,
    text_to_edit,
    throw_away,
)
from memory.prose.receipts.draft_receipts import read_receipts
from memory.prose.receipts.matching import Confidence, Match
from memory.prose.receipts.paragraphs import split_paragraphs
from memory.prose.tests.told_chapters import TOLD, add_draft, make_told_chapter
from sessions.exceptions import ChapterError, InvalidInput, TooLong, WrongState
from sessions.limits import DRAFT_CHAR_LIMIT, DRAFT_PARAGRAPH_LIMIT
from sessions.models import Session

pytestmark = pytest.mark.django_db
WHOLE = "\n\n".join(TOLD)


@pytest.fixture
def chapter() -> Session:
    return make_told_chapter()


def keep(chapter: Session, draft: NarrativeDraft, text: str) -> NarrativeDraft:
    save_working_copy(chapter.pk, draft.pk, text)
    return keep_working_copy(chapter.pk, draft.pk)


class TestWorkingCopy:
    def test_it_is_saved_and_thrown_away_and_the_draft_stays(self, chapter: Session) -> None:
        draft = add_draft(chapter, WHOLE)
        assert text_to_edit(draft) == WHOLE
        save_working_copy(chapter.pk, draft.pk, "Once.\r\nTwice.")
        save_working_copy(chapter.pk, draft.pk, "Once more.\r\nTwice.")
        assert get_working_copy(chapter.pk, draft.pk).text == "Once more.\nTwice."
        assert text_to_edit(draft) == "Once more.\nTwice."
        assert throw_away(chapter.pk, draft.pk)
        assert not throw_away(chapter.pk, draft.pk)
        with pytest.raises(UnknownWorkingCopy):
            get_working_copy(chapter.pk, draft.pk)
        assert [one.chapter_text for one in chapter.narrative_drafts.all()] == [WHOLE]

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("x" * (DRAFT_CHAR_LIMIT + 1), TooLong),
            ("x\n\n" * (DRAFT_PARAGRAPH_LIMIT + 1), TooLong),
            ("a\x00b", InvalidInput),
        ],
        ids=["characters", "paragraphs", "binary"],
    )
    def test_what_is_too_much_is_refused(
        self, chapter: Session, text: str, error: type[ChapterError]
    ) -> None:
        draft = add_draft(chapter, WHOLE)
        with pytest.raises(error):
            save_working_copy(chapter.pk, draft.pk, text)
        assert not WorkingCopy.objects.exists()


class TestKeeping:
    def test_it_adds_a_draft_that_knows_what_it_came_from(self, chapter: Session) -> None:
        draft = add_draft(chapter, WHOLE, ends=(4,))
        kept = keep(chapter, draft, WHOLE.replace("lantern", "lamp"))
        assert (kept.origin, kept.is_edited, kept.job_id) == (draft, True, None)
        assert kept.attempt == draft.attempt
        assert kept.source_snapshot == draft.source_snapshot
        assert kept.chapter_text == WHOLE.replace("lantern", "lamp")
        assert chapter.narrative_drafts.get(pk=draft.pk).chapter_text == WHOLE
        assert not WorkingCopy.objects.exists()

    def test_there_has_to_be_something_to_keep(self, chapter: Session) -> None:
        draft = add_draft(chapter, WHOLE)
        with pytest.raises(WrongState):
            keep_working_copy(chapter.pk, draft.pk)
        for text, error in ((WHOLE, WrongState), (" \n ", InvalidInput)):
            with pytest.raises(error):
                keep(chapter, draft, text)
            assert get_working_copy(chapter.pk, draft.pk).text == text
        assert chapter.narrative_drafts.count() == 1

    def test_the_same_text_is_kept_once(self, chapter: Session) -> None:
        draft = add_draft(chapter, WHOLE)
        first = keep(chapter, draft, "Another.")
        assert keep(chapter, draft, "Another.") == first
        assert chapter.narrative_drafts.count() == 2

    def test_a_text_that_another_window_changes_meanwhile_is_not_lost(
        self, chapter: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draft = add_draft(chapter, WHOLE)
        whole_edit = working_copies._edit

        def slow_edit(*given: object) -> NarrativeDraft:
            save_working_copy(chapter.pk, draft.pk, "Theirs.")
            return whole_edit(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(working_copies, "_edit", slow_edit)
        with pytest.raises(WrongState):
            keep(chapter, draft, "Mine.")
        assert get_working_copy(chapter.pk, draft.pk).text == "Theirs."
        assert chapter.narrative_drafts.count() == 1


class TestReceipts:
    def test_paragraphs_left_as_they_were_keep_theirs(self, chapter: Session) -> None:
        draft = add_draft(chapter, WHOLE, ends=(4,))
        # A receipt that no matching would find: only what is kept can have it.
        planted = [{"paragraph": 3, "prompts": [2], "confidence": "unsure"}]
        NarrativeDraft.objects.filter(pk=draft.pk).update(kept_receipts=planted, is_edited=True)
        kept = keep(chapter, draft, f"The bailiff nails a warrant to the gate.\n\n{WHOLE}")
        found = [one.match for one in read_receipts(chapter, kept).receipts]
        before = [one.match for one in read_receipts(chapter, get(draft)).receipts]
        assert found[1:] == before
        assert found[3] == Match((2,), Confidence.UNSURE)
        assert found[0] is not None
        assert found[0].prompts == (4,)

    @pytest.mark.weekly
    @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def test_however_often_it_is_edited(self, data: st.DataObject) -> None:
        chapter = make_told_chapter()
        draft = add_draft(chapter, "\n\n".join(TOLD[:2]), "\n\n".join(TOLD[2:]), ends=(2, 4))
        for number in range(3):
            before = {
                one.paragraph.text: one.match for one in read_receipts(chapter, draft).receipts
            }
            texts = list(before)
            for _ in range(data.draw(st.integers(0, 2), label="cuts")):
                texts.pop(data.draw(st.integers(0, len(texts) - 1))) if len(texts) > 1 else None
            at = data.draw(st.integers(0, len(texts)), label="place")
            texts.insert(at, f"Something new stands here, the {number}. time.")
            draft = keep(chapter, draft, "\n\n".join(texts))
            found = {
                one.paragraph.text: one.match for one in read_receipts(chapter, draft).receipts
            }
            assert list(found) == texts
            assert {text: found[text] for text in before if text in found} == {
                text: match for text, match in before.items() if text in found
            }


class TestScenes:
    @given(
        texts=st.lists(
            st.sampled_from(["One.", "Two.", "Three.", "Four."]), min_size=2, max_size=6
        ),
        left=st.lists(st.sampled_from(["One.", "Two.", "Three.", "Four.", "Five."]), min_size=1),
    )
    def test_they_tell_every_prompt_and_the_whole_text(
        self, texts: list[str], left: list[str]
    ) -> None:
        scenes = [ToldScene(at, at, 300, 0) for at in range(1, len(texts) + 1)]
        telling = tell(scenes, texts)
        edited = divide(telling, split_paragraphs(telling.text), "\n\n".join(left))
        assert edited.text == "\n\n".join(left)
        assert "\n\n".join(edited.texts) == edited.text
        assert all(edited.texts)
        assert [one.first for one in edited.scenes] == [
            1,
            *(one.last + 1 for one in edited.scenes[:-1]),
        ]
        assert edited.scenes[-1].last == len(texts)


class TestChosenDraft:
    def test_it_is_the_newest_until_one_is_chosen(self, chapter: Session) -> None:
        assert chosen_draft(chapter) is None
        first = add_draft(chapter, "First.")
        second = add_draft(chapter, "Second.")
        assert chosen_draft(chapter) == second
        choose_draft(chapter.pk, first.pk)
        third = add_draft(chapter, "Third.")
        assert chosen_draft(chapter) == first
        forget_choice(chapter.pk)
        assert chosen_draft(chapter) == third

    def test_an_edited_draft_takes_the_place_of_the_chosen_one_alone(
        self, chapter: Session
    ) -> None:
        first, second = add_draft(chapter, "First."), add_draft(chapter, "Second.")
        edited = keep(chapter, second, "Second, better.")
        assert chosen_draft(chapter) == edited
        keep(chapter, first, "First, better.")
        assert chosen_draft(chapter) == edited
        # A build does not take the place of what the user has edited.
        add_draft(chapter, "Third.")
        assert chosen_draft(chapter) == edited


def get(draft: NarrativeDraft) -> NarrativeDraft:
    return NarrativeDraft.objects.get(pk=draft.pk)
