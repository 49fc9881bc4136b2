"""Starts the llama.cpp server as a child process, and checks its health."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from agents.llm.embedded.access_key import access_key
from agents.llm.embedded.embedded_errors import ServerFailed
from agents.llm.embedded.llama_library import NEEDS_AVX2

_STOP_SECONDS = 5
_HTTP_SECONDS = 10

# GOMP_SPINCOUNT is the number of times that a waiting thread of llama.cpp checks for work before it
# sleeps. The threads wait for each other hundreds of times a token. By default they check without
# end, which makes them very slow whenever another process needs a core. If they sleep at once, they
# wake too late for the next step. 300 checks take about 10 microseconds. Compared with no checks,
# they give 20 to 75 % more tokens a second on idle cores, and as many on busy cores.
_ENVIRONMENT = {"GOMP_SPINCOUNT": "300"}


class LlamaServer:
    """A child process that loads a model and serves it until it is ended."""

    def __init__(self, model_file: Path, model_name: str) -> None:
        self._model_file = model_file
        self._address = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agents.llm.embedded.llama_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=settings.BASE_DIR,
            env={**_ENVIRONMENT, **os.environ},
        )
        order = {
            "model_file": str(model_file.resolve()),
            "model_name": model_name,
            # The key is sent by standard input, because all users can read a command line.
            "access_key": access_key(),
        }
        with suppress(BrokenPipeError):
            self._stdin.write(json.dumps(order).encode() + b"\n")
            self._stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def base_url(self) -> str:
        """The address for an OpenAI-compatible client, once the server is up."""
        return f"{self._address}/v1"

    def wait_until_up(self, seconds: float) -> bool:
        """Wait up to this many seconds, and return whether the server is up. Raises ServerFailed if
        the server has ended."""
        stdout = self._process.stdout
        assert stdout is not None
        if not self._address and select.select([stdout], [], [], seconds)[0]:
            line = stdout.readline()
            if not line:
                raise ServerFailed(self._why_ended(has_loaded=False))
            self._address = json.loads(line)["address"]
        return bool(self._address)

    def check(self) -> bool:
        """Return whether the server answers. Raises ServerFailed if the server has ended."""
        if self._process.poll() is not None:
            raise ServerFailed(self._why_ended(has_loaded=True))
        return self._get("/health").get("status") == "ok"

    def context_window(self) -> int:
        """Return how many tokens one slot holds: CONTEXT_PER_SLOT, or fewer if the window of the
        model is smaller."""
        generation = self._get("/props").get("default_generation_settings")
        window = generation.get("n_ctx") if isinstance(generation, dict) else None
        if not isinstance(window, int):
            raise ServerFailed("The embedded model does not tell how much text it can take.")
        return window

    def end(self) -> None:
        """Close the server's standard input, which ends the server. Kill a server that hangs."""
        with suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def _stdin(self) -> Any:
        assert self._process.stdin is not None
        return self._process.stdin

    def _get(self, path: str) -> dict[str, Any]:
        """Return the JSON object that the server answers at this path, or {} if it answers none."""
        url = urlsplit(self._address)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, _HTTP_SECONDS)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {access_key()}"})
            answer = json.load(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        finally:
            connection.close()
        return answer if isinstance(answer, dict) else {}

    def _why_ended(self, *, has_loaded: bool) -> str:
        code = self._process.wait()
        if code == -signal.SIGKILL:
            return "The system ended the embedded model, most often for lack of free memory."
        if code == -signal.SIGILL:
            return NEEDS_AVX2
        if has_loaded:
            return f"The embedded model stopped by itself (exit code {code})."
        return (
            f"The embedded model could not be loaded from {self._model_file} (exit code {code}). "
            "It needs about 3 GB of free memory, and a GGUF file that llama.cpp knows."
        )
