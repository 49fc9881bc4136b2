from typing import Any

from bench.embedded_figures import embedded_figures

# These are the seconds of three cold prompts, one for each character, and of four warm prompts.
COLD, WARM = [20.0] * 3, [2.5] * 4


def calls(cached: int) -> list[dict[str, Any]]:
    one = {"agent_id": 1, "turn_id": "t", "estimated_tokens": 1_020, "input_tokens": 1_000}
    return [{**one, "cached_tokens": cached if number >= 3 else 0} for number in range(7)]


def test_what_is_cold_counts_for_one_of_the_medians_only() -> None:
    first, warm, *_ = embedded_figures([*COLD, *WARM], [80], [], pause_seconds=10)
    assert (first.passed, warm.passed) == (True, True)
    first, warm, *_ = embedded_figures([*COLD, 7.0, 7.0, 2.0, 2.0], [80], [], pause_seconds=10)
    assert (first.passed, warm.passed) == (False, False)


def test_longer_pauses_have_no_target_of_their_own() -> None:
    _, warm, *_ = embedded_figures([*COLD, *WARM], [80], [], pause_seconds=20)
    assert warm.passed is None


def test_what_the_server_had_read_before_is_its_own_count() -> None:
    figures = embedded_figures([*COLD, *WARM], [80], calls(cached=900), pause_seconds=10)
    assert [figure.value for figure in figures][3] == "90% of 4,000"


def test_estimates_are_held_against_what_the_server_counted() -> None:
    *_, estimate = embedded_figures([*COLD, *WARM], [80], calls(cached=0), pause_seconds=10)
    assert estimate.passed
    assert "worst 2.0%" in estimate.value
