"""Tests of the spelling by which texts are compared."""

# ruff: noqa: RUF001

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.language.spelling import Respelt, even_spelling, plain_spelling

# Letters with marks of every kind, together and apart, and what nobody sees.
MARKED = st.text(
    st.one_of(
        st.sampled_from(
            "aeiouzégłøİıœæßđðþŵếΆώςЁёйїѓשׁאأةمُىکガがﾞﾞ각한हिि\u0304\u0301\u0306\u0308\u3099"
        ),
        st.sampled_from("\u00ad\u200d\u200e\ufeff\u0640 '’ʼ.1Ⅷﬁ¼"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("Café Zoë", "cafe zoe"),
        ("Łódź", "lodz"),
        ("Ærøskøbing", "aeroskobing"),
        ("cœur", "coeur"),
        ("İstanbul", "istanbul"),
        ("Iğdır", "igdir"),
        ("STRAẞE", "strasse"),
        ("Đặng Thị Hồng", "dang thi hong"),
        ("Þórður Guðmundsson", "thordur gudmundsson"),
        ("Ὀδυσσεύς", "οδυσσευσ"),
        ("ΟΔΟΣ", "οδοσ"),
        ("Ёлка", "елка"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("مدرســة", "مدرسه"),
        ("أحمد إلى آسيا", "احمد الي اسيا"),
        ("می\u200cخواهم", "ميخواهم"),
        ("ｃａｆｅ\u0301", "cafe"),
        ("so\u00adft", "soft"),
        ("O’Neill", "o'neill"),
        ("п\u02bcять", "п'ять"),
    ],
)
def test_marks_that_people_leave_out_are_taken_off(marked: str, plain: str) -> None:
    for form in ("NFC", "NFD"):
        assert plain_spelling(unicodedata.normalize(form, marked)) == plain
    assert plain_spelling(plain) == plain


@pytest.mark.parametrize(
    "letters",
    ["й", "ї", "ў", "ѓ", "ќ", "が", "パ", "한국", "हिन्दी", "ক়", "த", "ประภาคาร", "灯台"],
)
def test_marks_that_make_another_letter_stay(letters: str) -> None:
    for form in ("NFC", "NFD"):
        spelt = plain_spelling(unicodedata.normalize(form, letters))
        assert spelt == unicodedata.normalize("NFC", letters)


@given(st.lists(MARKED, max_size=4))
def test_each_part_of_a_spelling_is_found_in_the_text(texts: list[str]) -> None:
    text = " ".join(texts)
    for spell in (even_spelling, plain_spelling):
        respelt = Respelt(text, spell)
        for at, char in enumerate(respelt.text):
            start, end = respelt.place(at, at + 1)
            assert 0 <= start < end <= len(text)
            assert char in spell(text[start:end])


@given(MARKED, MARKED)
def test_a_text_stands_where_its_spelling_says(before: str, after: str) -> None:
    text = f"{before} Zoë hides {after}"
    respelt = Respelt(text, plain_spelling)
    at = respelt.text.rindex(" zoe hides ") + 1
    start, end = respelt.place(at, at + 3)
    assert text[start:end] == "Zoë"
