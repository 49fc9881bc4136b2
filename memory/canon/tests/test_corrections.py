from typing import Any

import pytest

from memory.blocks.blocks import make_delta, write_deltas
from memory.blocks.stretches import due_stretches
from memory.canon.corrections import write_answer, write_correction
from memory.canon.ruling_payloads import Answer
from memory.fold.folding import fold_chapter, fold_with
from memory.fold.present import present
from memory.fold.tests.fold_blocks import DELTA, LOCK
from memory.models import MemoryBlock
from memory.telling.session_state import Detail, memory_lines
from memory.tests.factories import add_delta, write_delta
from sessions.exceptions import InvalidInput, TooLong, WrongState
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

pytestmark = pytest.mark.django_db

QUESTION = "memory says the keeper drowned, but he knocks"
DOUBT = "is the letter forged, or the keeper's own?"
KNOCKS = "three knocks are the keeper's sign"


@pytest.fixture
def chapter() -> Session:
    """Return a chapter of eight prompts, of which memory covers seven. Memory has one open
    question."""
    chapter = make_active_chapter(last_summarized_prompt_index=7)
    add_prompts(chapter, 8)
    for kind, first, last, payload in (
        (MemoryBlock.Type.WORLD_CHAPTER_LOCK, 0, 0, LOCK),
        (MemoryBlock.Type.TURN_DELTA, 1, 7, DELTA),
    ):
        chapter.memory_blocks.create(
            type=kind, from_prompt_index=first, to_prompt_index=last, json_payload=payload
        )
    return chapter


def canon(chapter: Session) -> list[str]:
    return [fact.text for fact in present(fold_chapter(chapter)).canon]


def rulings(chapter: Session) -> list[MemoryBlock]:
    kind = MemoryBlock.Type.CANON_CORRECTION
    return list(chapter.memory_blocks.filter(type=kind).order_by("created_at"))


class TestWriteCorrection:
    def test_it_is_a_block_at_the_prompt_that_was_played_last(self, chapter: Session) -> None:
        block = write_correction(
            chapter.pk, canon=" The keeper\r\nlives. ", replaces="the keeper drowned", reason="!"
        )
        assert rulings(chapter) == [block]
        assert (block.from_prompt_index, block.to_prompt_index) == (8, 8)
        assert block.json_payload == {
            "memory_type": "canon_correction",
            "replaces": "the keeper drowned",
            "canon": "The keeper\nlives.",
            "reason": "!",
        }
        assert "The keeper lives." in canon(chapter)
        assert "the keeper drowned" not in canon(chapter)

    def test_it_covers_no_prompts_and_memory_goes_on_where_it_was(self, chapter: Session) -> None:
        write_correction(chapter.pk, canon="ice bears weight")
        chapter.refresh_from_db()
        assert chapter.last_summarized_prompt_index == 7
        add_prompts(chapter, 6)
        [chunk] = due_stretches(chapter, is_ending=False)
        assert (chunk.first, chunk.last) == (8, 14)
        assert write_delta(
            chapter.turns.get(number=14).chosen,
            from_prompt_index=8,
            payload={"canon_locks": ["the bell is cracked"]},
        )
        assert canon(chapter)[-2:] == ["ice bears weight", "the bell is cracked"]

    def test_sent_twice_it_is_one_block_and_said_again_later_another(
        self, chapter: Session
    ) -> None:
        first = write_correction(chapter.pk, canon="ice bears weight")
        assert write_correction(chapter.pk, canon="ice bears weight") == first
        write_correction(chapter.pk, replaces="ice bears weight")
        write_correction(chapter.pk, canon="ice bears weight")
        assert len(rulings(chapter)) == 3
        assert "ice bears weight" in canon(chapter)

    @pytest.mark.parametrize("field", ["canon", "replaces", "reason"])
    def test_each_text_is_capped_and_must_be_text(self, chapter: Session, field: str) -> None:
        texts: dict[str, Any] = {"canon": "x", field: "é" * 1000}
        write_correction(chapter.pk, **texts)
        with pytest.raises(TooLong, match="at most 1,000"):
            write_correction(chapter.pk, **{**texts, field: "é" * 1001})
        with pytest.raises(InvalidInput, match="no text"):
            write_correction(chapter.pk, **{**texts, field: "a\x00b"})
        assert len(rulings(chapter)) == 1


