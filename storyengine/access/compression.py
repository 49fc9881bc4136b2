"""Compresses pages. Streams stay as they are, so that each word arrives as it is written."""

import asyncio
import re
from collections.abc import Awaitable
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.text import compress_string

from storyengine.access.api_access import is_cross_site
from storyengine.access.inline import InlineMiddleware

# A smaller page would fit into the same packet uncompressed.
SMALLEST = 1_000
# Pages up to this size are compressed in the event loop, which takes a millisecond at most. Larger
# ones are compressed in a thread, so that they delay no stream.
LARGEST_INLINE = 40_000
# The length of each page is changed at random by up to this number of bytes.
PADDING = 100
_ACCEPTS_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")


class CompressionMiddleware(InlineMiddleware):
    """A middleware that compresses pages with gzip.

    The length of a compressed page tells how much of its text repeats. An attacker who makes a
    browser ask for a page again and again, each time with another guess in the address, could learn
    a secret of the page from the lengths (BREACH). Therefore no answer to a request of another site
    is compressed, the length of every answer is changed at random, and Django masks the CSRF token
    anew for each page.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        response = cast(HttpResponseBase, self.get_response(request))
        if isinstance(response, HttpResponse) and _is_to_be_compressed(request, response):
            _compress(response)
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
        if isinstance(response, HttpResponse) and _is_to_be_compressed(request, response):
            if len(response.content) > LARGEST_INLINE:
                await asyncio.to_thread(_compress, response)
            else:
                _compress(response)
        return response


def _is_to_be_compressed(request: HttpRequest, response: HttpResponse) -> bool:
    """Return whether this answer is compressed. If the answer depends on what the browser accepts,
    its header Vary says so."""
    is_text = response.headers.get("Content-Type", "").startswith("text/")
    if not is_text or len(response.content) < SMALLEST or "Content-Encoding" in response.headers:
        return False
    patch_vary_headers(response, ("Accept-Encoding", "Sec-Fetch-Site"))
    accepts = _ACCEPTS_GZIP.search(request.headers.get("Accept-Encoding", ""))
    return bool(accepts) and not is_cross_site(request)


def _compress(response: HttpResponse) -> None:
    response.content = compress_string(response.content, max_random_bytes=PADDING)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.content))
