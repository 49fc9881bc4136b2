"""A hostile model server, which listens on loopback and answers in its own threads.

`ANSWERS` has each answer, by its kind and name, as the bytes that the server sends. An endless
answer is sent until the client closes the connection.
"""

import json
import socketserver
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any

# The number of bytes of an "endless" answer, which is more than a client may ever read.
WITHOUT_END = 1_000_000_000
# The server sends endless answers in large blocks, so that it is never slower than the client.
_BLOCK = 64 * 1024
# The server closes the connection after this many seconds if the client neither reads data nor
# closes the connection.
_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class HostileAnswer:
    """The pieces of an answer, and words of the error that the user sees because of this answer.

    `told` is "" if the answer causes no error. `said` has words of the server's own, which stand
    beside the error.
    """

    pieces: Callable[[], Iterable[bytes]]
    told: str = ""
    said: str = ""


def _head(status: str = "200 OK", *lines: str, kind: str = "text/event-stream") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", *lines, "", ""]).encode()


def _event(data: object) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def _delta(reason: str | None = None, **said: object) -> bytes:
    return _event({"choices": [{"index": 0, "delta": said, "finish_reason": reason}]})


def _usage(prompt: object, completion: object) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return _event({"choices": [], "usage": counts})


def _without_end(piece: bytes) -> Iterator[bytes]:
    block = piece * (_BLOCK // len(piece) + 1)
    return repeat(block, WITHOUT_END // len(block))


def _sent(told: str, *pieces: bytes, then: bytes = b"") -> HostileAnswer:
    """Make an answer of these pieces.

    If `then` is given, it follows the pieces again and again without end.
    """
    return HostileAnswer(lambda: chain(pieces, _without_end(then) if then else ()), told)


def _streamed(told: str, *events: bytes, then: bytes = b"") -> HostileAnswer:
    return _sent(told, _head(), *events, then=then)


def _saying(said: str, answer: HostileAnswer) -> HostileAnswer:
    return replace(answer, said=said)


def _refused(
    told: str, status: str, body: object = "", *lines: str, then: bytes = b""
) -> HostileAnswer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _sent(told, _head(status, *lines, kind="application/json"), data, then=then)


def _chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _packed(megabyte: bytes, wbits: int) -> tuple[bytes, bytes]:
    """Return the start of a compressed stream, and a block that may follow the start any number of
    times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    start = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    return start, packer.compress(megabyte) + packer.flush(zlib.Z_FULL_FLUSH)


def _bomb(told: str, status: str, encoding: str, *, text: bytes = b"\0") -> HostileAnswer:
    """Make a small answer that grows to a gigabyte when the client unpacks it.

    `encoding` names each method by which the answer is compressed.
    """
    wbits = -zlib.MAX_WBITS if encoding == "deflate" else zlib.MAX_WBITS | 16

    def pieces() -> Iterator[bytes]:
        data = b"".join(_repeated(*_packed(text * (1_000_000 // len(text)), wbits), 1_000))
        for _ in encoding.split(",")[1:]:
            start, block = _packed(data, wbits)
            data = start + block
        yield _head(status, f"Content-Encoding: {encoding}")
        yield data

    return HostileAnswer(pieces, told)


def _repeated(start: bytes, block: bytes, times: int) -> Iterator[bytes]:
    return chain([start], repeat(block, times))


_CHUNKED = _head("200 OK", "Transfer-Encoding: chunked")
_WORDS, _END, _DONE = _delta(content="I step inside."), _delta("stop"), _event(b"[DONE]")
_REPLY = (_WORDS, _END, _DONE)
_TOOL = {"index": 0, "id": "call-1", "type": "function"}

_TROUBLE = "has trouble of its own (500)"
_LIMITED = "limits how often it is called (429)"
_NO_PROTOCOL = "did not answer in the OpenAI chat protocol"
_PACKED = "compressed"
_TOO_MUCH = "far more than"
_BROKEN_OFF = "broke off in the middle"
_ALL_HIDDEN = "before the first word, for hidden reasoning"
_UNREACHABLE = "cannot be reached"
_DECLINED = "The model declined to answer"

_STATUS = {
    "an error without end": _refused(_TROUBLE, "500 Trouble", b"x", then=b"Trouble. "),
    "an error of a gigabyte": _refused(
        _TROUBLE, "500 Trouble", b"x", f"Content-Length: {WITHOUT_END}", then=b"Trouble. "
    ),
    "a refusal without end": _refused("(400)", "400 Bad", b'{"error": {"message": "', then=b"No! "),
    "a refusal of ten megabytes": _refused(
        "(400)", "400 Bad", {"error": {"message": "No! " * 2_500_000}}
    ),
    "a refusal that nests": _refused("(400)", "400 Bad", _nested(30_000)),
    "a refusal whose code is a list": _refused(
        "(400)", "400 Bad", {"error": {"code": [[]], "type": {}, "message": {}}}
    ),
    "a refusal that is no text": _saying(
        "A \ufffd\ufffd B.", _refused("(400)", "400 Bad", {"error": {"message": "A \x00\ud800 B."}})
    ),
    "an error event that is no text": _saying(
        "A \ufffd\ufffd B.", _streamed("(500)", _event({"error": {"message": "A \x00\ud800 B."}}))
    ),
    "an error event whose code is a number without end": _streamed(
        "has trouble of its own", _event(b'{"error": {"code": 1%s}}' % (b"0" * 400))
    ),
    "an error event whose code nests": _streamed(
        "has trouble of its own", _event(b'{"error": {"code": %s}}' % _nested(900))
    ),
    "a long wait": _refused(_LIMITED, "429 Slow", "", "Retry-After: 1e300"),
    "a negative wait": _refused(_LIMITED, "429 Slow", "", "Retry-After: -1"),
    "a wait until the end of time": _refused(
        _LIMITED, "429 Slow", "", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"
    ),
    "a wait that is no number": _refused(_LIMITED, "429 Slow", "", "Retry-After: " + "9" * 60_000),
    "a redirect without end": _refused(
        "sends on to", "302 Found", b"x", "Location: http://elsewhere.example/", then=b"Moved. "
    ),
    "a redirect to nowhere": _refused("sends on to", "307 Moved", "", "Location: http://["),
    "a redirect to a long name": _refused(
        "sends on to", "307 Moved", "", f"Location: http://{'x' * 60_000}/"
    ),
    "another protocol": _sent(
        _UNREACHABLE, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
    ),
    "a status that there is not": _refused("(799)", "799 Odd", ""),
    "thousands of announcements": _sent(_TOO_MUCH, b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
    "announcements without end": _sent(_TOO_MUCH, then=b"HTTP/1.1 103 Hints\r\nX: x\r\n\r\n"),
    "long announcements without end": _sent(
        _TOO_MUCH, then=b"HTTP/1.1 103 Hints\r\nX: %s\r\n\r\n" % (b"x" * 60_000)
    ),
    "a web page": _sent(_NO_PROTOCOL, _head(kind="text/html"), b"<!doctype html><p>Hello</p>"),
    "nothing under 204": _sent(_NO_PROTOCOL, b"HTTP/1.1 204 No Content\r\n\r\n"),
}
_ENCODING = {
    "an error packed with gzip": _bomb(_TROUBLE, "500 Trouble", "gzip"),
    "an error packed twice": _bomb(_TROUBLE, "500 Trouble", "gzip, gzip"),
    "an answer packed with gzip": _bomb(_PACKED, "200 OK", "gzip"),
    "an answer packed with deflate": _bomb(_PACKED, "200 OK", "deflate"),
    "an answer packed twice": _bomb(_PACKED, "200 OK", "gzip, gzip"),
    "a packed line of lines": _bomb(_PACKED, "200 OK", "gzip", text=b"\n"),
    "an answer said to be packed with br": _sent(
        _PACKED, _head("200 OK", "Content-Encoding: br"), then=b"\xff"
    ),
    "what follows a packed answer": _sent(
        _TROUBLE,
        _head("500 Trouble", "Content-Encoding: gzip"),
        zlib.compress(b"x", wbits=zlib.MAX_WBITS | 16),
        then=b"x" * 1_000,
    ),
    "a reply in an encoding of its own": _sent(
        "", _head("200 OK", "Content-Encoding: UTF-8"), *_REPLY
    ),
}
_LENGTH = {
    "nothing at all": _sent(_UNREACHABLE),
    "less than was said": _sent(
        _UNREACHABLE, _head("200 OK", "Content-Length: 9000"), _delta(content="")
    ),
    "a negative length": _sent(_UNREACHABLE, _head("200 OK", "Content-Length: -1"), *_REPLY),
    "a header line without end": _sent(_TOO_MUCH, b"HTTP/1.1 200 OK\r\nX: ", then=b"x"),
    "a head of many lines": _sent(_TOO_MUCH, _head("200 OK", *["X:"] * 20_000), *_REPLY),
    "header lines without end": _sent(_TOO_MUCH, b"HTTP/1.1 200 OK\r\n", then=b"X: x\r\n"),
    "a header full of cookies": _sent(
        "", _head("200 OK", *(f"Set-Cookie: n{n}={'x' * 60}; Path=/" for n in range(900))), *_REPLY
    ),
    "a whole answer without end": _sent(
        _TOO_MUCH, _head(kind="application/json"), b'{"choices": [', then=b"{},"
    ),
    "a chunk too long to count": _sent(_UNREACHABLE, _CHUNKED, b"f" * 30 + b"\r\n", then=b"x"),
    "a chunk's size without end": _sent(_UNREACHABLE, _CHUNKED, b"1;", then=b"x"),
    "chunks of one byte without end": _sent(_TOO_MUCH, _CHUNKED, then=_chunks(b":")),
    "trailers without end": _sent("", _CHUNKED, _chunks(*_REPLY), b"0\r\n", then=b"X: x\r\n"),
    "trailers of many lines": _sent("", _CHUNKED, _chunks(*_REPLY), b"0\r\n", b"X:\r\n" * 20_000),
    # The second answer begins in the same piece in which the first answer ends. In a separate piece
    # it could arrive so late that the client takes it for the answer to its next request.
    "an answer to nothing": _sent(
        "", _CHUNKED, _chunks(*_REPLY), b"0\r\n\r\n" + _head(), then=_WORDS
    ),
}
_USAGE = {
    "more tokens than a database counts": _streamed("", _WORDS, _END, _usage(2**64 - 1, 2**64 - 1)),
    "negative tokens": _streamed("", _WORDS, _END, _usage(-1, -(2**63))),
    "tokens in words": _streamed("", _WORDS, _END, _usage("many", "9" * 400), _DONE),
    "tokens without end": _streamed("", _WORDS, _END, _usage(10**400, 10**400), _DONE),
    "more digits than are read": _streamed(
        "", _WORDS, _END, _event(b'{"usage": %s}' % (b"9" * 9_000))
    ),
    "nested tokens": _streamed("", _WORDS, _END, _usage([[1]], {"prompt_tokens": 1}), _DONE),
    "reports without end": _streamed("", _WORDS, _END, then=_usage(1, 1)),
}
_REASONING = {
    f"reasoning without end in {name}": _streamed(told, then=_delta(None, **{name: said}))
    for name, said, told in [
        ("reasoning_content", "She lies. ", _ALL_HIDDEN),
        ("reasoning", "She lies. ", _ALL_HIDDEN),
        ("reasoning_details", [{"type": "reasoning.text", "text": "She lies. "}], _ALL_HIDDEN),
        ("content", [{"type": "thinking", "thinking": [{"text": "She lies. "}]}], _ALL_HIDDEN),
    ]
} | {
    "thoughts without end": _streamed(
        _ALL_HIDDEN, _delta(content="<think>"), then=_delta(content="She lies. " * 20)
    ),
    "thoughts without end in tiny pieces": _streamed(
        _ALL_HIDDEN, *(_delta(content=letter) for letter in "<think>"), then=_delta(content="<")
    ),
    "thoughts that never close": _streamed(
        _ALL_HIDDEN, _delta(content="<think>Hm."), _delta("length"), _DONE
    ),
    "blanks without end": _streamed(_ALL_HIDDEN, then=_delta(content=" ")),
}
_REFUSAL = {
    "a refusal in the reply without end": _streamed(_DECLINED, then=_delta(refusal="I cannot. ")),
    "a refusal in the reply": _streamed(_DECLINED, _delta(refusal="I cannot."), _END, _DONE),
    "a refusal in the reply that is no text": _saying(
        "A \ufffd\ufffd B.",
        _streamed(_DECLINED, _delta(refusal="A \x00\ud800 B."), _END, _DONE),
    ),
    "a refusal beside words": _streamed("", _delta(content="Yes.", refusal="I cannot."), _END),
}
_EVENTS = {
    "comments without end": _streamed(_TOO_MUCH, then=b": still here\n\n"),
    "a line without end": _streamed(_TOO_MUCH, b"data: ", then=b"x"),
    "data without an event": _streamed(_TOO_MUCH, then=b"data: {}\n"),
    "empty data without an event": _streamed(_TOO_MUCH, then=b"data:\n"),
    "empty events without end": _streamed(_TOO_MUCH, then=b"event: message\nid: 1\n\n"),
    "empty lines without end": _streamed(_TOO_MUCH, then=b"\n"),
    "chunks without words without end": _streamed(_TOO_MUCH, then=_delta()),
    "chunks without choices without end": _streamed(_TOO_MUCH, then=_event({"choices": []})),
    "words without end": _streamed("", then=_WORDS),
    "words and then comments without end": _streamed(_TOO_MUCH, _WORDS, then=b": still here\n\n"),
    "a word of twenty megabytes": _streamed(_TOO_MUCH, _delta(content="I step. " * 2_500_000)),
    "bytes that are no text": _streamed(_NO_PROTOCOL, _event(b"\xff\xfe\x00")),
    "an event that nests": _streamed(_NO_PROTOCOL, _event(_nested(30_000))),
    "an event of a million values": _streamed(
        _TOO_MUCH, _event(b'{"choices": [%s{}]}' % (b'{"":0},' * 250_000))
    ),
    "events of a hundred thousand values without end": _streamed(
        _TOO_MUCH, then=_event(b'{"choices": [], "x": [%s0]}' % (b'{"":0},' * 90_000))
    ),
    "all ends of lines": _streamed(
        "", _WORDS.replace(b"\n", b"\r\n"), _END.replace(b"\n", b"\r"), b": x\r\n\n", _DONE
    ),
    "no end": _streamed(_BROKEN_OFF, _WORDS),
    "an error among the words": _streamed(_BROKEN_OFF, _WORDS, _event({"error": {"code": 500}})),
    "single bytes": _sent("", _CHUNKED, _chunks(*(bytes([b]) for b in b"".join(_REPLY)), b"")),
}


def _called(name: str = "go", arguments: str = "{}", **fields: object) -> bytes:
    function = {"name": name, "arguments": arguments}
    return _delta(tool_calls=[{**_TOOL, **fields, "function": function}])


def _called_so(calls: object) -> bytes:
    return _delta(tool_calls=calls)


_CALLS_END = (_delta("tool_calls"), _DONE)
_ONLY_CALLS = "The model returned an empty reply"
# These are the errors for a request that offered no tools.
_TOOLS = {
    "a tool call without end": _streamed(
        _TOO_MUCH, then=_delta(tool_calls=[{**_TOOL, "function": {"arguments": "{{{{"}}])
    ),
    "a tool that nobody offered": _streamed(
        "The model returned an empty reply",
        _delta(tool_calls=[{**_TOOL, "function": {"name": "delete_all", "arguments": "{}"}}]),
        _delta("tool_calls"),
        _DONE,
    ),
    "arguments of two megabytes": _streamed(_TOO_MUCH, _called(arguments="x" * 2_000_000)),
    "long arguments": _streamed(_ONLY_CALLS, _called(arguments="x" * 400_000), *_CALLS_END),
    "ten thousand calls": _streamed(
        _TOO_MUCH, *(_called(index=number, id=f"call-{number}") for number in range(10_000))
    ),
    "ten thousand calls in one event": _streamed(
        _ONLY_CALLS,
        _delta(tool_calls=[{"function": {"name": "go", "arguments": ""}}] * 10_000),
        *_CALLS_END,
    ),
    "a name of two megabytes": _streamed(_TOO_MUCH, _called("go" * 1_000_000)),
    "a long name": _streamed(_ONLY_CALLS, _called("go" * 200_000), *_CALLS_END),
    "a name without end": _streamed(_TOO_MUCH, then=_called("go" * 1_000, arguments="")),
    "a long id": _streamed(_ONLY_CALLS, _called(id="x" * 400_000), *_CALLS_END),
    "arguments that are no text": _streamed(
        _ONLY_CALLS, _called(arguments='{"to": "\x00\ud800"}'), *_CALLS_END
    ),
    "arguments that nest": _streamed(
        _ONLY_CALLS, _called(arguments='{"to": ' * 2_800 + "1" + "}" * 2_800), *_CALLS_END
    ),
    "arguments that nest as an object": _streamed(
        _ONLY_CALLS,
        _event(
            b'{"choices": [{"delta": {"tool_calls": [{"function": {"name": "go", "arguments":'
            b'{"to": %s}}}]}}]}' % _nested(900)
        ),
        *_CALLS_END,
    ),
    "calls that are none": _streamed(
        _ONLY_CALLS,
        *map(_called_so, ("go", {"go": []}, [None, 1, "go", []], [{}], 7)),
        _delta(tool_calls=[{"index": [], "id": {}, "function": {"name": [], "arguments": 1}}]),
        _delta(tool_calls=[{"index": 10**400, "id": None, "function": "go"}]),
        *_CALLS_END,
    ),
    "a tool call beside words": _streamed(
        "", _delta(content="Yes.", tool_calls=[{**_TOOL, "function": {"name": "x"}}]), _END, _DONE
    ),
}

ANSWERS: dict[str, dict[str, HostileAnswer]] = {
    "status": _STATUS,
    "encoding": _ENCODING,
    "length": _LENGTH,
    "usage": _USAGE,
    "reasoning": _REASONING,
    "refusal": _REFUSAL,
    "events": _EVENTS,
    "tool calls": _TOOLS,
}


@dataclass
class HostileServer:
    """A server that gives a hostile answer to each request that contains certain words.

    `answers` maps these words to the hostile answers. Any other request gets an ordinary answer,
    whose text `write` makes from the body of the request.
    """

    write: Callable[[dict[str, Any]], str]
    answers: dict[str, HostileAnswer] = field(default_factory=dict)
    port: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer_to(self, body: bytes) -> Iterable[bytes]:
        for words, answer in list(self.answers.items()):
            if words.encode() in body:
                return answer.pieces()
        return [_head(), _delta(content=self.write(json.loads(body))), _END, _DONE]


@contextmanager
def hostile_server(write: Callable[[dict[str, Any]], str]) -> Iterator[HostileServer]:
    serving = HostileServer(write)

    class Handler(socketserver.StreamRequestHandler):
        timeout = _PATIENCE_SECONDS

        def handle(self) -> None:
            # The client may close the connection in the middle of an answer, and some tests check
            # that it does.
            with suppress(OSError):
                self._answer()

        def _answer(self) -> None:
            length = 0
            while line := self.rfile.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            for piece in serving.answer_to(self.rfile.read(length)):
                self.wfile.write(piece)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        serving.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield serving
        finally:
            server.shutdown()
            thread.join()
