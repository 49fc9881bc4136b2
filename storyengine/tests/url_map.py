"""The addresses of all routes of the program, with values for their parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.admindocs.views import simplify_regex
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
# The addresses that answer without a password. Static files answer without one too.
OPEN = frozenset({"/healthz", "/readyz", "/login"})

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_UUID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
_MADE_UP = {
    **dict.fromkeys(("session_id", "attempt_id", "draft_id", "new_draft_id", "trial_id"), _UUID),
    **dict.fromkeys(("number", "object_id", "content_type_id"), "1"),
    "app_label": "story_sessions",
}


def addresses(values: Mapping[str, str] | None = None) -> list[str]:
    """Return the address of each route once. A parameter without a value in `values` gets an
    invented one."""
    known = _MADE_UP | dict(values or {})
    filled = (
        _PARAMETER.sub(lambda found: known.get(found[1], "some-thing"), route)
        for route in _routes(get_resolver().url_patterns)
    )
    return list(dict.fromkeys(filled))


def text_of(response: Any) -> str:
    """Return the whole text of a response, even of a streamed one."""
    if not response.streaming:
        return str(response.content.decode())
    if not response.is_async:
        return b"".join(response.streaming_content).decode()

    async def read() -> bytes:
        return b"".join([part async for part in response.streaming_content])

    return async_to_sync(read)().decode()


def _routes(patterns: Sequence[URLPattern | URLResolver], prefix: str = "/") -> Iterator[str]:
    for pattern in patterns:
        part = str(pattern.pattern)
        if isinstance(pattern.pattern, RegexPattern):
            part = simplify_regex(part).removeprefix("/")
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, prefix + part)
        else:
            yield prefix + part
