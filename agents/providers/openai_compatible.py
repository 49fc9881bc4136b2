"""Any server that speaks the OpenAI chat protocol. The only module that imports openai."""

import asyncio
import ipaddress
import json
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import count
from typing import Any

import httpx2
import openai

from agents.providers.answers import Answer
from agents.providers.base import Finished, ModelRequest, Provider, StreamPart, TextDelta
from agents.providers.event_data import EventData
from agents.providers.exceptions import ProviderRefused
from agents.providers.failures import (
    Failure,
    broken_off,
    not_the_protocol,
    refused_or_busy,
    timed_out,
    unreachable,
)
from agents.providers.guard import check_real_calls_allowed
from agents.providers.loopback import LoopbackTransport
from agents.providers.strict_schema import is_strict


@dataclass(frozen=True)
class TimeOuts:
    """Seconds to wait. The first word may take minutes: a local model reads the prompt first."""

    connect: float = 10
    first_text: float = 600
    between_texts: float = 120
    # For the usage report and the end marker, once the reply is complete.
    trailer: float = 5
    # For the end of the response, once there is nothing more to tell.
    drain: float = 0.1


@dataclass(frozen=True)
class Retries:
    """How often a call is made, while nothing was shown, and how long to wait in between.

    A server that asks for a longer wait than `longest_wait` is not asked again.
    """

    tries: int = 4
    first_wait: float = 0.5
    longest_wait: float = 30
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def wait_before(self, next_try: int, failure: Failure) -> float | None:
        """Seconds until the next try, or None when there is none."""
        if not failure.is_passing or next_try > self.tries:
            return None
        if failure.retry_after is not None:
            return failure.retry_after if failure.retry_after <= self.longest_wait else None
        # The spread keeps callers that failed together from coming back together.
        spread = random.uniform(0.5, 1)  # noqa: S311  (no secret)
        return min(self.longest_wait, self.first_wait * 2.0 ** (next_try - 2)) * spread


# A text after the first is kept back for so long: to read and send on each word by itself costs
# many times what the word does, and with a hundred replies at once that is all there is time for.
GROUP_SECONDS = 0.05
# A chunk that has come already is there sooner.
_WAITED_SECONDS = 0.001
# By how much of itself a limit may fall short: few words then touch the timer.
_INEXACT = 0.05
# Hosts that take `prompt_cache_key`. Others may refuse a field that they do not know.
_TAKING_CACHE_KEYS = ("api.openai.com", "api.mistral.ai")


@lru_cache(maxsize=8)
def host_of(base_url: str) -> str:
    """The host that texts would be sent to; "" when it is this machine."""
    # The parser of the library that connects: two parsers could disagree on an odd address.
    try:
        host = httpx2.URL(base_url).host
    except httpx2.InvalidURL:
        return base_url
    if host == "localhost":
        return ""
    try:
        return "" if ipaddress.ip_address(host).is_loopback else host
    except ValueError:
        return host or base_url


