"""The failures of a call. Each failure has a message for the GM, and says if another try may
help."""

import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from math import isnan
from urllib.parse import urlsplit

from agents.llm.providers.failures.call_errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnreachable,
    StreamBroken,
    UnusableReply,
)
from agents.llm.providers.failures.refusal_kinds import Kind, kind_of, status_of, window_in
from agents.llm.providers.failures.server_words import ServerWords, read_words
from agents.llm.providers.failures.subjects import Subject

# The name of a host has at most this many characters.
_LONGEST_NAME = 253
# A wait has at most this many seconds, which is a day. It replaces any longer wait that a server
# names.
LONGEST_WAIT = 86_400.0
# Servers refuse a field of a request with these statuses.
_OF_FIELDS = {400, 404, 405, 415, 422, 500, 501}
_USUAL_END = "The address of a server usually ends in /v1."


class Failure(Exception):
    """A failure inside a provider.

    `error` is the error that the caller gets. `is_passing` says whether another try may succeed,
    and `retry_after` how many seconds to wait before that try. `words` are the words of a server
    that may refuse a field of the request, or None.
    """

    def __init__(
        self,
        error: ProviderError,
        *,
        is_passing: bool = False,
        retry_after: float | None = None,
        words: ServerWords | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_passing = is_passing
        self.retry_after = retry_after
        self.words = words


def unreachable(subject: Subject, *, is_local: bool) -> Failure:
    place = "it is running" if is_local else "this machine is online and the address is right"
    message = f"{subject} cannot be reached. Check that {place}, then try again."
    return Failure(ProviderUnreachable(message), is_passing=True)


def dropped(subject: Subject) -> Failure:
    message = f"{subject} closed the connection before the first word. Try again."
    return Failure(ProviderUnreachable(message), is_passing=True)


def broken_off(subject: Subject, said: str = "") -> Failure:
    return Failure(StreamBroken(f"{subject} broke off in the middle of the reply.", said=said))


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


def not_the_protocol(subject: Subject, said: str) -> Failure:
    message = (
        f"{subject} did not answer in the OpenAI chat protocol. "
        f"Check {subject.address_place}. {_USUAL_END}"
    )
    return Failure(UnusableReply(message, said=said))


def refused_or_busy(
    subject: Subject,
    status: int,
    answer: object,
    *,
    headers: Mapping[str, str] | None = None,
    secret: str = "",
) -> Failure:
    """Return the failure for an HTTP status and the answer that came with it. For an error event in
    a stream, `status` is 0."""
    headers = headers or {}
    words = read_words(answer)
    status, kind = status or status_of(words), kind_of(status, words)
    # What a server says of a wrong key is left out, because some servers repeat the key in it.
    said = "" if status == 401 else words.shown(secret)
    may_name_field = kind in (Kind.REFUSED, Kind.TROUBLE) and status in _OF_FIELDS
    about_field = words if may_name_field else None
    match kind:
        case Kind.OVERFLOW:
            window = window_in(words)
            message = _overflow(subject, window)
            return Failure(ContextOverflow(message, said=said, window=window))
        case Kind.LIMITED | Kind.LOADING | Kind.TROUBLE:
            retry_after = _read_retry_after(headers)
            busy = ProviderBusy(_passing(kind, subject, status, retry_after), said=said)
            return Failure(busy, is_passing=True, retry_after=retry_after, words=about_field)
        case Kind.NO_CREDIT:
            message = (
                f"{subject} says that the account has too little credit. Add some, then try again."
            )
        case Kind.MODERATED:
            message = (
                f"{subject} takes something in this request for content that it does not allow "
                f"({status}), so its moderation refused the call. Change the words, or choose "
                "another model on the page Models."
            )
        case Kind.REFUSED:
            message = _refusal(subject, status, headers)
    return Failure(ProviderRefused(message, said=said), words=about_field)


def _overflow(subject: Subject, window: int | None) -> str:
    told = f", whose window has {window:,} tokens" if window else ""
    return (
        f"{subject} says that this request is too long for its model{told}. Give the model a "
        "larger window there, choose a model with a larger one on the page Models, or set "
        "STORYENGINE_CONTEXT_WINDOW to the window that it has."
    )


def _passing(kind: Kind, subject: Subject, status: int, retry_after: float | None) -> str:
    if kind is Kind.LIMITED:
        wait = _in_words(retry_after)
        return f"{subject} limits how often it is called ({status}). Try again in {wait}."
    if kind is Kind.LOADING:
        return f"{subject} is still loading its model ({status}). Try again in a moment."
    return f"{subject} has trouble of its own ({status}). Try again in a moment."


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
    """Return the host in an address, cut to the allowed length, or "" if the address is invalid."""
    with suppress(ValueError):
        return (urlsplit(address).hostname or "")[:_LONGEST_NAME]
    return ""


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
