"""A relay between a browser and the program, which can lose every connection as a bad network
does: nothing is closed, but nothing arrives any more."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 65_536


class Relay:
    def __init__(self, host: str, port: int) -> None:
        self._program = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        # Each socket with the one at the other end.
        self._ends: dict[socket.socket, socket.socket] = {}
        # The sockets of lost connections. They stay open, but nobody reads them.
        self._lost: list[socket.socket] = []
        self._is_lost = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"http://{host}:{port}"

    def lose(self) -> None:
        """Lose all connections, and every further one until `restore`."""
        with self._lock:
            self._is_lost = True
            for end in self._ends:
                self._selector.unregister(end)
            self._lost += self._ends
            self._ends.clear()

    def restore(self) -> None:
        """Relay new connections again. Those that were lost stay lost."""
        with self._lock:
            self._is_lost = False

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for one in (self._listener, *self._ends, *self._lost):
            one.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for key, _ in self._selector.select(timeout=0.1):
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        self._pass_on(key.fileobj)

    def _accept(self) -> None:
        browser, _ = self._listener.accept()
        if self._is_lost:
            self._lost.append(browser)
            return
        program = socket.create_connection(self._program)
        self._ends |= {browser: program, program: browser}
        for end in (browser, program):
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        if end not in self._ends:
            return
        other = self._ends[end]
        with suppress(OSError):
            if piece := end.recv(_PIECE):
                other.sendall(piece)
                return
        for one in (end, other):
            self._selector.unregister(one)
            del self._ends[one]
            one.close()


@contextmanager
def relay_to(host: str, port: int) -> Iterator[Relay]:
    relay = Relay(host, port)
    try:
        yield relay
    finally:
        relay.close()