class OpenAICompatibleProvider(Provider):
    """Asks for chat completions; keeps its connections open between the calls of an event loop."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        name: str = "openai",
        time_outs: TimeOuts | None = None,
        retries: Retries | None = None,
    ) -> None:
        self.name = name
        self.host = host_of(base_url)
        # How sentences for the GM call the server.
        self.subject = f"The server {_address_in_words(base_url)}"
        self._base_url = base_url
        self._api_key = api_key
        self._time_outs = time_outs or TimeOuts()
        self._retries = retries or Retries()
        self._clients: dict[asyncio.AbstractEventLoop, _HeldClient] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        check_real_calls_allowed()
        for next_try in count(2):
            try:
                async with aclosing(self._call(request)) as parts:
                    async for part in parts:
                        yield part
                return
            except Failure as failure:
                wait = self._retries.wait_before(next_try, failure)
                if wait is None:
                    # Without its cause, whose text may repeat the prompt or the key in a log.
                    raise failure.error from None
            await self._retries.sleep(wait)

    @property
    def open_clients(self) -> int:
        """How many event loops have connections of this provider."""
        return len(self._clients)

    @property
    def takes_cache_keys(self) -> bool:
        """Whether the host is known to keep prompts by a key; its regions are hosts below it."""
        return f".{self.host}".endswith(tuple(f".{host}" for host in _TAKING_CACHE_KEYS))

    def extra_fields(self, request: ModelRequest) -> dict[str, Any]:
        """What the request's body has besides model, messages and streaming."""
        fields: dict[str, Any] = {request.token_parameter: request.max_output_tokens}
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.json_schema is not None:
            fields["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": "reply",
                    "schema": request.json_schema,
                    "strict": is_strict(request.json_schema),
                },
            }
        if request.cache_key and self.takes_cache_keys:
            fields["prompt_cache_key"] = request.cache_key
        return {**fields, **request.extra_body}

    async def _call(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """One call; raises Failure, whatever goes wrong."""
        answer = Answer(self.subject, request.max_output_tokens)
        try:
            if request.streams:
                async with aclosing(self._stream(request, answer)) as texts:
                    async for text in texts:
                        yield TextDelta(text)
            else:
                whole = await self._ask(request)
                self._check_for_error(whole, answer)
                if text := answer.take_whole(whole):
                    yield TextDelta(text)
            if text := answer.end():
                yield TextDelta(text)
        except _CALL_ERRORS as error:
            raise self._failure(error, answer) from None
        yield Finished(was_cut=answer.was_cut, usage=answer.usage)

    async def _stream(self, request: ModelRequest, answer: Answer) -> AsyncGenerator[str, None]:
        async with asyncio.timeout(self._time_outs.first_text):
            held = await self._client_of_this_loop()
            options = {"stream": True, "stream_options": {"include_usage": True}}
            stream = await held.client.post(
                held.address,
                body={**self._body(request), **options},
                cast_to=object,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        try:
            async with aclosing(self._read(stream.response, answer)) as texts:
                async for text in texts:
                    yield text
        finally:
            await stream.close()

    async def _ask(self, request: ModelRequest) -> object:
        """The answer as a whole."""
        async with asyncio.timeout(self._time_outs.first_text):
            held = await self._client_of_this_loop()
            body = {**self._body(request), "stream": False}
            return await held.client.post(held.address, body=body, cast_to=object)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": request.model,
            "messages": [{"role": each.role, "content": each.content} for each in request.messages],
            **self.extra_fields(request),
        }

    async def _read(self, response: httpx2.Response, answer: Answer) -> AsyncGenerator[str, None]:
        """The texts, each within its time; what fails after the reply's end is not missed."""
        limits, events, pieces = self._time_outs, EventData(), response.aiter_bytes()
        found: Iterator[bytes] = iter(())
        is_over = is_marked = False
        put_off_again = 0.0
        now = asyncio.get_running_loop().time
        # Around all of them, because one for each would cost more than the text: whoever takes them
        # waits for nothing else in between.
        async with asyncio.timeout(limits.first_text) as deadline:
            while not is_over:
                asked = now()
                piece = await anext(pieces, None)
                if piece is None:
                    return
                if answer.has_text and now() - asked > _WAITED_SECONDS:
                    # What arrives meanwhile is then read, and sent on, in one piece with it.
                    await asyncio.sleep(GROUP_SECONDS)
                had_text, batch = answer.has_text, events.feed(piece)
                found = iter(batch)
                for data in found:
                    is_marked = _is_end(data)
                    if not is_marked and (text := self._take(data, answer)):
                        yield text
                    is_over = is_marked or answer.is_complete
                    if is_over:
                        break
                # A sign of life without data, which some servers send, is none.
                if batch and (now() > put_off_again or answer.has_text != had_text):
                    limit = limits.between_texts if answer.has_text else limits.first_text
                    deadline.reschedule(now() + limit)
                    put_off_again = now() + limit * _INEXACT
        if not is_marked and (text := await self._read_trailer(found, events, pieces, answer)):
            yield text
        with suppress(*_CALL_ERRORS):
            # A connection that was read to its end is used again.
            async with asyncio.timeout(limits.drain):
                async for _ in pieces:
                    pass

    async def _read_trailer(
        self,
        found: Iterator[bytes],
        events: EventData,
        pieces: AsyncIterator[bytes],
        answer: Answer,
    ) -> str:
        """What follows the reply's end, from the rest of what was found on: its usage."""
        texts: list[str] = []
        with suppress(Failure, *_CALL_ERRORS):
            async with asyncio.timeout(self._time_outs.trailer):
                while True:
                    for data in found:
                        if _is_end(data):
                            return "".join(texts)
                        texts.append(self._take(data, answer))
                    if (piece := await anext(pieces, None)) is None:
                        break
                    found = iter(events.feed(piece))
        return "".join(texts)

    def _take(self, data: bytes, answer: Answer) -> str:
        """The text that an event of the stream brings."""
        chunk = json.loads(data.decode())
        self._check_for_error(chunk, answer)
        return answer.take(chunk)

    def _check_for_error(self, said: object, answer: Answer) -> None:
        """A stream, and some servers also otherwise, report trouble under status 200."""
        if isinstance(said, dict) and said.get("error"):
            if answer.has_text:
                raise broken_off(self.subject)
            raise refused_or_busy(self.subject, 0, said["error"], secret=self._api_key)

    def _failure(self, error: Exception, answer: Answer) -> Failure:
        if answer.has_text:
            return broken_off(self.subject)
        match error:
            case openai.APIStatusError():
                return refused_or_busy(
                    self.subject,
                    error.status_code,
                    error.body,
                    headers=error.response.headers,
                    secret=self._api_key,
                )
            case openai.APITimeoutError():
                return timed_out(self.subject, self._time_outs.connect, has_connected=False)
            case TimeoutError():
                return timed_out(self.subject, self._time_outs.first_text, has_connected=True)
            case openai.APIConnectionError() | httpx2.HTTPError() | OSError():
                return unreachable(self.subject, is_local=not self.host)
            case openai.OpenAIError() | httpx2.InvalidURL():
                return Failure(
                    ProviderRefused(f"{self.subject} cannot be called. Check OPENAI_BASE_URL.")
                )
        return not_the_protocol(self.subject)

    async def _client_of_this_loop(self) -> "_HeldClient":
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [each for each in self._clients if each.is_closed()]:
                self._clients.pop(other, None)
            holder = self._hold_client(loop)
            self._clients[loop] = _HeldClient(await anext(holder), holder)
        return self._clients[loop]

    async def _hold_client(
        self, loop: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[openai.AsyncOpenAI, None]:
        """A client for one event loop, closed with it: a loop ends its generators before itself."""
        client = openai.AsyncOpenAI(
            base_url=self._base_url,
            # A local server wants no key, the library wants one.
            api_key=self._api_key or "none",
            max_retries=0,
            http_client=build_http_client(
                self._base_url,
                # Reading has its own limits, see _read.
                httpx2.Timeout(None, connect=self._time_outs.connect, write=60),
            ),
        )
        try:
            yield client
        finally:
            self._clients.pop(loop, None)
            await client.close()


def build_http_client(base_url: str, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    """A client that stays with the server of this address."""
    is_local = not host_of(base_url)
    has_tls = base_url.lower().startswith("https:")
    # Longer than a GM thinks: a new connection costs up to a tenth of a second.
    limits = httpx2.Limits(keepalive_expiry=120)
    tls = _tls_context() if has_tls else _no_tls_context()
    return httpx2.AsyncClient(
        # A redirect or, for this machine, a proxy of the environment could carry texts to a host
        # that the GM has not allowed.
        follow_redirects=False,
        trust_env=not is_local,
        timeout=timeout,
        limits=limits,
        verify=tls,
        transport=LoopbackTransport(limits, tls) if is_local and not has_tls else None,
    )


@dataclass(frozen=True)
class _HeldClient:
    client: openai.AsyncOpenAI
    # Only referred to: it ends, and closes the client, when nothing does.
    holder: AsyncGenerator[openai.AsyncOpenAI, None]

    @cached_property
    def address(self) -> str:
        """As a whole, because the library would put it together, and parse it, for each request."""
        base = self.client.base_url
        return str(base.copy_with(raw_path=base.raw_path + b"chat/completions"))


# All that the libraries raise for what a network and a server can do. ValueError: broken JSON or
# UTF-8 in a stream, which openai lets through.
_CALL_ERRORS = (
    openai.OpenAIError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    OSError,
    ValueError,
)


def _is_end(data: bytes) -> bool:
    return data.startswith(b"[DONE]")


def _address_in_words(base_url: str) -> str:
    """The host, with the port where it is not the usual one; never a user name or password."""
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        return "of OPENAI_BASE_URL"
    return f"{url.host}:{url.port}" if url.port else url.host


@cache
def _tls_context() -> ssl.SSLContext:
    # Shared, because loading the certificates takes longer than a call to a fast server.
    return httpx2.create_ssl_context()


@cache
def _no_tls_context() -> ssl.SSLContext:
    """For plain HTTP: trusts nobody, and costs nothing to build."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
