"""Tests of where sentences end, and of which short lines are prose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.language.sentences import (
    ends_sentence,
    reads_as_prose,
    sentence_ends,
    split_sentences,
)

# ruff: noqa: RUF001  (the marks of other scripts)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('He said "no." Then he ran?! Yes', ['He said "no." ', "Then he ran?! ", "Yes"]),
        (
            "*It rained.* (So it did.) **No!** On",
            ["*It rained.* ", "(So it did.) ", "**No!** ", "On"],
        ),
        ("3.14 is enough. Pi", ["3.14 is enough. ", "Pi"]),
        ("她说：“走吧！”他走了。然后…", ["她说：“走吧！”", "他走了。", "然后…"]),
        (
            "雨が降る。『待て。』（待った。）行く",
            ["雨が降る。", "『待て。』", "（待った。）", "行く"],
        ),
        ('वह आई। उसने कहा, "रुको।" फिर', ["वह आई। ", 'उसने कहा, "रुको।" ', "फिर"]),
        ("وہ آئی۔ کون ہے؟ ہاں", ["وہ آئی۔ ", "کون ہے؟ ", "ہاں"]),
        ("Նա եկավ։ Ո՞վ է: Ոչ", ["Նա եկավ։ ", "Ո՞վ է: ", "Ոչ"]),
        ("Ποιος είναι; Εγώ", ["Ποιος είναι; ", "Εγώ"]),
        ("እሱ መጣ። ማን", ["እሱ መጣ። ", "ማን"]),
        ("သူလာတယ်။ ဘယ်သူ", ["သူလာတယ်။ ", "ဘယ်သူ"]),
        ("គាត់មក។ នរណា", ["គាត់មក។ ", "នរណា"]),
        # Thai has no full stops. Its blanks stand between sentences.
        ("เขามา ใครกัน", ["เขามา ", "ใครกัน"]),
        ("One line\nand\n\n another", ["One line\n", "and\n\n ", "another"]),
        ("Wait; there is more: this", ["Wait; there is more: this"]),
        ("", []),
    ],
)
def test_sentences_end_at_the_marks_of_their_script(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


_SIGNS = st.text("ab.!?…。！।۔؟։:;՞།።ก」』”’\"'*_()（）《» \n灯", max_size=40)


@given(_SIGNS | st.text(max_size=40))
def test_no_text_is_lost_between_sentences(text: str) -> None:
    assert "".join(split_sentences(text)) == text
    ends = sentence_ends(text)
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(text) for end in ends)


@given(_SIGNS)
def test_a_mark_and_what_closes_behind_it_end_a_text(text: str) -> None:
    for end in (".", "!", "?", "…", "。", "？", "।", "॥", "۔", "؟", "։", "።", "။", "។"):
        for closing in ("", '"', "”", "’", "»", ")", "*", "_", "**", ".*", '"*'):
            assert ends_sentence(f"{text}a{end}{closing} ")
    assert not ends_sentence(f"{text}a")


@pytest.mark.parametrize(
    "line",
    [
        "मीरा घाट पर खड़ी थी।",
        "من قطع الحبل؟",
        "Նա բարձրացրեց լապտերը։",
        "*The storm came*",
        "_The storm came_",
        "(She stopped in the dark)",
        "『誰だ』",
        "（ハナは待った）",
        "— Кто там",
        "“Who is there",
        "«Qui est là»",
        "He turned and —",
        "He waited:",
        "ม่านขยับแล้วมานีก็เดินออกมา",
        "ນາງຢືນຢູ່",
    ],
)
def test_a_short_line_of_prose_is_known_by_its_marks(line: str) -> None:
    assert reads_as_prose(line)


@pytest.mark.parametrize(
    "line",
    [
        "The Dark Lamp",
        "**Chapter One**",
        "第一章 码头",
        "बंद दरवाज़ा",
        "등대",
        "Part One (1914)",
        "12",
        "",
    ],
)
def test_a_heading_has_no_such_mark(line: str) -> None:
    assert not reads_as_prose(line)
