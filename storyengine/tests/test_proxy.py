"""Tests of nginx.conf with a real nginx, in front of servers that say which of them answered."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from testing.http_calls import Server, call
from testing.program import open_processes
from testing.proxy import NGINX, start_proxy

pytestmark = [
    pytest.mark.processes,
    pytest.mark.one_stack,
    pytest.mark.each_run,
    pytest.mark.skipif(NGINX is None, reason="no nginx on this machine: the proxy is not tried"),
]


class _Answerer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        _, port = self.connection.getsockname()
        body = json.dumps({"by": port, "headers": dict(self.headers)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's name)
        """Write no line."""


@contextmanager
def answerer() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answerer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def proxy(servers: list[ThreadingHTTPServer], folder: Path) -> Iterator[Server]:
    behind = [Server("127.0.0.1", server.server_port) for server in servers]
    with open_processes({}) as processes:
        yield start_proxy(processes, behind, folder)


def ask(server: Server, path: str, **headers: str) -> dict[str, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = call(server, "GET", path, headers=sent)
    assert answer.status == 200
    told: dict[str, Any] = answer.json()
    return told


def test_a_chapter_is_answered_by_one_process_and_all_chapters_by_all(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(answerer()) for _ in range(2)]
        ports = [server.server_port for server in servers]
        server = stack.enter_context(proxy(servers, tmp_path))
        chapters = [uuid.uuid4() for _ in range(40)]
        by_chapter = {
            chapter: {
                ask(server, path)["by"]
                for path in (
                    f"/chapters/{chapter}/play",
                    f"/chapters/{chapter}/stream/1",
                    f"/api/session/{chapter}/transcript",
                    f"/modes/explorer/{chapter}/scenario",
                )
            }
            for chapter in chapters
        }
        assert all(len(by) == 1 for by in by_chapter.values())
        assert set.union(*by_chapter.values()) == set(ports)
        servers[0].shutdown()
        servers[0].server_close()
        assert {ask(server, f"/chapters/{one}/play")["by"] for one in chapters} == {ports[1]}


def test_it_hands_on_who_asks_and_how(tmp_path: Path) -> None:
    with answerer() as answering, proxy([answering], tmp_path) as server:
        direct = ask(server, "/", Host="story.example.org")["headers"]
        assert direct["Host"] == "story.example.org"
        assert (direct["X-Forwarded-Proto"], direct["X-Forwarded-For"]) == ("http", "127.0.0.1")
        behind = ask(server, "/", X_Forwarded_Proto="https", X_Forwarded_For="192.0.2.7")
        assert behind["headers"]["X-Forwarded-Proto"] == "https"
        assert behind["headers"]["X-Forwarded-For"] == "192.0.2.7, 127.0.0.1"
