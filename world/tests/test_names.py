from hypothesis import given
from hypothesis import strategies as st

from world.names import canonical_name, normalized


def test_names_are_compared_without_case_articles_and_spaces() -> None:
    assert normalized("The  Old Mill") == normalized("old mill") == "old mill"
    assert normalized("The") == "the"


def test_a_new_place_gets_a_short_name_without_articles_and_prepositions() -> None:
    assert canonical_name("down to the edge of the frozen northern lake") == (
        "Edge Frozen Northern Lake"
    )
    assert canonical_name("the inn") == "Inn"


@given(st.text(max_size=200))
def test_any_text_gives_a_name_of_at_most_four_words(text: str) -> None:
    assert len(canonical_name(text).split()) <= 4


def test_vowels_that_are_written_as_marks_tell_names_apart() -> None:
    # A fair and goods, which differ only in their vowel signs.
    assert normalized("मेला") != normalized("माल")
    assert normalized("दिल्ली") == "दिल्ली"
    assert canonical_name("दिल्ली") == "दिल्ली"


def test_an_accent_is_the_same_however_it_is_written() -> None:
    assert normalized("Cafe\u0301") == normalized("Caf\u00e9")
