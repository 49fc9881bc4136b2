"""Tests of the search that people use: its order, its excerpts, and what it shows once."""

# ruff: noqa: RUF001

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.recall.questions import Question, Reader
from memory.recall.searching import Found, _excerpt, search
from memory.tests.factories import add_delta
from sessions.language.spelling import plain_spelling
from sessions.language.tests.test_spelling import MARKED
from sessions.language.words import AsTyped, places_of, terms_of
from sessions.models import Session
from sessions.tests.factories import add_turn, make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

WORDS = (
    *("Zoë", "cafés", "Łódź", "naïve", "שָׁלוֹם", "مُحَمَّد", "灯台の鍵", "등대가", "ประภาคาร"),
    *("दीपक", "Ёлка", "ｆｕｌｌ"),
)
TEXTS = st.lists(st.sampled_from(WORDS) | MARKED, max_size=80).map(" ".join)


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara", "2": "Tom"})


def play(chapter: Session, words: str, reply: str = "I nod.") -> None:
    chapter.prompt_index += 1
    chapter.save()
    add_turn(chapter, chapter.prompt_index, words=words, reply=reply)


def found(chapter: Session, words: str, k: int = 9) -> list[Found]:
    return search(Reader(chapter), words, k)


def places(chapter: Session, words: str) -> list[tuple[int, bool]]:
    return [(one.passage.prompt_index, one.passage.line is None) for one in found(chapter, words)]


def shown(text: str, words: str) -> str:
    """Return the excerpt of a text, with brackets around what is marked."""
    asked = Question(words)
    asked.words_by_term("english")
    pieces = _excerpt(text, asked, AsTyped(words, asked.terms))
    return "".join(f"[{one.text}]" if one.is_hit else one.text for one in pieces)


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("Zoë hides the keys.", "zoe key", "[Zoë] hides the [keys]."),
        ("Zoe\u0308’s café", "ZOË CAFE", "[Zoe\u0308]’s [café]"),
        ("İstanbul, Straße", "istanbul strasse", "[İstanbul], [Straße]"),
        ("Ærø ﬁnal", "aero final", "[Ærø] [ﬁnal]"),
        ("שָׁלוֹם!", "שלום", "[שָׁלוֹם]!"),
        ("船は灯台へ、夜の鍵", "灯台の鍵", "船は[灯台]へ、夜[の鍵]"),
        ("ｶﾞｽ灯", "ガス", "[ｶﾞｽ]灯"),
        ("등대가 무너졌다", "등대는", "[등대]가 무너졌다"),
        ("The lamp is out.", "the", "The lamp is out."),
        ("so\u00adft bread", "soft", "[so\u00adft] bread"),
    ],
)
def test_what_was_searched_for_is_marked(text: str, words: str, marked: str) -> None:
    assert shown(text, words) == marked


def test_an_excerpt_is_cut_between_words_around_the_first_as_typed() -> None:
    text = "Zoe waits. " + "Snow falls slowly. " * 40 + "Zoë runs. " + "Rain drums hard. " * 40
    around = shown(text, "Zoë")
    assert around.startswith("… ")
    assert around.endswith(" …")
    assert "[Zoë] runs. Rain" in around
    plain = around[2:-2].replace("[", "").replace("]", "")
    assert f" {plain} " in text
    assert 250 < len(plain) <= 320


@given(TEXTS, st.sampled_from(WORDS), TEXTS)
def test_a_word_is_found_in_its_place_with_its_marks_and_without(
    before: str, word: str, after: str
) -> None:
    text = f"{before} {word} {after}"
    at = len(before) + 1
    for asked in (word, plain_spelling(word)):
        found = places_of({"english": set(terms_of(asked))}, text)
        assert any(start <= at < end <= at + len(word) for start, end in found)
        assert "[" in shown(text.replace("[", ""), asked)


@given(TEXTS)
def test_an_excerpt_is_a_part_of_the_text(text: str) -> None:
    asked = Question("zoe cafe 灯台 lodz")
    asked.words_by_term("english")
    pieces = _excerpt(text, asked, AsTyped("zoe cafe 灯台 lodz", asked.terms))
    around = "".join(one.text for one in pieces)
    assert around.removeprefix("… ").removesuffix(" …").strip() in " ".join(text.split())
    assert len(around) <= 324


def test_a_prompt_and_its_memory_are_found_once(chapter: Session) -> None:
    play(chapter, "The brass key lies under the third step.", "I hide my face.")
    play(chapter, "It rains.", "I hide the brass key elsewhere, and tell nobody of it.")
    event = {"event": "The brass key lay under the third step"}
    add_delta(chapter, 1, 2, {"major_events": [event, {"event": "Tom dreams of a brass bell"}]})
    assert places(chapter, "brass key step") == [(1, True), (2, True), (2, False)]
    [*_, last] = found(chapter, "brass key step")
    assert "brass bell" in last.passage.text


def test_what_is_as_it_was_typed_comes_first_and_then_the_best(chapter: Session) -> None:
    for words in ("Jose, Jose and Jose.", "José sings at the well, and nobody hears it.", "Josés."):
        play(chapter, words)
    assert places(chapter, "josé")[0] == (2, True)
    assert places(chapter, "jose")[0] == (1, True)
    assert places(chapter, "JOSÉ well")[0] == (2, True)
