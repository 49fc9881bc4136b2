import pytest

from bench.token_figures import TEACHING_CALLS, count_tokens, estimate_figure


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("I wait.", 3),
        ("lantern-lit", 4),
        ("é_7", 3),
        ("1,234,567", 5),
        ("a\n\nb", 3),
        ('{"a":""}', 4),
    ],
)
def test_the_stand_in_tokenizer_splits_words_numbers_and_marks(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_the_first_calls_only_teach() -> None:
    figure = estimate_figure(
        [(1, 1.0, 100)] * TEACHING_CALLS + [(1, 98.0, 100), (8, 1.0, 100), (1, 103.0, 100)]
    )

    assert figure is not None
    assert figure.measured == pytest.approx(0.03)
    assert figure.passed


def test_the_worst_estimate_counts() -> None:
    figure = estimate_figure([(1, 100.0, 100)] * 50 + [(1, 106.0, 100)])

    assert figure is not None
    assert figure.passed is False


def test_too_few_calls_say_nothing() -> None:
    assert estimate_figure([(1, 1.0, 100)] * TEACHING_CALLS) is None
