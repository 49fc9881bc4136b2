"""Tests that the time to read a long text is in proportion to its length.

A new piece must not make the engine read the earlier pieces again.
"""

from itertools import chain, repeat
from time import process_time

import pytest

from agents.llm.providers.answers.answers import Answer
from agents.llm.providers.base import TextDelta
from agents.llm.providers.failures.subjects import Subject

PIECES = 100_000
# The most seconds that reading may take. Reading takes about a tenth of this time, but would take
# far longer than this time if the engine read the whole text again for each piece.
MOST_SECONDS = 20


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"content": "<think>"}, {"content": "She lies. "}),
        ({"content": ""}, {"refusal": "I cannot. "}),
        ({"content": " "}, {"content": " " * 10}),
    ],
    ids=["thoughts", "refusal", "blanks"],
)
def test_of_an_answer(first: dict[str, str], then: dict[str, str]) -> None:
    answer = Answer(Subject("The server"), PIECES)
    started = process_time()
    for said in chain([first], repeat(then, PIECES)):
        assert not any(
            isinstance(part, TextDelta) for part in answer.take({"choices": [{"delta": said}]})
        )
    assert process_time() - started < MOST_SECONDS
