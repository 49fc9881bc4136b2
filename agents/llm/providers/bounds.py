"""Bounds on the data that is read from a model server, even if the server sends nonsense or
compressed data."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx2

# If a server refuses a call, at most this many bytes of its answer are read. The GM is shown only
# some hundred characters of such an answer.
MOST_OF_A_REFUSAL = 64_000
# The limit in bytes of one JSON text, which is an event of a stream or a whole answer. The longest
# replies have about half as many bytes.
MOST_JSON = 2_000_000
# One JSON text has at most this many values. A value takes up to a hundred times as much memory as
# its text.
MOST_VALUES = 100_000
# A reply has at most this many characters for each token of its limit. Real tokens are shorter on
# average, so only a server that ignores its limit exceeds this number.
CHARACTERS_A_TOKEN = 50
# A stream has at most this many bytes for each token of its limit. A server may send an event for
# each token, and repeat names and sources in every event.
_BYTES_A_TOKEN = 4_000
_BYTES_BESIDES = 500_000
# A piece with fewer bytes counts as this many bytes, because reading a short piece takes as long as
# reading a piece of this size.
_LEAST_PIECE = 256
# Other tasks wait at most this long while pieces arrive faster than they can be read.
_PATIENCE_SECONDS = 0.005

_PACKED = {"gzip", "x-gzip", "deflate", "compress", "br", "zstd"}

# The errors that reading a body may raise. ValueError stands for broken JSON or UTF-8.
READ_ERRORS = (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError)


class TooMuch(ValueError):
    """An answer, or a part of it, is longer than any useful answer."""


def most_bytes(output_limit: int) -> int:
    """Return how many bytes at most may be read of a stream with this output limit in tokens."""
    return _BYTES_BESIDES + output_limit * _BYTES_A_TOKEN


def is_packed(response: httpx2.Response) -> bool:
    """Return whether the body is compressed.

    No request asks for compression, because a small body could unpack into a giant one. If the
    header Content-Encoding has a word that names no method of compression, the body counts as not
    compressed, because the server has only set the header wrongly.
    """
    named = response.headers.get("content-encoding", "").lower().split(",")
    return not _PACKED.isdisjoint(name.strip() for name in named)


async def read_pieces(response: httpx2.Response, most: int) -> AsyncGenerator[bytes]:
    """Yield the body while it arrives, without unpacking it. Raises TooMuch if the body has more
    than `most` bytes."""
    now = asyncio.get_running_loop().time
    gave_way = now()
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            most -= max(len(piece), _LEAST_PIECE)
            if most < 0:
                raise TooMuch
            yield piece
            # Let other tasks run now. They get no turn while this task reads data that has already
            # arrived.
            if now() - gave_way > _PATIENCE_SECONDS:
                await asyncio.sleep(0)
                gave_way = now()


async def read_all(response: httpx2.Response, most: int) -> bytes:
    """Return a body. Raises TooMuch if it has more than `most` bytes."""
    async with aclosing(read_pieces(response, most)) as pieces:
        return b"".join([piece async for piece in pieces])


async def read_json(response: httpx2.Response, most: int = MOST_JSON) -> Any:
    """Return a body's JSON value. Raises ValueError if the body has more than `most` bytes or is
    not JSON."""
    return parse(await read_all(response, most))


def parse(data: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if the text is not valid JSON, and TooMuch
    if it has too many values."""
    if len(data) > MOST_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise TooMuch
    try:
        # Some servers begin their answers with a byte order mark.
        return json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("It nests too deeply.") from None
