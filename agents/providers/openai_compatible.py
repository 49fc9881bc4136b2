"""Any server that speaks the OpenAI chat protocol. The only module that imports openai."""

import asyncio
import ipaddress
import random
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from itertools import count
from typing import Any

import httpx2
import openai

from agents.providers.answers import Answer
from agents.providers.base import Finished, ModelRequest, Provider, StreamPart, TextDelta
from agents.providers.bounds import (
    MOST_OF_A_REFUSAL,
    READ_ERRORS,
    TooMuch,
    is_packed,
    read_json,
)
from agents.providers.exceptions import ProviderRefused
from agents.providers.failures import (
    Failure,
    broken_off,
    not_the_protocol,
    overlong,
    packed,
    refused_or_busy,
    timed_out,
    unfinished,
    unreachable,
)
from agents.providers.guard import check_real_calls_allowed
from agents.providers.loopback import LoopbackTransport
from agents.providers.streamed_replies import StreamedReply, TimeOuts
from agents.providers.strict_schema import is_strict


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


# By this name a server refuses what it does not know.
_EFFORT = "reasoning_effort"
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
                if request.reasoning_effort and _EFFORT in str(failure):
                    # A server that does not know it, or not beside what else was asked for.
                    request = replace(request, reasoning_effort="")
                    continue
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
        if request.tools:
            fields["tools"] = [tool.as_sent() for tool in request.tools]
        if request.reasoning_effort:
            fields[_EFFORT] = request.reasoning_effort
        return {**fields, **request.extra_body}

    async def _call(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """One call; raises Failure, whatever goes wrong."""
        answer = Answer(
            self.subject,
            request.max_output_tokens,
            secret=self._api_key,
            has_tools=bool(request.tools),
        )
        try:
            if request.streams:
                async with aclosing(self._stream(request, answer)) as texts:
                    async for text in texts:
                        yield TextDelta(text)
            elif text := answer.take_whole(await self._ask(request)):
                yield TextDelta(text)
            if text := answer.end():
                yield TextDelta(text)
        except _CALL_ERRORS as error:
            raise self._failure(error, answer) from None
        for tool_call in answer.tool_calls:
            yield tool_call
        yield Finished(was_cut=answer.was_cut, usage=answer.usage)

    async def _stream(self, request: ModelRequest, answer: Answer) -> AsyncGenerator[str, None]:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        seconds = self._time_outs.whole(request.max_output_tokens)
        try:
            async with (
                asyncio.timeout(seconds) as deadline,
                self._response_to(request, options) as response,
                aclosing(StreamedReply(response, answer, self._time_outs).texts()) as texts,
            ):
                async for text in texts:
                    yield text
        except TimeoutError:
            if deadline.expired():
                raise unfinished(self.subject, seconds, has_text=answer.has_text) from None
            raise

    async def _ask(self, request: ModelRequest) -> object:
        """The answer as a whole, which has as long in all as a stream has for its first text."""
        async with (
            asyncio.timeout(self._time_outs.first_text),
            self._response_to(request, {"stream": False}) as response,
        ):
            return await read_json(response)

    @asynccontextmanager
    async def _response_to(
        self, request: ModelRequest, options: dict[str, Any]
    ) -> AsyncGenerator[httpx2.Response]:
        """The body is still to be read: the library would read it all, however much that is."""
        async with asyncio.timeout(self._time_outs.first_text):
            held = await self._client_of_this_loop()
            stream = await held.client.post(
                held.address,
                body={**self._body(request), **options},
                cast_to=object,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        try:
            yield stream.response
        finally:
            await stream.close()

    async def _check_head(self, response: httpx2.Response) -> None:
        """Raises Failure for all that is no success, before the library reads what it says."""
        if response.is_success:
            if is_packed(response):
                raise packed(self.subject)
            return
        said: object = None
        with suppress(*READ_ERRORS):
            async with asyncio.timeout(self._time_outs.trailer):
                said = await read_json(response, MOST_OF_A_REFUSAL)
        if isinstance(said, dict):
            said = said.get("error", said)
        status, headers = response.status_code, response.headers
        raise refused_or_busy(self.subject, status, said, headers=headers, secret=self._api_key)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": request.model,
            # What calls and says nothing has no content: some servers refuse an empty one.
            "messages": [
                {**message.as_sent(), "content": message.content or None}
                if message.tool_calls
                else message.as_sent()
                for message in request.messages
            ],
            **self.extra_fields(request),
        }

    def _failure(self, error: Exception, answer: Answer) -> Failure:
        if isinstance(error, TooMuch):
            return overlong(self.subject, has_text=answer.has_text)
        if answer.has_text:
            return broken_off(self.subject)
        match error:
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
        http_client = build_http_client(
            self._base_url,
            # Reading has limits of its own, see TimeOuts.
            httpx2.Timeout(None, connect=self._time_outs.connect, write=60),
        )
        http_client.event_hooks = {"response": [self._check_head]}
        client = openai.AsyncOpenAI(
            base_url=self._base_url,
            # A local server wants no key, the library wants one.
            api_key=self._api_key or "none",
            max_retries=0,
            http_client=http_client,
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
        # Packed, a small answer could hold a giant one.
        headers={"Accept-Encoding": "identity"},
        # None are kept: they would be sent back with each call, and grow with each answer.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
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


# All that the libraries raise for what a network and a server can do.
_CALL_ERRORS = (openai.OpenAIError, httpx2.InvalidURL, *READ_ERRORS)


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
