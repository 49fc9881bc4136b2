"""Tests of the one rule on text: which characters every door takes, and in which form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.exceptions import InvalidInput, TooLong
from sessions.language.text import (
    clean_line,
    clean_name,
    clean_text,
    is_blank,
    scrub_reply,
    tidied,
    why_no_name,
    why_not_text,
    with_replacements,
)
from sessions.payloads import scrub_payload, why_not_storable

# Characters of every kind that the rule tells apart, and some ordinary ones.
SIGNS = st.text(
    st.sampled_from(
        "aZé字क्ת😀‍\u200c \t\n\r\x0b\x0c\x85\u2028\u2029\x00\x1b\x7f\x9b\ud83d\ude00\ufeff\u200b"
        "\u3164\u115f\u2800\u00ad\u2060\u180e\ufe0f\u0301\u202e\u2067\u200f\u061c\ue000\ufdd0"
        "\U000e0041\U0010ffff\U000378ff\u0378"
    ),
    max_size=12,
) | st.text(st.characters(), max_size=12)

# Texts of nothing that can be seen.
UNSEEN = [
    *("\u200b", "\u3164", "\u00ad", "\u2800", "\u2060", "\ufe0f", "\u0301", "\u180e", "\u115f"),
    *("\u1160", "\uffa0", "\u200d", "\u200c", "\u202e\u202c", "\u2067\u2069", "\u200f", "\u034f"),
    *("\U000e0041", "\U000e0100", "\u2065", "\u206a", "\ufff0", "\u17b4", "\u2061\u3000", "\ufeff"),
    *("x"[:0] + "\u200b \u200b\n", "\u0300\u0301\u20dd"),
]
# ruff: noqa: RUF001
# Texts of which something can be seen, although they have signs that cannot.
SEEN = [
    *("…", "?", "—", "0", "❤\ufe0f", "👩\u200d🚀", "می\u200cخواهم", "क\u094d\u200d", "e\u0301"),
    *("\ue000", "\u200bx", "\U0001fae9", "🏴\U000e0067\U000e007f", "\ufffd", "ﾞ"),
]


def clean(text: str, limit: int = 1_000) -> str:
    return clean_text(text, limit=limit, label="The world")


@pytest.mark.parametrize("text", UNSEEN)
def test_a_text_in_which_nothing_can_be_seen_is_empty(text: str) -> None:
    assert is_blank(text)
    assert clean(text) == clean_line(text, limit=9, label="x") == scrub_reply(text) == ""
    assert scrub_payload({"a": [text]}) == {"a": [""]}
    if tidied(text):
        with pytest.raises(InvalidInput, match=r"The name: character 1 is U\+"):
            clean_name(text, limit=60, label="The name")


@pytest.mark.parametrize("text", SEEN)
def test_signs_that_cannot_be_seen_stay_in_a_text_that_can(text: str) -> None:
    assert not is_blank(text)
    assert clean(text) == scrub_reply(text) == clean_name(text, limit=60, label="x") == text


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t \u00a0"])
def test_blanks_that_somebody_typed_stay(text: str) -> None:
    assert clean(text) == scrub_reply(text) == text
    assert clean_name(text, limit=60, label="x") == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A harbour town\x1b.", "The world: character 15 is U+001B, a control character"),
        ("\x00", "character 1 is U+0000, a control character"),
        ("a\r\nb\r\n\x7f", "character 5 is U+007F"),
        ("\ufeff\x9b", "character 2 is U+009B"),
        ("a\ud83d", "character 2 is U+D83D, half of a character"),
        ("😀\x02\x03", "character 2 is U+0002, a control character, and no text (1 more like it"),
        ("\x1c" * 1_500, "(1,499 more like it follow)"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        clean(text)
    assert said in str(caught.value)
    assert why_not_storable({"a": [text]}).endswith(why_not_text(text))
    assert "\ufffd" in scrub_reply(text)


@pytest.mark.parametrize("line_break", ["\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_a_line_break_of_any_kind_is_one_line_feed(line_break: str) -> None:
    text = f"\ufeffPage one.{line_break}Page\ufefftwo."
    assert clean(text, limit=19) == scrub_reply(text) == "Page one.\nPage\ufefftwo."
    assert clean_line(text, limit=19, label="x") == "Page one. Page\ufefftwo."
    with pytest.raises(TooLong, match="shorten it by 1"):
        clean(text, limit=18)


@pytest.mark.parametrize("sign", [*"\u061c\u200e\u200f\u202a\u202e\u2066\u2069"])
def test_a_name_never_turns_the_direction_of_writing(sign: str) -> None:
    with pytest.raises(InvalidInput, match=rf"The name: character 3 is U\+{ord(sign):04X}, which"):
        clean_name(f" Ma{sign}ra", limit=60, label="The name")
    assert clean(f"Ma{sign}ra") == f"Ma{sign}ra"


@given(SIGNS)
def test_what_is_clean_stays_as_it_is_at_every_door(text: str) -> None:
    if why_not_text(text):
        with pytest.raises(InvalidInput):
            clean(text)
    else:
        # A person's text and a model's are stored in the same form.
        assert clean(text) == scrub_reply(text)
    for stored in (scrub_reply(text), clean(with_replacements(text))):
        assert clean(stored) == scrub_reply(stored) == stored
        assert not why_not_storable(scrub_payload({text: {"a": [text]}}))


@given(SIGNS)
def test_a_name_is_refused_or_the_same_at_every_door(text: str) -> None:
    try:
        name = clean_name(text, limit=60, label="x")
    except InvalidInput:
        assert why_not_text(text) or why_no_name(" ".join(tidied(text).split()))
    else:
        assert clean_name(name, limit=60, label="x") == name == " ".join(name.split())
        assert not name or not is_blank(name)
