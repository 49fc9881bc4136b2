import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.prose.receipts.paragraphs import Kind, split_paragraphs

PIECES = st.sampled_from(
    ["The bell rang.", "A", "\n", "\n\n", " \n \n ", "* * *", "# One", "\t", ""]
)


def test_headings_and_breaks_are_told_apart_from_prose() -> None:
    text = (
        "# The Dark Lamp\n\nThe ferry left.\n\n* * *\n\nIn the tower\n\n\u201cWho?\u201d\n\n\n\nOh."
    )
    found = split_paragraphs(text)
    kinds = [Kind.HEADING, Kind.PROSE, Kind.BREAK, Kind.HEADING, Kind.PROSE, Kind.PROSE]
    assert [one.kind for one in found] == kinds
    assert [one.number for one in found] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "text",
    [
        "मीरा घाट पर थी।\n\nउसने लालटेन उठाई।",
        "*The storm came.*\n\n(She stopped)\n\n— No",
        "『誰だ』\n\n（ハナは待った）",  # noqa: RUF001
        "มานีเดินออกมา\n\nใครกัน",
        "――いや\n\n…そう\n\nそう～\n\nやあ♪\n\n——不",  # noqa: RUF001
        "״לא״\n\n〝はい〟\n\nHe left.¹",
    ],
)
def test_short_paragraphs_of_any_script_are_prose(text: str) -> None:
    assert {one.kind for one in split_paragraphs(text)} == {Kind.PROSE}


@pytest.mark.parametrize(
    "text",
    [
        *("＊", "＊　＊　＊", "◇", "◆◆◆", "※", "• • •", "☆☆☆", "═══", "――――", "§", "❦", "…  …  …"),  # noqa: RUF001
        *("***", "* * *", "---", "\u2042", "~~~", "·", "* \u200c* *"),
    ],
)
def test_signs_alone_are_a_break_between_scenes(text: str) -> None:
    [found] = split_paragraphs(text)
    assert found.kind == Kind.BREAK


@given(st.lists(PIECES, max_size=12).map("".join))
def test_only_space_is_left_out_and_each_paragraph_says_where_it_begins(text: str) -> None:
    found = split_paragraphs(text)
    for one in found:
        assert text[one.start : one.start + len(one.text)] == one.text
        assert one.text == one.text.strip() != ""
    assert "".join("".join(one.text for one in found).split()) == "".join(text.split())