class TestStates:
    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"state": State.DRAFT_TAB1}, "before the chapter has begun"),
            ({"state": State.LOCKING}, "before the chapter has begun"),
            ({"state": State.ACTIVE, "tab1_locked": True, "is_ending": True}, "is ending"),
            ({"state": State.NARRATING, "tab1_locked": True}, "being written"),
            ({"state": State.RESETTING, "tab1_locked": True}, "Resetting"),
        ],
    )
    def test_otherwise_it_is_refused_with_the_reason(
        self, fields: dict[str, Any], why: str
    ) -> None:
        chapter = make_chapter(**fields)
        with pytest.raises(WrongState, match=why):
            write_correction(chapter.pk, canon="x")
        with pytest.raises(WrongState, match=why):
            write_answer(chapter.pk, QUESTION, Answer.KEEP)
        assert not rulings(chapter)


class TestWriteAnswer:
    @pytest.mark.parametrize(
        ("answer", "stands"),
        [
            (Answer.KEEP, "the keeper drowned"),
            (Answer.TAKE_NEW, "the keeper lives"),
            (Answer.IGNORE, "the keeper drowned"),
        ],
    )
    def test_each_settles_the_question(self, chapter: Session, answer: Answer, stands: str) -> None:
        block = write_answer(
            chapter.pk, QUESTION, answer, old="the keeper drowned", new="the keeper lives"
        )
        assert block.json_payload["answers"] == QUESTION
        assert block.json_payload["answer"] == answer.value
        assert present(fold_chapter(chapter)).questions == ()
        keeper = {"the keeper drowned", "the keeper lives"}
        assert keeper & set(canon(chapter)) == {stands}

    @pytest.mark.parametrize("answer", [Answer.KEEP, Answer.IGNORE])
    def test_without_the_facts_what_stands_stays(self, chapter: Session, answer: Answer) -> None:
        before = canon(chapter)
        write_answer(chapter.pk, QUESTION, answer)
        assert canon(chapter) == before
        assert present(fold_chapter(chapter)).questions == ()

    @pytest.mark.parametrize("detail", Detail)
    def test_prompts_carry_the_new_and_say_that_the_old_is_no_more(
        self, chapter: Session, detail: Detail
    ) -> None:
        taken: dict[str, Any] = {"old": "The keeper drowned.", "new": "the keeper lives & knocks"}
        write_answer(chapter.pk, QUESTION, Answer.TAKE_NEW, **taken)
        lines = memory_lines(fold_chapter(chapter), chapter.characters, detail=detail)
        texts = [line.text for line in lines]
        assert "<canon>the keeper lives &amp; knocks</canon>" in texts
        assert "<no_longer_true>the keeper drowned</no_longer_true>" in texts
        assert "<canon>the keeper drowned</canon>" not in texts
        assert not any(text.startswith("<unclear>") for text in texts)

    @pytest.mark.parametrize(
        ("facts", "why"),
        [
            ({}, "say in words"),
            ({"old": "the keeper drowned"}, "say in words"),
            ({"old": "the keeper drowned", "new": " \n"}, "say in words"),
            ({"old": "the keeper drowned", "new": "The keeper drowned!"}, "say the same"),
            ({"old": "the keeper was lost", "new": "the keeper lives"}, "in these words"),
            ({"new": "The keeper drowned."}, "canon already"),
        ],
    )
    def test_the_new_is_not_taken_where_nothing_would_change(
        self, chapter: Session, facts: dict[str, Any], why: str
    ) -> None:
        with pytest.raises(InvalidInput, match=why):
            write_answer(chapter.pk, QUESTION, Answer.TAKE_NEW, **facts)
        assert rulings(chapter) == []
        assert len(present(fold_chapter(chapter)).questions) == 1
        write_answer(chapter.pk, QUESTION, Answer.TAKE_NEW, new="the keeper lives")
        assert canon(chapter) == ["the keeper drowned", KNOCKS, "the keeper lives"]

    def test_a_second_answer_is_refused_and_the_same_one_again_is_one(
        self, chapter: Session
    ) -> None:
        first = write_answer(chapter.pk, QUESTION, Answer.KEEP)
        assert write_answer(chapter.pk, QUESTION, Answer.KEEP) == first
        with pytest.raises(WrongState, match="settled already"):
            write_answer(chapter.pk, QUESTION, Answer.TAKE_NEW)
        assert rulings(chapter) == [first]


