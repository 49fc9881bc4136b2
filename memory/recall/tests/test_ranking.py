"""Tests of the order in which turns fit a question."""

from memory.recall.ranking import Field, rank


def field(*turns: tuple[int, dict[str, int]]) -> Field:
    made = Field()
    for number, (length, found) in enumerate(turns, start=1):
        made.add(number, length, found)
    return made


def order(own: Field, places: Field | None = None) -> list[int]:
    return [number for number, _ in rank(own, places or Field())]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    own = field((9, {"door": 1}), (9, {}), (9, {"key": 1}), (9, {}), (9, {"door": 1}))
    assert order(own)[0] == 3


def test_a_short_text_fits_better_than_a_long_one_with_the_same_word() -> None:
    assert order(field((90, {"key": 1}), (9, {}), (9, {}), (9, {"key": 1})))[0] == 4


def test_a_turn_is_also_found_by_the_turn_before_but_less() -> None:
    scores = dict(rank(field((9, {}), (9, {"key": 1}), (9, {}), (9, {})), Field()))
    assert list(scores) == [2, 3]
    assert scores[3] == scores[2] / 2


def test_a_turn_that_the_reader_missed_lends_nothing_to_the_next() -> None:
    own = Field()
    own.add(1, 9, {"key": 1})
    own.add(3, 9, {})
    assert order(own) == [1]


def test_the_order_in_which_words_are_read_changes_no_score() -> None:
    words = {f"word{at}": at % 3 + 1 for at in range(40)}
    backwards = dict(reversed(words.items()))
    assert rank(field((70, words), (30, {})), Field()) == rank(
        field((70, backwards), (30, {})), Field()
    )
