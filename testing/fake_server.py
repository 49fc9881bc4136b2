"""A small OpenAI-compatible model server (python -m testing.fake_server).

The server answers on loopback with fixed timing, and plays back a recorded session. It can be asked
to fail: POST /control with {"faults": ["500", "cut", ...], "agent": 0 | 1 | 8 | 9 | null} queues
faults. Each fault hits one of the next calls of that agent. The number 1 stands for every
character, and null for every agent. {"clear": true} drops the queued faults, and {"first_token_ms":
..., "tokens_per_second": ...} changes the timing. GET /control returns the number of calls and the
faults that are still queued.
"""

import argparse
import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop

from testing.call_log import CallLog
from testing.model_replies import UNRECORDED_REPLY_WORDS, ModelReplies, agent_of
from testing.served_call import ServedCall, Timing
from testing.session_data import RecordedSession, load_session
from testing.wire import EventStream, Request, read_request, send_bytes, send_json

LOOPBACK = "127.0.0.1"
DEFAULT_CHAPTER_WORDS = 2_600
HANG_SECONDS = 300.0
SLOW_TOKENS_PER_SECOND = 4.0
DELAY_MS = 1_500.0
BROKEN_JSON = {
    "truncated": '{"id": "chat-1", "choices": [{"index": 0, "delta": {"content": "The la',
    "malformed": '{"id": "chat-1", "choices": [}, {"delta": "content"]',
}
MARKUP = "<script>alert(1)</script> <img src=x onerror=alert(2)> </textarea> **bold** &amp; done."

STATUS_FAULTS = {"400": 400, "401": 401, "404": 404, "429": 429, "500": 500, "503": 503}
FAULTS = frozenset(STATUS_FAULTS) | {
    "cut",  # the connection breaks after half of the words
    "drop",  # the connection breaks before the first word
    "empty",  # the reply has no text
    "hang",  # there is no answer until the client leaves
    "badjson",  # the reply ends properly after half of its text
    "html",  # the answer is a web page instead of JSON
    "slow",  # a few words are sent in a second
    "delay",  # the first word is late
    "truncated",  # the JSON around the reply breaks off
    "malformed",  # the answer is no valid JSON
    "markup",  # the reply's text has HTML
}


