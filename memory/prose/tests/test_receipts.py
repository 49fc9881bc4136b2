"""Tests of receipts as they are read from the rows of a chapter."""

import pytest

from memory.fold.records import Prompts
from memory.prose.receipts.draft_receipts import DraftReceipts, read_receipts
from memory.prose.receipts.matching import Confidence
from memory.prose.tests.told_chapters import BEATS, TOLD, add_draft, make_told_chapter, play
from memory.tests.factories import add_delta
from sessions.models import Session
from sessions.tests.factories import add_reply, add_thoughts, make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_told_chapter()


def prompts_of(receipts: DraftReceipts) -> list[tuple[int, ...]]:
    return [one.prompts for one in receipts.receipts]


def test_each_paragraph_leads_to_its_prompts_and_back(chapter: Session) -> None:
    receipts = read_receipts(chapter, add_draft(chapter, "\n\n".join(TOLD), ends=(4,)))
    assert prompts_of(receipts) == [(1,), (2,), (), (3,)]
    assert receipts.receipts[2].is_invented
    assert receipts.paragraphs_of == {1: [1], 2: [2], 3: [4]}
    assert (receipts.told_count, receipts.invented_count) == (3, 1)
    assert receipts.untold_prompts == [4]


def test_each_scene_says_what_of_its_stretch_is_not_told(chapter: Session) -> None:
    draft = add_draft(chapter, "# The Coin\n\n" + TOLD[0], "\n\n".join(TOLD[2:]), ends=(2, 4))
    first, second = read_receipts(chapter, draft).scenes
    assert [one.paragraph.number for one in first.receipts] == [1, 2]
    assert first.receipts[0].match is None
    assert (first.untold_prompts, second.untold_prompts) == ((2,), (4,))


def test_sentences_that_are_left_out_are_named(chapter: Session) -> None:
    receipts = read_receipts(chapter, add_draft(chapter, *TOLD))
    assert receipts.left_out_of(2) == ["I kneel and count the hymns."]
    assert receipts.left_out_of(4) == [
        "The bailiff nails a warrant to the orchard gate.",
    ]


def test_events_of_memory_that_are_not_told_are_named(chapter: Session) -> None:
    told = {"event": "The ferryman pushed off alone without the coin.", "cause": "", "effect": ""}
    untold = {"event": "The bailiff put a warrant on the gate.", "cause": "", "effect": ""}
    add_delta(chapter, 1, 4, {"major_events": [told, untold]})
    [scene] = read_receipts(chapter, add_draft(chapter, "\n\n".join(TOLD), ends=(4,))).scenes
    [event] = scene.untold_events
    assert (event.text, event.prompts) == (untold["event"], (Prompts(1, 4),))


def test_a_draft_keeps_to_the_reply_that_it_told(chapter: Session) -> None:
    draft = add_draft(chapter, "The bailiff's warrant hung on the gate, and she tore it down.")
    add_reply(chapter, 4, "I dance on the pomegranate cart.")
    assert prompts_of(read_receipts(chapter, draft)) == [(4,)]
    assert [entry.text for entry in read_receipts(chapter, draft).turns[4]] == list(BEATS[3])


def test_thoughts_are_neither_a_source_nor_missing() -> None:
    chapter = make_active_chapter()
    play(chapter, *BEATS[0])
    add_thoughts(chapter, 1)
    [receipt] = read_receipts(chapter, add_draft(chapter, TOLD[0], ends=(2,))).receipts
    assert receipt.match is not None
    assert receipt.match.confidence != Confidence.INVENTED
    assert read_receipts(chapter, add_draft(chapter, TOLD[0], ends=(2,))).untold_prompts == []
