"""Tests of log lines that a visitor could repeat without end."""

import logging

from storyengine.access.log_format import OnceAMinute

REFUSED = "Exceeded concurrency limit."


class Minutes:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def line(words: str = REFUSED, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("uvicorn.error", level, __file__, 1, words, (), None)


def test_one_a_minute_is_written_with_the_count() -> None:
    minutes = Minutes()
    once = OnceAMinute(minutes)
    first = line()
    assert once.filter(first)
    assert not hasattr(first, "fields")
    for _ in range(1_000):
        minutes.now += 0.05
        assert not once.filter(line())
    minutes.now = 60.0
    later = line()
    assert once.filter(later)
    assert getattr(later, "fields", {}) == {"times": 1_001}
    minutes.now = 200.0
    last = line()
    assert once.filter(last)
    assert not hasattr(last, "fields")
