"""Says how often a call is tried, and how long to wait between the tries."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agents.llm.providers.failures.failures import Failure


@dataclass(frozen=True)
class Retries:
    """How often a call is tried, and how long to wait between the tries.

    A call is not tried again after any of its text was shown, or if the server asks for a longer
    wait than `longest_wait` seconds.
    """

    tries: int = 4
    first_wait: float = 0.5
    longest_wait: float = 30
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def wait_before(
        self, next_try: int, failure: Failure, waits: Sequence[float] = ()
    ) -> float | None:
        """Return the seconds until the next try, or None if there is no next try.

        `waits` are the seconds before each further try, if the request names them.
        """
        tries = len(waits) + 1 if waits else self.tries
        if not failure.is_passing or next_try > tries:
            return None
        least = waits[next_try - 2] if waits else 0
        if failure.retry_after is not None:
            is_too_long = failure.retry_after > self.longest_wait
            return None if is_too_long else max(failure.retry_after, least)
        if waits:
            return least
        # The wait has a random part, because calls that failed at the same moment would otherwise
        # be tried again at the same moment.
        spread = random.uniform(0.5, 1)  # noqa: S311  (no secret)
        return min(self.longest_wait, self.first_wait * 2.0 ** (next_try - 2)) * spread
