"""Tests of the lines of memory that a question is about, on both databases."""

from typing import Any

import pytest

from memory.canon.corrections import write_correction
from memory.recall.recalling import Passage, Reader, recall
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import add_reply, add_turn, make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

# The scores of the last test.
SCORES = [(8, 1.862588566), (4, 1.344136078), (4, 1.318299658)]

DELTA: dict[str, Any] = {
    "major_events": [{"event": "The ferry sank", "cause": "a rotten plank"}],
    "character_actions": [
        {
            "agent_slot": 1,
            "name": "Mara",
            "did": "cut the rope",
            "intent": "to drown the bailiff",
            "result": "the mast fell",
        }
    ],
    "state_changes": [{"key": "lantern", "before": "", "after": "broken", "notes": "by hail"}],
    "relationship_shifts": [
        {"between": ["Tom", "Ilse"], "change": "quarrelled", "evidence": "over a violin"}
    ],
    "items_clues_discovered": [
        {"thing": "a copper key", "who_found": "Tom", "why_it_matters": "opens the granary"}
    ],
    "unresolved_threads": [{"thread": "Who rang the bell?", "stakes": "the harvest"}],
    "canon_locks": ["Otters cannot lie"],
    "contradictions_or_questions": ["Was the priest a soldier?"],
}


@pytest.fixture
def chapter() -> Session:
    chapter = make_active_chapter(agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"})
    for number in range(1, 9):
        add_turn(chapter, number, words=f"Walk {number}.", reply="I nod.")
    chapter.prompt_index = 8
    chapter.save()
    add_lock(chapter, {"world": {"key_lore": ["Giants built the aqueduct."]}})
    add_delta(chapter, 1, 4, DELTA)
    return chapter


def ask(chapter: Session, question: str, k: int = 5, **reader: object) -> list[Passage]:
    return recall(Reader(chapter, **reader), question, k)  # type: ignore[arg-type]


def test_how_things_stand_is_found_even_beyond_the_number_that_was_asked_for(
    chapter: Session,
) -> None:
    question = "Mara cut the rope and the mast fell: is the lantern whole?"
    held = "Memory, prompts 1-4: how it stands: lantern: broken (by hail)"
    assert held not in [one.text for one in recall(Reader(chapter), question, 1)]
    first, *others = recall(Reader(chapter), question, 1, k_of_now=1)
    assert "cut the rope" in first.text
    assert [one.text for one in others] == [held]


def texts(chapter: Session, question: str, **reader: object) -> list[str]:
    return [one.text for one in ask(chapter, question, 5, **reader)]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("what sank for a plank", "The ferry sank (cause: a rotten plank)"),
        (
            "cutting ropes",
            "Mara: cut the rope (intent: to drown the bailiff; result: the mast fell)",
        ),
        ("hail", "how it stands: lantern: broken (by hail)"),
        ("violins", "Tom and Ilse: quarrelled (over a violin)"),
        ("granary key", "found: a copper key (by Tom; opens the granary)"),
        ("the harvest", "open thread: Who rang the bell? (at stake: the harvest)"),
        ("OTTERS", "canon: Otters cannot lie"),
        ("priest", "unclear: Was the priest a soldier?"),
    ],
)
def test_every_kind_of_entry_is_found_and_named_by_its_prompts(
    chapter: Session, question: str, text: str
) -> None:
    [best, *_] = ask(chapter, question)
    assert best.text == f"Memory, prompts 1-4: {text}"
    assert (best.prompt_index, best.entries) == (4, ())


@pytest.mark.parametrize(
    ("event", "question"),
    [
        ("Der Vogt verbrannte die Urkunden im Turm", "Wer hat die Urkunde verbrannt?"),
        ("渡し守は銅貨を受け取らなかった", "銅貨は誰が受け取った"),
        ("船夫把铜币扔进河里", "铜币在哪里"),
    ],
)
def test_words_of_other_languages_are_found(chapter: Session, event: str, question: str) -> None:
    add_delta(chapter, 5, 8, {"major_events": [{"event": event}]})
    assert texts(chapter, question)[:1] == [f"Memory, prompts 5-8: {event}"]


class TestAReader:
    def test_finds_nothing_in_blocks_that_it_may_not_read(self, chapter: Session) -> None:
        told = {"major_events": [{"event": "The abbot is a forger"}]}
        add_delta(chapter, 5, 8, told, audience=[1, 3])
        assert len(texts(chapter, "forger")) == len(texts(chapter, "forger", readers=(3,))) == 1
        assert texts(chapter, "forger", readers=(2,)) == []
        assert texts(chapter, "forger", readers=(1, 2)) == []

    def test_finds_an_intent_only_if_it_is_its_own(self, chapter: Session) -> None:
        assert "to drown" in texts(chapter, "who drowns a bailiff", readers=(1,))[0]
        assert texts(chapter, "who drowns a bailiff", readers=(2,)) == []
        assert texts(chapter, "who drowns a bailiff", readers=(1, 2)) == []
        [told] = texts(chapter, "cut the rope", readers=(2,))
        assert "to drown" not in told
        assert "the mast fell" in told

    def test_learns_nothing_from_the_score_of_what_it_may_not_read(self, chapter: Session) -> None:
        before = [one.score for one in ask(chapter, "ferry", readers=(2,))]
        told = {"major_events": [{"event": f"Ferry {at}"} for at in range(9)]}
        add_delta(chapter, 5, 8, told, audience=[1, 3])
        assert [one.score for one in ask(chapter, "ferry", readers=(2,))] == before

    def test_finds_nothing_after_its_last_prompt(self, chapter: Session) -> None:
        assert texts(chapter, "otters", until=3) == []
        assert len(texts(chapter, "otters", until=4)) == 1


class TestARuling:
    def test_hides_what_it_withdraws_and_is_found_itself(self, chapter: Session) -> None:
        write_correction(chapter.pk, replaces="Otters cannot lie", canon="Otters lie on Sundays")
        chapter.refresh_from_db()
        assert texts(chapter, "otters") == ["Memory, prompt 8: canon: Otters lie on Sundays"]


def test_a_block_of_a_reply_that_is_not_chosen_is_not_found(chapter: Session) -> None:
    add_delta(chapter, 5, 8, {"canon_locks": ["A zeppelin landed"]})
    assert len(texts(chapter, "zeppelin")) == 1
    add_reply(chapter, 8, "I shake my head.")
    assert texts(chapter, "zeppelin") == []


def test_the_scores_are_the_same_on_every_database(chapter: Session) -> None:
    add_delta(chapter, 5, 8, {"major_events": [{"event": "The ferry rose again"}]})
    found = [(one.prompt_index, round(one.score, 9)) for one in ask(chapter, "ferry rope")]
    assert found == SCORES
