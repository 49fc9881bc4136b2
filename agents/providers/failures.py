"""The failures of a call. Each failure has a message for the GM, and says if another try may
help."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from math import isnan
from urllib.parse import urlsplit

from agents.providers.bounds import as_text
from agents.providers.exceptions import (
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnreachable,
    StreamBroken,
    UnusableReply,
)
from agents.providers.subjects import Subject

_DETAIL_LENGTH = 300
# A pattern for the HTTP status of an error. Some servers send such a status as the code of an error
# event, and others send a word, which the pattern does not match.
_STATUS = re.compile("[45][0-9]{2}")
# The greatest length of a host's name, in characters.
_LONGEST_NAME = 253
# The longest wait in seconds, which is a day. It replaces any longer wait that a server names.
LONGEST_WAIT = 86_400.0
# The fewest characters of a key that is removed from a server's message, and the fewest of a key
# that is removed even inside a word.
SHORTEST_KEY, LONG_KEY = 4, 12
_USUAL_END = "The address of a server usually ends in /v1."
# The codes by which OpenAI and similar servers say that an account lacks credit. Waiting does not
# help in this case.
_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached"}


class Failure(Exception):
    """A failure inside a provider.

    `error` is the error that the caller gets. `is_passing` says whether another try may succeed,
    and `retry_after` how many seconds to wait before that try.
    """

    def __init__(
        self, error: ProviderError, *, is_passing: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_passing = is_passing
        self.retry_after = retry_after


def unreachable(subject: Subject, *, is_local: bool) -> Failure:
    place = "it is running" if is_local else "this machine is online and the address is right"
    message = f"{subject} cannot be reached. Check that {place}, then try again."
    return Failure(ProviderUnreachable(message), is_passing=True)


def dropped(subject: Subject) -> Failure:
    message = f"{subject} closed the connection before the first word. Try again."
    return Failure(ProviderUnreachable(message), is_passing=True)


def broken_off(subject: Subject) -> Failure:
    return Failure(StreamBroken(f"{subject} broke off in the middle of the reply."))


def overlong(subject: Subject, *, has_text: bool) -> Failure:
    message = (
        f"{subject} sent far more than a reply can be, so the connection was closed. Try again; if "
        "that helps nothing, choose another model or server."
    )
    return Failure(StreamBroken(message) if has_text else UnusableReply(message))


def unfinished(subject: Subject, seconds: float, *, has_text: bool) -> Failure:
    message = (
        f"{subject} had not finished its reply after {_minutes(seconds)}, so the connection was "
        "closed. Try again, or choose a faster model."
    )
    return Failure(StreamBroken(message) if has_text else ProviderTimeout(message))


def packed(subject: Subject) -> Failure:
    message = (
        f"{subject} sent a compressed answer, which was not asked for and is not unpacked. Turn "
        "compression off there, or in what stands between."
    )
    return Failure(UnusableReply(message))


def timed_out(subject: Subject, seconds: float, *, has_connected: bool) -> Failure:
    if has_connected:
        message = f"{subject} wrote nothing for {_seconds(seconds)}. Try again, or check its load."
        return Failure(ProviderTimeout(message))
    message = f"{subject} took no connection within {_seconds(seconds)}. Try again in a moment."
    return Failure(ProviderTimeout(message), is_passing=True)


def not_the_protocol(subject: Subject) -> Failure:
    return Failure(
        UnusableReply(
            f"{subject} did not answer in the OpenAI chat protocol. "
            f"Check {subject.address_place}. {_USUAL_END}"
        )
    )


def refused_or_busy(
    subject: Subject,
    status: int,
    body: object,
    *,
    headers: Mapping[str, str] | None = None,
    secret: str = "",
) -> Failure:
    """Return the failure for an HTTP status. For an error event in a stream, `status` is 0."""
    headers = headers or {}
    error = body if isinstance(body, Mapping) else {}
    code, kind = (_text(error, name) for name in ("code", "type"))
    status = status or (int(code) if _STATUS.fullmatch(code) else 500)
    said = shortened(_text(error, "message"), secret)
    if status == 402 or not _NO_CREDIT.isdisjoint((code, kind)):
        message = (
            f"{subject} says that the account has too little credit. Add some, then try again."
        )
        return Failure(ProviderRefused(message, said=said))
    if status == 429:
        retry_after = _read_retry_after(headers)
        message = (
            f"{subject} limits how often it is called (429). Try again in {_in_words(retry_after)}."
        )
        busy = ProviderBusy(message, said=said)
        return Failure(busy, is_passing=True, retry_after=retry_after)
    if status == 408 or status >= 500:
        message = f"{subject} has trouble of its own ({status}). Try again in a moment."
        retry_after = _read_retry_after(headers)
        busy = ProviderBusy(message, said=said)
        return Failure(busy, is_passing=True, retry_after=retry_after)
    # What a server says of a wrong key is left out, because some servers repeat the key in it.
    said = "" if status == 401 else said
    return Failure(ProviderRefused(_refusal(subject, status, headers), said=said))


def _refusal(subject: Subject, status: int, headers: Mapping[str, str]) -> str:
    if status == 401:
        return f"{subject} refused the API key (401). Check {subject.key_place}."
    if status == 404:
        return (
            f"{subject} does not know this model or this address (404). Check "
            f"{subject.model_place}, and {subject.address_place}. {_USUAL_END}"
        )
    if 300 <= status < 400:
        target = _host_in(headers.get("location", "")) or "elsewhere"
        return (
            f"{subject} sends on to {target} ({status}), which is not followed. Add a server with "
            f"the final address on the page Models, or check {subject.address_place}."
        )
    if status == 403:
        return (
            f"{subject} does not allow this call (403). Check whether its key may use this model, "
            "or choose another model."
        )
    return (
        f"{subject} refused the call ({status}). Check what is set for its model, or choose "
        "another model on the page Models."
    )


def _host_in(address: str) -> str:
    """Return the host in an address, cut to the longest name, or "" if the address is invalid."""
    with suppress(ValueError):
        return (urlsplit(address).hostname or "")[:_LONGEST_NAME]
    return ""


def _text(holder: Mapping[str, object], name: str) -> str:
    """Return a string or a number as text, or "" for a value of any other type."""
    value = holder.get(name)
    return str(value) if isinstance(value, str | int) else ""


def _in_words(seconds: float | None) -> str:
    if not seconds:
        return "a minute"
    if seconds >= LONGEST_WAIT:
        return "a day"
    return "about a second" if seconds < 1.5 else f"about {seconds:.0f} seconds"


def _seconds(seconds: float) -> str:
    return "1 second" if seconds == 1 else f"{seconds:g} seconds"


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def _words_of(said: str) -> str:
    """Return the message of a server or a model as text on one line, which ends as a sentence."""
    words = as_text(" ".join(said.split()))
    return words if not words or words.endswith((".", "!", "?", "…")) else f"{words}."


def shortened(message: str, secret: str) -> str:
    """Return the message of a server or a model on one line, without the key and not too long."""
    words = _without_key(_words_of(message), secret)
    return f"{words[:_DETAIL_LENGTH]}…" if len(words) > _DETAIL_LENGTH else words


def _without_key(words: str, key: str) -> str:
    """Return the words without the key.

    A short key may be a part of ordinary words. It is removed only where it stands alone, and a
    very short one stays, because no server gives out such a key and a person may use any letter as
    the key of a server that needs none.
    """
    if len(key) < SHORTEST_KEY:
        return words
    if len(key) >= LONG_KEY:
        return words.replace(key, "[key]")
    return re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", "[key]", words)


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the Retry-After header asks for, in any of its forms. Returns None if
    there is no such header or its value is not valid."""
    seconds: float | None = None
    with suppress(ValueError, OverflowError):
        # The value of the header may also be a date.
        seconds = parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
    for name, unit in (("retry-after", 1.0), ("retry-after-ms", 0.001)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
    if seconds is None or isnan(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_WAIT)
