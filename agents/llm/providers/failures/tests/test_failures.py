"""Tests of the words of failures."""

import pytest

from agents.llm.providers.failures.failures import refused_or_busy
from agents.llm.providers.failures.subjects import Subject

SAID = "a bad alarm at the bar: sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("", SAID),
        # A server on this machine needs no key, so that people name any letter.
        ("a", SAID),
        ("bad", SAID),
        ("alarm", "a bad [key] at the bar: sk-0123456789abcdef"),
        ("larm", SAID),
        ("sk-0123456789", "a bad alarm at the bar: [key]abcdef"),
    ],
)
def test_a_key_is_removed_but_no_letters_of_other_words(key: str, told: str) -> None:
    failure = refused_or_busy(Subject("The model"), 400, {"message": SAID}, secret=key)
    assert failure.error.said == f"{told}."
    assert "alarm" not in str(failure)