class TestReaders:
    """Tests of the characters who may read a ruling.

    These are the characters who knew the fact or the question that the ruling settles. If no
    character knew it, all characters may read the ruling. The GM may name other readers.
    """

    @pytest.fixture
    def torn(self, chapter: Session) -> Session:
        """Return the chapter with a fact and a question that only characters 1 and 3 know.

        All characters know the other facts.
        """
        secret = {"canon_locks": ["the letter is forged"], "contradictions_or_questions": [DOUBT]}
        add_delta(chapter, 1, 7, secret, audience=[1, 3])
        chapter.refresh_from_db()
        return chapter

    @pytest.mark.parametrize(
        ("settled", "readers"),
        [
            ("the letter is forged", [1, 3]),
            ("The letter is forged!", [1, 3]),
            ("Mara: the letter is forged, and he knows", [1, 3]),
            (KNOCKS, [1, 2, 3]),
            ("the moon is cheese", [1, 2, 3]),
            ("", [1, 2, 3]),
        ],
    )
    def test_those_who_knew_the_fact_read_its_correction(
        self, torn: Session, settled: str, readers: list[int]
    ) -> None:
        block = write_correction(torn.pk, canon="it was Tom's hand", replaces=settled)
        assert block.audience == readers
        # The ruling has removed the old fact from memory. If the same ruling is sent again, it
        # still has the readers who knew the old fact.
        assert write_correction(torn.pk, canon="it was Tom's hand", replaces=settled) == block
        for slot in torn.selected_agent_slots:
            told = [fact.text for fact in present(fold_chapter(torn, readers=[slot])).canon]
            assert ("it was Tom's hand" in told) == (slot in readers)
        assert "it was Tom's hand" in canon(torn)

    def test_those_who_knew_the_question_read_its_answer(self, torn: Session) -> None:
        taken = {"old": KNOCKS, "new": "the letter is his sign"}
        block = write_answer(torn.pk, DOUBT, Answer.TAKE_NEW, old=taken["old"], new=taken["new"])
        assert block.audience == [1, 3]
        assert write_answer(torn.pk, QUESTION, Answer.IGNORE).audience == [1, 2, 3]

    @pytest.mark.parametrize("readers", [[4], [1, 1], [0]])
    def test_they_are_of_the_cast(self, torn: Session, readers: list[int]) -> None:
        with pytest.raises(InvalidInput, match="readers"):
            write_correction(torn.pk, canon="x is y", readers=readers)
        with pytest.raises(InvalidInput, match="readers"):
            write_answer(torn.pk, DOUBT, Answer.KEEP, readers=readers)
        assert not rulings(torn)

    def test_prompts_are_told_apart_from_then_on(self, chapter: Session) -> None:
        write_correction(chapter.pk, canon="all know it")
        chapter.refresh_from_db()
        assert not chapter.differs_by_reader
        write_correction(chapter.pk, canon="two know it", readers=[1, 2])
        chapter.refresh_from_db()
        assert chapter.differs_by_reader


@pytest.mark.parametrize("played_since", [6, 7], ids=["at its last turn", "a turn later"])
def test_a_delta_that_comes_late_stands_before_the_rulings_made_after_its_turn(
    chapter: Session, played_since: int
) -> None:
    """A ruling also applies to a delta that is stored later, if the ruling was made after the last
    turn of this delta."""
    add_prompts(chapter, played_since)
    write_correction(chapter.pk, replaces="the bell tolls", canon="the bell is still")
    asked = {
        "canon_locks": ["the bell tolls"],
        "contradictions_or_questions": ["is the bell cast?"],
    }
    last = chapter.turns.get(number=14).chosen
    about: Any = {"from_prompt_index": 8, "audience": [1, 2, 3], "payload": asked}
    late = make_delta(last, **about)
    waiting = fold_with(chapter, [late], readers=[1, 2])
    write_deltas([late])
    stored = fold_chapter(chapter, readers=[1, 2])
    assert waiting == stored == fold_chapter(chapter)
    assert "the bell is still" in canon(chapter)
    assert "the bell tolls" not in canon(chapter)
