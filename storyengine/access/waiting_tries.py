"""Counts the wrong tokens and passwords that wait to be counted by the database."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django.http import HttpRequest

from storyengine.access.visitors import counted_address


class WaitingTries:
    """The number of wrong tries of each visitor's address that the database has not counted yet.

    These tries count towards the limit too. Otherwise a visitor could send many guesses at once,
    and learn which guess is right.
    """

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        self._one_change = Lock()

    def count(self, visitor: HttpRequest) -> int:
        return self._counts[counted_address(visitor)]

    @contextmanager
    def one_more(self, visitor: HttpRequest) -> Iterator[None]:
        address = counted_address(visitor)
        with self._one_change:
            self._counts[address] += 1
        try:
            yield
        finally:
            with self._one_change:
                self._counts[address] -= 1
                if not self._counts[address]:
                    del self._counts[address]
