"""A small HTTP server that answers questions about models.

Tests write the answers. The server runs in its own thread.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A key is "GET /path" or "POST /path". Its value is the answer: data to be sent as JSON, bytes to
# be sent unchanged, or a status.
Routes = Mapping[str, object]


@dataclass(frozen=True)
class Question:
    """A request that the server received."""

    route: str
    query: str
    key: str
    body: bytes


@dataclass
class ModelServer:
    """A server that gives each request the answer of its route, or status 404 if there is no route.

    A request whose route has the answer None waits until the test ends.
    """

    routes: Routes
    port: int = 0
    questions: list[Question] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[str]:
        return [question.route for question in self.questions]

    def answer_to(self, route: str) -> tuple[int, bytes]:
        answer = self.routes.get(route, 404)
        if answer is None:
            self.is_over.wait()
        if isinstance(answer, int):
            return answer, b"{}"
        return 200, answer if isinstance(answer, bytes) else json.dumps(answer).encode()


@contextmanager
def model_server(routes: Routes) -> Iterator[ModelServer]:
    told = ModelServer(routes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = self.headers.get("Authorization", "")
            route = f"{self.command} {path}"
            told.questions.append(Question(route, query, key, body))
            status, answer = told.answer_to(route)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        told.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()
