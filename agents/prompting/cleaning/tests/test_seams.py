"""A text that a limit cut and its continuation become one text, without half or repeated words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.prompting.cleaning.seams import Seam, WholeWords, without_half_word


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("I take the la", "I take the "),
        ("I take the lamp. ", "I take the lamp. "),
        ("I take the lamp.", "I take the lamp."),
        ("I say, “Sto", "I say, "),
        ("I say, “", "I say, "),
        ("I take the half-", "I take the "),
        ("Lamplight", ""),
        ("我拿起灯", "我拿起灯"),
        ("我拿起 la", "我拿起 "),
        ("등불을 들", "등불을 "),
        ("वह आई।", "वह आई।"),
        ("I don’", "I "),  # noqa: RUF001
        ("我拿起la", "我拿起"),
        ("", ""),
    ],
)
def test_half_a_word_is_left_out(text: str, whole: str) -> None:
    assert without_half_word(text) == whole


@pytest.mark.parametrize(
    ("before", "more", "joined"),
    [
        ("I take the ", "lamp and go.", "I take the lamp and go."),
        ("I take the ", " lamp and go.", "I take the lamp and go."),
        ("I take the ", "…lamp and go.", "I take the lamp and go."),
        ("I take the ", "... lamp and go.", "I take the lamp and go."),
        ("I take it.", "I go.", "I take it. I go."),
        ("I take it.", " I go.", "I take it. I go."),
        ("I take it.", "\n\nI go.", "I take it.\n\nI go."),
        # The continuation begins with words that were told: the last ones, the last sentence, or
        # the whole text.
        ("I wait. I take the ", "take the lamp.", "I wait. I take the lamp."),
        ("I wait. I take the ", "I take the lamp.", "I wait. I take the lamp."),
        ("I wait. I take the ", "I wait. I take the lamp.", "I wait. I take the lamp."),
        # A single word may stand twice.
        ("I had ", "had enough.", "I had had enough."),
        # Words of the middle of the text may come again.
        ("I wait. I wait here and ", "I wait for you.", "I wait. I wait here and I wait for you."),
        ("我拿起", "灯。", "我拿起灯。"),
        ("我拿起灯。", "我走了。", "我拿起灯。我走了。"),
        ("등불을", "들었다.", "등불을 들었다."),
        ("वह आई।", "वह गई।", "वह आई। वह गई।"),
        ("我站着。我慢慢拿起", "我慢慢拿起灯。", "我站着。我慢慢拿起灯。"),
        ("I take it.", " \n ", "I take it."),
        ("I take it.", "", "I take it."),
    ],
)
def test_the_continuation_follows_the_text(before: str, more: str, joined: str) -> None:
    seam = Seam(before)
    assert before + seam.take(more) + seam.end() == joined


def test_words_that_may_be_a_repetition_are_held_back_until_that_is_clear() -> None:
    seam = Seam("I wait. I take the ")
    assert seam.take("I ") == ""
    assert seam.take("take ") == ""
    assert seam.take("my ") == "I take my "
    assert seam.take("I ") == "I "
    assert seam.end() == ""


@pytest.mark.parametrize("unit", ["a", "a ", "灯", "… ", ".", "“", "go on "])
def test_a_hostile_text_is_joined_in_time_in_proportion_to_its_length(unit: str) -> None:
    """A time that grew with the square of the length would make this test last for minutes."""
    text = unit * 20_000
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    words, seam = WholeWords(), Seam(text)
    assert "".join(map(words.take, pieces)) + words.end() == text
    assert len("".join(map(seam.take, pieces)) + seam.end()) <= len(text) + 1


_WORDS = st.lists(
    st.sampled_from(("I", "take", "the", "lamp", ".", "…", " ", "  ", "\n\n", "“", "灯", "我"))
    | st.text(max_size=3),
    max_size=15,
).map("".join)


@given(before=_WORDS, more=_WORDS, data=st.data())
def test_the_words_are_the_same_whatever_pieces_they_come_in(
    before: str, more: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(more)), max_size=6).map(sorted))
    pieces = [more[first:last] for first, last in zip([0, *cuts], [*cuts, len(more)], strict=True)]
    before = without_half_word(before)
    whole, seam = Seam(before), Seam(before)
    expected = whole.take(more) + whole.end()
    told = "".join(map(seam.take, pieces)) + seam.end()
    assert told.split() == expected.split()
    # Nothing is made up.
    assert more.endswith(told.lstrip()) or not told
