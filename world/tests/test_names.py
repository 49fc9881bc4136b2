from hypothesis import given
from hypothesis import strategies as st

from world.names import canonical_name, normalized


def test_names_are_compared_without_case_articles_and_spaces() -> None:
    assert normalized("The  Old Mill") == normalized("old mill") == "old mill"
    assert normalized("The") == "the"


@given(st.text(max_size=200))
def test_any_text_gives_a_name_of_at_most_four_words(text: str) -> None:
    assert len(canonical_name(text).split()) <= 4
