"""Lets a client wait for background work by `Prefer: wait=N` (RFC 7240). No thread is occupied
while a client waits."""

import re
from asyncio import sleep
from collections.abc import Callable
from time import monotonic
from uuid import UUID

from django.http import HttpResponse

from agents.running.database import in_database
from agents.running.recovery import recover

MAX_WAIT_SECONDS = 600
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 0.5
# The seconds between two searches for dead workers while a client waits.
_RECOVERY_SECONDS = 5.0
_WAIT = re.compile(r'(?:^|,)\s*wait\s*=\s*"?([0-9]+)"?\s*(?=[;,]|$)', re.IGNORECASE)


def wait_seconds(prefer: str) -> int | None:
    """Return the number of seconds that a Prefer header names, at most MAX_WAIT_SECONDS.

    Returns None if the header does not ask to wait.
    """
    match = _WAIT.search(prefer)
    if match is None:
        return None
    digits = match[1].lstrip("0") or "0"
    return MAX_WAIT_SECONDS if len(digits) > 3 else min(int(digits), MAX_WAIT_SECONDS)


def accept_wait(prefer: str, response: HttpResponse) -> int | None:
    """Return the result of `wait_seconds`. If the client asks to wait, confirm this in a header of
    the answer."""
    seconds = wait_seconds(prefer)
    if seconds is not None:
        response["Preference-Applied"] = f"wait={seconds}"
    return seconds


async def wait_until(
    is_over: Callable[[UUID], bool], row_id: UUID, session_id: UUID, seconds: float
) -> bool:
    """Call `is_over(row_id)` at most ten times a second until it returns True. Return False if the
    time runs out first."""
    begin = recovered = monotonic()
    while not await in_database(is_over, row_id):
        now = monotonic()
        if now - begin >= seconds:
            return False
        if now - recovered >= _RECOVERY_SECONDS:
            recovered = now
            await in_database(recover, session_id)
        # The pause grows to a twentieth of the time that has passed, so that a long wait takes
        # fewer queries.
        pause = min(max((now - begin) / 20, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        await sleep(min(pause, seconds - (now - begin)))
    return True
