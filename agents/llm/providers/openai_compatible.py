"""The provider for servers that speak the OpenAI chat protocol. No other module imports openai."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import httpx2
import openai

from agents.llm.providers.answers.answer_text import AnswerText
from agents.llm.providers.answers.answers import Answer
from agents.llm.providers.answers.streamed_answers import StreamedReply, TimeOuts
from agents.llm.providers.base import (
    Finished,
    ModelRequest,
    Provider,
    Restart,
    StreamPart,
    TakenOff,
)
from agents.llm.providers.bounds import (
    MOST_JSON,
    MOST_OF_A_REFUSAL,
    READ_ERRORS,
    TooMuch,
    is_packed,
    parse,
    read_all,
)
from agents.llm.providers.failures.call_errors import FieldRefused, ProviderRefused
from agents.llm.providers.failures.failures import (
    Failure,
    broken_off,
    overlong,
    packed,
    refused_or_busy,
    timed_out,
    unfinished,
    unreachable,
)
from agents.llm.providers.failures.field_refusals import (
    JSON_SCHEMA,
    OF_FORM,
    RESPONSE_FORMAT,
    TOKEN_LIMITS,
    TOOL_CHOICE,
    TOOLS,
    is_unknown,
    refused_field,
)
from agents.llm.providers.failures.retries import Retries
from agents.llm.providers.failures.subjects import of_environment, of_page
from agents.llm.providers.guard import check_real_calls_allowed
from agents.llm.providers.http_clients import address_in_words, build_http_client, host_of
from agents.llm.providers.strict_schema import is_strict

_STREAM, _STREAM_OPTIONS = "stream", "stream_options"
# The hosts that accept `prompt_cache_key`. Other hosts may refuse a field that they do not know.
_TAKING_CACHE_KEYS = ("api.openai.com", "api.mistral.ai")


class OpenAICompatibleProvider(Provider):
    """A provider that requests chat completions. In each event loop, it keeps its connections open
    between calls. `title` is the user's name for a server of the page Models."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        name: str = "openai",
        title: str = "",
        time_outs: TimeOuts | None = None,
        retries: Retries | None = None,
    ) -> None:
        self.name = name
        self.host = host_of(base_url)
        # The name of the server in sentences that the GM reads.
        place = address_in_words(base_url)
        self.subject = of_page(title, place) if title else of_environment(place)
        self._base_url = base_url
        self._api_key = api_key
        self._time_outs = time_outs or TimeOuts()
        self._retries = retries or Retries()
        self._clients: dict[asyncio.AbstractEventLoop, _HeldClient] = {}
        # The models whose last answer had thoughts without a beginning.
        self._leaving_out_beginnings: set[str] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        check_real_calls_allowed()
        tries, refused = 0, frozenset[str]()
        while True:
            tries += 1
            answer, has_taken_off = self._answer_to(request), False
            try:
                async with aclosing(self._call(request, answer)) as parts:
                    async for part in parts:
                        if isinstance(part, Finished):
                            part = replace(part, refused=refused)
                        has_taken_off = has_taken_off or isinstance(part, TakenOff)
                        yield part
                return
            except Failure as failure:
                field = self._refused_field(request, failure)
                if field and field not in refused:
                    was_sent, refused = field not in request.left_out, refused | {field}
                    if was_sent and field in OF_FORM:
                        error = failure.error
                        raise FieldRefused(str(error), refused, said=error.said) from None
                    request, tries = (
                        replace(request, left_out=request.left_out | {field}),
                        tries - 1,
                    )
                    continue
                wait = self._retries.wait_before(tries + 1, failure, request.retry_waits)
                if wait is None:
                    for part in answer.rest():
                        yield part
                    # The original error is left out, because its text could bring the request or
                    # the key into a log.
                    raise failure.error from None
            if has_taken_off:
                # The next try sends the thoughts again.
                yield Restart(is_next_try=True)
            await self._retries.sleep(wait)

    @property
    def takes_cache_keys(self) -> bool:
        """Whether the host is known to accept cache keys. Its subdomains, which are regional hosts,
        accept them too."""
        return f".{self.host}".endswith(tuple(f".{host}" for host in _TAKING_CACHE_KEYS))

    def extra_fields(self, request: ModelRequest) -> dict[str, Any]:
        """Return all fields of the request body except for model, messages and streaming, without
        those that the server has refused."""
        limits = [request.token_parameter, *TOKEN_LIMITS]
        limit = next((name for name in limits if name not in request.left_out), TOKEN_LIMITS[0])
        fields: dict[str, Any] = {limit: request.max_output_tokens}
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.top_p is not None:
            fields["top_p"] = request.top_p
        if request.json_schema is not None:
            fields[RESPONSE_FORMAT] = {
                "type": JSON_SCHEMA,
                JSON_SCHEMA: {
                    "name": "reply",
                    "schema": request.json_schema,
                    "strict": is_strict(request.json_schema),
                },
            }
        elif request.json_object:
            fields[RESPONSE_FORMAT] = {"type": "json_object"}
        if request.cache_key and self.takes_cache_keys:
            fields["prompt_cache_key"] = request.cache_key
        if request.tools:
            fields[TOOLS] = [tool.as_sent() for tool in request.tools]
        if request.tools and request.tool_choice:
            fields[TOOL_CHOICE] = request.tool_choice
        if request.reasoning_effort:
            fields["reasoning_effort"] = request.reasoning_effort
        fields |= request.extra_body
        return {name: value for name, value in fields.items() if name not in request.left_out}

    def _answer_to(self, request: ModelRequest) -> Answer:
        holds = request.model in self._leaving_out_beginnings
        return Answer(
            self.subject,
            request.max_output_tokens,
            secret=self._api_key,
            has_tools=bool(request.tools),
            text=AnswerText(holds=holds, continues=request.continues),
        )

    async def _call(
        self, request: ModelRequest, answer: Answer
    ) -> AsyncGenerator[StreamPart, None]:
        """Yield the parts of the answer to one call. Every error is raised as a Failure, and the
        text that the reader still holds back is not yielded then."""
        try:
            if _streams(request):
                async with aclosing(self._stream(request, answer)) as parts:
                    async for part in parts:
                        yield part
            else:
                body = await self._ask(request)
                answer.note(body)
                for part in answer.take_whole(parse(body)):
                    yield part
        except _CALL_ERRORS as error:
            # `from None`: the text of the original error may quote the request, and a chained error
            # would bring it into a log.
            raise self._failure(error, answer) from None
        else:
            for part in answer.rest():
                yield part
        finally:
            self._remember(request.model, answer.text)
        answer.check()
        for tool_call in answer.tool_calls:
            yield tool_call
        yield Finished(was_cut=answer.was_cut, usage=answer.usage)

    def _remember(self, model: str, text: AnswerText) -> None:
        """Remember whether the model leaves out the beginning of its thoughts, because the
        beginning stands in the template of its server. If so, the text of the model's next answer
        is held back until the thoughts end."""
        if text.left_out_beginning:
            self._leaving_out_beginnings.add(model)
        elif text.has_text:
            self._leaving_out_beginnings.discard(model)

    async def _stream(
        self, request: ModelRequest, answer: Answer
    ) -> AsyncGenerator[StreamPart, None]:
        options: dict[str, Any] = {"stream": True}
        if _STREAM_OPTIONS not in request.left_out:
            options[_STREAM_OPTIONS] = {"include_usage": True}
        seconds = self._time_outs.whole(request.max_output_tokens)
        try:
            async with (
                asyncio.timeout(seconds) as deadline,
                self._response_to(request, options) as response,
                aclosing(StreamedReply(response, answer, self._time_outs).parts()) as parts,
            ):
                async for part in parts:
                    yield part
        except TimeoutError:
            if deadline.expired():
                raise unfinished(self.subject, seconds, has_text=answer.has_text) from None
            raise

    async def _ask(self, request: ModelRequest) -> bytes:
        """Return the body of the whole answer. The time limit is the same as for the first text of
        a stream."""
        async with (
            asyncio.timeout(self._time_outs.first_text),
            self._response_to(request, {"stream": False}) as response,
        ):
            return await read_all(response, MOST_JSON)

    @asynccontextmanager
    async def _response_to(
        self, request: ModelRequest, options: dict[str, Any]
    ) -> AsyncGenerator[httpx2.Response]:
        """Open the response without reading its body. The library would read a body of any
        length."""
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
        """Raise Failure if the status is not a success, or if the body is compressed. The body of a
        refusal is read here within bounds, because the library has not read it."""
        if response.is_success:
            if is_packed(response):
                raise packed(self.subject)
            return
        said: object = None
        with suppress(*READ_ERRORS):
            async with asyncio.timeout(self._time_outs.trailer):
                said = await read_all(response, MOST_OF_A_REFUSAL)
        status, headers = response.status_code, response.headers
        raise refused_or_busy(self.subject, status, said, headers=headers, secret=self._api_key)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": request.model,
            # Some servers refuse "" but not null as the content of a message with tool calls.
            "messages": [
                {**message.as_sent(), "content": message.content or None}
                if message.tool_calls
                else message.as_sent()
                for message in request.messages
            ],
            **self.extra_fields(request),
        }

    def _refused_field(self, request: ModelRequest, failure: Failure) -> str:
        """Return the field of the request that the server refuses, or "" if it refuses none.

        The field may be one that is left out already, because one of several servers behind an
        address may answer for another.
        """
        if failure.words is None:
            return ""
        names = {*self.extra_fields(request), *request.left_out}
        if _streams(request):
            names |= {_STREAM, _STREAM_OPTIONS}
        field = refused_field(failure.words, names)
        if field == RESPONSE_FORMAT and request.json_schema and not is_unknown(failure.words):
            # The server may still take the form of a JSON object without a schema.
            return JSON_SCHEMA
        return field

    def _failure(self, error: Exception, answer: Answer) -> Failure:
        # The library raises an error of its own for an overlong head.
        if isinstance(error, TooMuch) or isinstance(error.__cause__, TooMuch):
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
                    ProviderRefused(
                        f"{self.subject} cannot be called. Check {self.subject.address_place}, and "
                        f"{self.subject.key_place}."
                    )
                )
        return answer.not_the_protocol()

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
        """Yield a client, and close it when the event loop ends. An event loop that ends closes
        this generator."""
        http_client = build_http_client(
            self._base_url,
            # This client has no time limit for reading. StreamedReply applies the limits.
            httpx2.Timeout(None, connect=self._time_outs.connect, write=60),
        )
        http_client.event_hooks["response"].append(self._check_head)
        client = openai.AsyncOpenAI(
            base_url=self._base_url,
            # A local server needs no key, but the library demands one.
            api_key=self._api_key or "none",
            max_retries=0,
            http_client=http_client,
        )
        try:
            yield client
        finally:
            self._clients.pop(loop, None)
            await client.close()


@dataclass(frozen=True)
class _HeldClient:
    client: openai.AsyncOpenAI
    # This reference keeps the generator alive. Without a reference Python would delete the
    # generator and so close the client.
    holder: AsyncGenerator[openai.AsyncOpenAI, None]

    @cached_property
    def address(self) -> str:
        """The full address of chat calls. It is kept, because the library would otherwise join and
        parse it for each request."""
        base = self.client.base_url
        return str(base.copy_with(raw_path=base.raw_path + b"chat/completions"))


def _streams(request: ModelRequest) -> bool:
    return request.streams and _STREAM not in request.left_out


# The errors that the libraries raise for faults of the network and of the server.
_CALL_ERRORS = (openai.OpenAIError, httpx2.InvalidURL, *READ_ERRORS)
