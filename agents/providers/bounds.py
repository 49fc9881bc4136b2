"""How much is read of what a model server sends, whatever it sends and however it packs it."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx2

# Of an answer that refuses a call: its own words, of which some hundred characters are shown.
MOST_OF_A_REFUSAL = 64_000
# Of one JSON text: an event of a stream, or a whole answer. The longest replies have about half.
MOST_JSON = 2_000_000
# Each value takes up to a hundred times the bytes that it has in JSON.
MOST_VALUES = 100_000
# Far more than any tokenizer's mean: only what ignores the limit passes it.
CHARACTERS_A_TOKEN = 50
# Of a stream: a server may send an event for each token, and repeat names and sources in each.
_BYTES_A_TOKEN = 4_000
_BYTES_BESIDES = 500_000
# What the shortest piece counts as, because it takes as long to read.
_LEAST_PIECE = 256
# How long other tasks may have to wait where pieces come faster than they are read.
_PATIENCE_SECONDS = 0.005

# Controls other than tab and line breaks, and lone surrogates: no database and no page takes them.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

_PACKED = {"gzip", "x-gzip", "deflate", "compress", "br", "zstd"}

# All that the library raises while a body is read. ValueError: broken JSON or UTF-8.
READ_ERRORS = (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError)


class TooMuch(ValueError):
    """An answer, or a part of it, is longer than any that is of use."""


def most_bytes(output_limit: int) -> int:
    """Of a stream that may have so many tokens."""
    return _BYTES_BESIDES + output_limit * _BYTES_A_TOKEN


def is_packed(response: httpx2.Response) -> bool:
    """Whether the body is compressed, which nobody asks for: a small one could hold a giant one.

    Other words in this header are a server's mistake, and change no byte.
    """
    named = response.headers.get("content-encoding", "").lower().split(",")
    return not _PACKED.isdisjoint(name.strip() for name in named)


async def read_pieces(response: httpx2.Response, most: int) -> AsyncGenerator[bytes]:
    """The body as it arrives, never unpacked; raises TooMuch when it has more than `most` bytes."""
    now = asyncio.get_running_loop().time
    gave_way = now()
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            most -= max(len(piece), _LEAST_PIECE)
            if most < 0:
                raise TooMuch
            yield piece
            # What has arrived already is read without a wait, which others would then never get.
            if now() - gave_way > _PATIENCE_SECONDS:
                await asyncio.sleep(0)
                gave_way = now()


async def read_json(response: httpx2.Response, most: int = MOST_JSON) -> Any:
    """A body of at most so many bytes; raises ValueError where it is no JSON, or too much."""
    async with aclosing(read_pieces(response, most)) as pieces:
        return parse(b"".join([piece async for piece in pieces]))


def parse(data: bytes) -> Any:
    """A JSON text; raises ValueError where it is none, or TooMuch."""
    if len(data) > MOST_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise TooMuch
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("It nests too deeply.") from None


def as_text(said: str) -> str:
    """What a server said, with what is no text replaced."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", said)