class FakeServer:
    """The fake model server. Another thread may change its faults and its timing while the server
    runs."""

    def __init__(
        self,
        *,
        session: RecordedSession | None = None,
        first_token_ms: float = 0.0,
        tokens_per_second: float = 10_000.0,
        chapter_words: int = DEFAULT_CHAPTER_WORDS,
        reply_words: int = UNRECORDED_REPLY_WORDS,
        reply_end: str = "",
        log_path: Path | None = None,
        prompt_end: int | None = None,
    ) -> None:
        self.timing = Timing(first_token_ms, tokens_per_second)
        self.log = CallLog(log_path, prompt_end)
        self.base_url = ""
        self.replies = ModelReplies(session, chapter_words, reply_words, reply_end)
        self._faults: deque[tuple[str, int | None]] = deque()

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The records of all finished calls, oldest first."""
        return list(self.log.records)

    def queue_faults(self, *names: str, agent: int | None = None) -> None:
        """Queue these faults. Raise ValueError if a fault is unknown."""
        if unknown := set(names) - FAULTS:
            raise ValueError(f"No such fault: {', '.join(sorted(unknown))}.")
        self._faults.extend((name, agent) for name in names)

    @property
    def queued_faults(self) -> list[tuple[str, int | None]]:
        """The queued faults that have not happened yet, each with the agent whose call will
        fail."""
        return list(self._faults)

    def clear_faults(self) -> None:
        self._faults.clear()

    async def start(self, port: int = 0) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, LOOPBACK, port)
        self.base_url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while request := await read_request(reader):
                if not await self._answer(request, reader, writer):
                    break
        writer.close()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer the request. Return False if the connection has to be closed."""
        route = (request.method, request.path)
        if route == ("GET", "/v1/models"):
            names = [f"agent-{number}" for number in range(10)]
            models = [{"id": name, "object": "model", "owned_by": "bench"} for name in names]
            await send_json(writer, {"object": "list", "data": models})
        elif route == ("GET", "/control"):
            await send_json(writer, self._status())
        elif route == ("POST", "/control"):
            await self._control(request, writer)
        elif route == ("POST", "/v1/chat/completions"):
            return await self._chat(request, reader, writer)
        else:
            await send_json(writer, _error("There is nothing here."), status=404)
        return True

    def _status(self) -> dict[str, Any]:
        return {
            "calls": len(self.log.records),
            "faults": [name for name, _agent in self._faults],
            "first_token_ms": self.timing.first_token_ms,
            "tokens_per_second": self.timing.tokens_per_second,
        }

    async def _control(self, request: Request, writer: asyncio.StreamWriter) -> None:
        try:
            wish = json.loads(request.body)
            if wish.get("clear"):
                self.clear_faults()
            self.queue_faults(*wish.get("faults", []), agent=wish.get("agent"))
            self.timing = Timing(
                float(wish.get("first_token_ms", self.timing.first_token_ms)),
                float(wish.get("tokens_per_second", self.timing.tokens_per_second)) or 0.01,
            )
        except (ValueError, TypeError, AttributeError) as error:
            await send_json(writer, _error(str(error)), status=400)
        else:
            await send_json(writer, self._status())

    async def _chat(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        # The time of arrival is read before the request is parsed, because parsing a long request
        # takes long.
        received_at = time.perf_counter()
        try:
            call = self._open_call(json.loads(request.body), received_at)
        except (ValueError, TypeError, KeyError, AttributeError):
            await send_json(writer, _error("That is no chat completion."), status=400)
            return True
        try:
            return await self._play(call, reader, writer)
        except ConnectionError:
            call.client_left = True
            return False
        finally:
            self.log.add(call.prompt, call.record())

    def _open_call(self, body: dict[str, Any], received_at: float) -> ServedCall:
        messages = [(str(m["role"]), _text_of(m.get("content"))) for m in body["messages"]]
        system = "\n".join(text for role, text in messages if role in ("system", "developer"))
        agent = agent_of(str(body.get("model", "")), system)
        timing, fault = self.timing, self._next_fault(agent)
        if fault == "slow":
            timing = Timing(timing.first_token_ms, SLOW_TOKENS_PER_SECOND)
        elif fault == "delay":
            timing = Timing(timing.first_token_ms + DELAY_MS, timing.tokens_per_second)
        texts = [text for _role, text in messages]
        call = ServedCall(body, agent, texts, fault, timing, received_at)
        answer = self.replies.answer_to(agent, body, call.messages)
        if fault not in ("markup", "empty", "badjson"):
            call.tool_calls = answer.tool_calls
        text = MARKUP if fault == "markup" else answer.text
        if fault == "badjson":
            text = text[: len(text) // 2]
        call.take_words("" if fault == "empty" else text)
        return call

    def _next_fault(self, agent: int) -> str:
        for queued in list(self._faults):
            name, wanted = queued
            is_character = wanted == 1 and 1 <= agent <= 7
            if wanted is None or wanted == agent or is_character:
                self._faults.remove(queued)
                return name
        return ""

    async def _play(
        self, call: ServedCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if status := STATUS_FAULTS.get(call.fault):
            wait = "Retry-After: 1\r\n" if status == 429 else ""
            await send_json(writer, _error("A fault on request."), status=status, headers=wait)
        elif call.fault == "html":
            await send_bytes(writer, b"<!doctype html><p>Bad gateway</p>", "text/html")
        elif broken := BROKEN_JSON.get(call.fault):
            is_stream = bool(call.body.get("stream"))
            body, kind = (
                (f"data: {broken}\n\n", "text/event-stream")
                if is_stream
                else (broken, "application/json")
            )
            await send_bytes(writer, body.encode(), kind)
        elif call.fault == "drop":
            return False
        elif call.fault == "hang":
            with suppress(TimeoutError):
                async with asyncio.timeout(HANG_SECONDS):
                    call.client_left = not await reader.read(1)
            return False
        elif call.body.get("stream"):
            return await _stream(call, reader, writer)
        else:
            return await _send_whole(call, writer)
        return True


async def _stream(
    call: ServedCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    events = EventStream(writer)
    await events.open()
    chunk = {"id": "chat-1", "object": "chat.completion.chunk", "created": 0, "model": call.model}

    async def send(delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        await events.send(json.dumps({**chunk, "choices": [choice]}))

    is_cut = call.fault == "cut"
    words = call.words[: len(call.words) // 2 + 1] if is_cut else call.words
    for number, word in enumerate(words):
        await asyncio.sleep(call.seconds_until(number))
        if reader.at_eof():
            raise ConnectionResetError
        await send({"content": word})
        if call.first_token_ms is None:
            call.first_token_ms = call.elapsed_ms()
    if is_cut:
        return False
    if call.tool_calls:
        await asyncio.sleep(call.seconds_until(len(words)))
        await send({"tool_calls": [{"index": at, **one} for at, one in enumerate(call.tool_calls)]})
    await send({}, _finish_reason(call))
    if (call.body.get("stream_options") or {}).get("include_usage"):
        await events.send(json.dumps({**chunk, "choices": [], "usage": call.usage()}))
    await events.send("[DONE]")
    await events.close()
    return True


async def _send_whole(call: ServedCall, writer: asyncio.StreamWriter) -> bool:
    await asyncio.sleep(call.seconds_until(len(call.words)))
    if call.fault == "cut":
        return False
    message: dict[str, Any] = {"role": "assistant", "content": "".join(call.words)}
    if call.tool_calls:
        message["tool_calls"] = list(call.tool_calls)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(call)}
    answer = {"id": "chat-1", "object": "chat.completion", "created": 0, "model": call.model}
    await send_json(writer, {**answer, "choices": [choice], "usage": call.usage()})
    return True


def _finish_reason(call: ServedCall) -> str:
    if call.was_limited:
        return "length"
    return "tool_calls" if call.tool_calls else "stop"


def _text_of(content: Any) -> str:
    """Return the text of a message's content, which may be a text, a list of parts or None."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "bench", "code": None, "param": None}}


@contextmanager
def start_fake_server(
    *,
    session: RecordedSession | None = None,
    first_token_ms: float = 0.0,
    tokens_per_second: float = 10_000.0,
    chapter_words: int = DEFAULT_CHAPTER_WORDS,
    port: int = 0,
) -> Iterator[FakeServer]:
    """Run a fake server in a thread of this process. Its `base_url` ends in /v1."""
    fake = FakeServer(
        session=session,
        first_token_ms=first_token_ms,
        tokens_per_second=tokens_per_second,
        chapter_words=chapter_words,
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fake-model-server", daemon=True)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(fake.start(port), loop).result(timeout=10)
        yield fake
        loop.call_soon_threadsafe(server.close)
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()
        fake.log.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m testing.fake_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--first-token-ms", type=float, default=200.0)
    parser.add_argument("--tokens-per-second", type=float, default=400.0)
    parser.add_argument("--replay", type=Path, help="a recorded session (JSON lines)")
    parser.add_argument("--chapter-words", type=int, default=DEFAULT_CHAPTER_WORDS)
    parser.add_argument("--reply-words", type=int, default=UNRECORDED_REPLY_WORDS)
    parser.add_argument("--reply-end", default="", help="text at the end of each made-up reply")
    parser.add_argument("--log", type=Path, help="append one JSON line for each call")
    parser.add_argument("--prompt-end", type=int, help="log so many characters of a prompt's end")
    return parser.parse_args(arguments)


async def _run(options: argparse.Namespace) -> None:
    fake = FakeServer(
        session=load_session(options.replay) if options.replay else None,
        first_token_ms=options.first_token_ms,
        tokens_per_second=options.tokens_per_second,
        chapter_words=options.chapter_words,
        reply_words=options.reply_words,
        reply_end=options.reply_end,
        log_path=options.log,
        prompt_end=options.prompt_end,
    )
    server = await fake.start(options.port)
    print(fake.base_url, flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        # The server runs on uvloop, because uvloop is faster and leaves more of the machine to the
        # measured program.
        uvloop.run(_run(parse_options()))
