"""Tests of the words of a text, and of the terms by which it is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.language.words import beginning_of, count_words, terms_of


def share(question: str, text: str, language: str = "english") -> set[str]:
    return set(terms_of(question, language)) & set(terms_of(text, language))


@pytest.mark.parametrize(
    ("question", "text", "language"),
    [
        ("Where are the lanterns?", "The lantern hangs in the hold.", "english"),
        ("the captain's ledger", "Two captains wrote ledgers.", "english"),
        ("Wo sind die Schlüssel der Häuser?", "Er hat das Haus verkauft.", "german"),
        ("Où est la lanterne ?", "Elle cache l'île et les lanternes.", "french"),
        ("¿Dónde están los barcos?", "El barco se hunde.", "spanish"),
        ("Где фонари?", "Фонаря нет на месте.", "english"),
        ("船在哪里？", "那艘船沉了。", "english"),  # noqa: RUF001
        ("灯台の鍵はどこ?", "彼は鍵を海に投げた。", "english"),
        ("등대는 어디에 있나?", "등대가 무너졌다.", "english"),
        ("ประภาคารอยู่ที่ไหน", "เขาไปประภาคาร", "english"),
        ("दीपक कहाँ है", "वह दीपकों को देखता है", "english"),
        ("ＡＢＣ１２", "abc12", "english"),  # noqa: RUF001
    ],
)
def test_a_question_shares_a_term_with_its_answer(question: str, text: str, language: str) -> None:
    assert share(question, text, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What was that, and where is it?", "english"),
        ("Wo ist das, und wer hat es?", "german"),
        ("Qu'est-ce que c'est, et pour qui ?", "french"),
    ],
)
def test_words_that_every_text_has_are_no_terms(text: str, language: str) -> None:
    assert len(terms_of(text, language)) <= 1


def test_a_word_without_end_is_cut_in_the_same_way_everywhere() -> None:
    assert terms_of("x" * 100_000) == terms_of("x" * 90_000)
    assert len(terms_of("x" * 100_000)[0]) == 40


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The lamp is out.", 4),
        ("In 1914 a well-known man didn't wait — he ran 🙂 …", 9),
        ("___ * * * —", 0),
        ("민수가 걸어 나온다.", 3),
        ("दीपक कहाँ है।", 3),
        ("مريم على الرصيف؟", 3),
        # Three characters of Chinese and Japanese are two words, whatever marks stand between.
        ("码头上传来脚步声她举起灯。", 8),
        ("码头上，传来脚！步声她（举起灯）。", 8),  # noqa: RUF001
        ("ハナが出てくる。", 5),
        ("走。", 1),
        # Four letters of Thai, Lao, Khmer and Burmese are two words. Marks on a letter are of it.
        ("ม่านขยับ", 3),
        ("ม่านขยับ แล้วมานี", 6),
        ("ສະບາຍດີ", 3),
        ("ភាសាខ្មែរ", 2),
        ("မြန်မာစာ။", 2),
        ("AI技術者とmap", 5),
        ("她说 hello world。", 3),
        ("🙂🙂。…", 0),
        ("", 0),
    ],
)
def test_words_are_counted_in_every_script(text: str, count: int) -> None:
    assert count_words(text) == count


@pytest.mark.parametrize(
    ("text", "limit", "beginning"),
    [
        ("The lamp is out.", 11, "The lamp is"),
        ("The lamp is out.", 10, "The lamp"),
        ("The lamp is out.", 9, "The lamp"),
        ("The lamp is out.", 99, "The lamp is out."),
        ("灯 已经灭了，她走了。", 7, "灯 已经灭了，"),  # noqa: RUF001
        ("ไฟ ดับแล้วเธอเดินออกไป", 12, "ไฟ ดับแล้วเธ"),
        ("등대가 무너진다.", 6, "등대가"),
        ("Lamplight", 4, "Lamp"),
    ],
)
def test_a_beginning_ends_after_a_word(text: str, limit: int, beginning: str) -> None:
    assert beginning_of(text, limit) == beginning


_MIXED = st.text("ab 1'-_—.。…灯山ハなมาี်မខ្ន민수עִאי🙂\n\u200b", max_size=40)
_ANY_SCRIPT = _MIXED | st.text(max_size=40)


@given(_ANY_SCRIPT, st.integers(1, 60))
def test_a_beginning_is_one_and_fits(text: str, limit: int) -> None:
    beginning = beginning_of(text, limit)
    assert text.startswith(beginning)
    assert len(beginning) <= limit
    assert beginning.strip() or not text[:limit].strip()
