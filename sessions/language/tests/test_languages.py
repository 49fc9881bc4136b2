"""Tests of the languages of stories: their tags, and how they are found in texts."""

import pytest

from sessions.language.languages import (
    clean_tag,
    find_language,
    is_tag,
    languages_to_choose,
    reads_from_right,
)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("Who is there, and what do they want of us?", "en"),
        ("Wo ist die Laterne, und wer hat sie?", "de"),
        ("عاصفة على الرصيف! أرفع الفانوس.", "ar"),
        ("وَقَفَتْ مَرْيَمُ عَلَى الرَّصِيفِ.", "ar"),
        ("مریم چراغ را برداشت و گفت که می‌آید.", "fa"),
        ("مریم نے چراغ اٹھایا اور کہا کہ وہ آ رہی ہے", "ur"),
        ("סערה על הרציף! מה את עושה?", "he"),
        ("Что ты делаешь на причале, мой друг?", "ru"),
        ("Що ти робиш на причалі, мій друже?", "uk"),
        ("Што ты робіш на прычале, мой дружа, што не ўмееш?", "be"),
        ("Τι κάνεις στην αποβάθρα;", "el"),  # noqa: RUF001 (it is Greek)
        ("她站在码头上,没有说话。", "zh"),
        ("彼女は港に立っていた。", "ja"),
        ("그녀는 부두에 서 있었다. 아무 말도 없이.", "ko"),
        ("เธอยืนอยู่ที่ท่าเรือ ไม่พูดอะไร", "th"),
        ("वह घाट पर खड़ी थी और कुछ नहीं बोली।", "hi"),
        ("Նա կանգնած էր նավամատույցում", "hy"),
    ],
)
def test_a_text_shows_its_language(text: str, tag: str) -> None:
    assert find_language([text]) == tag


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", "12!"],
        ["مريم"],
        ["Да."],
        ["Hon stod på kajen."],
        ["Мария стои на кея и мълчи дълго, без да каже дума."],
    ],
)
def test_what_a_text_does_not_show_is_not_guessed(texts: list[str]) -> None:
    assert find_language(texts) == ""


@pytest.mark.parametrize(
    ("typed", "tag"),
    [
        ("AR", "ar"),
        (" pt-br ", "pt-BR"),
        ("ZH-hant-tw", "zh-Hant-TW"),
        ("de-1901", "de-1901"),
        ("und", ""),
        ("", ""),
    ],
)
def test_a_tag_is_stored_as_it_is_usually_written(typed: str, tag: str) -> None:
    assert clean_tag(typed) == tag


def test_the_languages_to_choose_have_tags_of_their_own_and_the_chosen_one_is_among_them() -> None:
    for chosen in ("", "ar", "ar-EG"):
        tags = [one.tag for one in languages_to_choose(chosen)]
        assert len(set(tags)) == len(tags)
        assert all(map(is_tag, tags))
        assert not chosen or chosen in tags


def test_the_script_of_a_tag_says_its_direction() -> None:
    from_right = [
        tag for tag in ("ar-EG", "az", "az-Arab", "he", "pa", "ur-Latn") if reads_from_right(tag)
    ]
    assert from_right == ["ar-EG", "az-Arab", "he"]
