"""Asks a server for the context windows of its models. Each kind of server reports windows in a
different way.

The server is sent only names of models, never text of a story. Its answers are checked like the
answers to calls.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from agents.llm.providers.bounds import read_json
from agents.llm.providers.guard import check_real_calls_allowed
from agents.llm.providers.http_clients import build_http_client

logger = logging.getLogger(__name__)

# At most this many bytes of an answer are read. OpenRouter's list of models has some hundred
# kilobytes.
LARGEST_ANSWER = 4_000_000
# The range of windows that are accepted. A number outside this range is taken for an error.
SMALLEST_WINDOW, LARGEST_WINDOW = 256, 100_000_000

# The names that servers give the window in lists of models. In order, they are the names of vLLM,
# of OpenRouter and others, of Groq, and of Mistral.
_LISTED_AS = ("max_model_len", "context_length", "context_window", "max_context_length")
_NUM_CTX = re.compile(r"^\s*num_ctx\s+([0-9]{1,9})\s*$", re.MULTILINE)
# A server with one of these statuses is overloaded or still loading, and may answer later.
_NOT_NOW = {408, 425, 429}


@dataclass(frozen=True)
class WindowReport:
    """A context window in tokens, as reported by a server.

    `is_ceiling` is True if the model can take this many tokens, but the server may run it with
    fewer.
    """

    tokens: int
    is_ceiling: bool = False


async def ask_windows(
    base_url: str, api_key: str, models: Sequence[str], *, seconds: float = 4.0
) -> dict[str, WindowReport | None]:
    """Return the server's report on each model.

    The report is None if the server reports nothing about the model. If the server could not answer
    at this time, the result has no entry for the model.
    """
    check_real_calls_allowed()
    reports: dict[str, WindowReport | None] = {}
    try:
        timeout = httpx2.Timeout(seconds, connect=seconds / 2)
        async with asyncio.timeout(seconds), build_http_client(base_url, timeout) as client:
            server = _Server(client, base_url, api_key)
            for model in models:
                report = await _ask_window(server, model)
                if report is not None or not server.is_unsettled:
                    reports[model] = report
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        logger.info("the server said nothing of its models: %s", type(error).__name__)
    return reports


def address_of(base_url: str) -> str:
    """Return the server's address without a user name and password."""
    try:
        return str(httpx2.URL(base_url).copy_with(username="", password=""))
    except httpx2.InvalidURL:
        return ""


@dataclass
class _Server:
    """A server that is asked. Each question is sent only once, and the answer is kept for the other
    models."""

    client: httpx2.AsyncClient
    base_url: str
    api_key: str
    # True if the server answered that it was overloaded or failing.
    is_unsettled: bool = False
    _answers: dict[str, Any] = field(default_factory=dict)

    async def of_protocol(self, path: str) -> Any:
        """Send a question to a path below the OpenAI protocol's address, and return the answer."""
        return await self._ask("GET", f"{self.base_url.rstrip('/')}{path}")

    async def of_server(self, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Send a question to a path beside /v1, and return the answer. A question with a body is
        sent by POST."""
        root = self.base_url.rstrip("/").removesuffix("/v1")
        return await self._ask("GET" if body is None else "POST", f"{root}{path}", body)

    async def _ask(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        """Return the answer to a question, or None unless it is JSON under status 200."""
        key = f"{method} {url} {body}"
        if key not in self._answers:
            self._answers[key] = await self._fetch(method, url, body)
        return self._answers[key]

    async def _fetch(self, method: str, url: str, body: Mapping[str, str] | None) -> Any:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        try:
            async with self.client.stream(method, url, json=body, headers=headers) as response:
                if response.status_code != 200:
                    self.is_unsettled |= response.status_code >= 500
                    self.is_unsettled |= response.status_code in _NOT_NOW
                    return None
                return await read_json(response, LARGEST_ANSWER)
        except (httpx2.ConnectError, httpx2.TimeoutException, httpx2.UnsupportedProtocol):
            raise
        except (httpx2.HTTPError, httpx2.StreamError, ValueError):
            return None


async def _ask_window(server: _Server, model: str) -> WindowReport | None:
    for question in _QUESTIONS:
        report = await question(server, model)
        if report is not None:
            return report
    return None


async def _ask_list(server: _Server, model: str) -> WindowReport | None:
    """Find the window in the protocol's list of models. vLLM and OpenRouter add the windows to this
    list."""
    listed = _find(await server.of_protocol("/models"), "data", model, "id")
    windows = [_tokens(_field(listed, name)) for name in _LISTED_AS]
    # At OpenRouter, the company that runs a model may offer a smaller window than the model's.
    windows.append(_tokens(_field(_field(listed, "top_provider"), "context_length")))
    known = [window for window in windows if window is not None]
    return WindowReport(min(known)) if known else None


async def _ask_llama_cpp(server: _Server, model: str) -> WindowReport | None:
    # A server with several models must not load a model just to answer this question.
    asked = httpx2.QueryParams({"model": model, "autoload": "false"})
    properties = await server.of_server(f"/props?{asked}")
    window = _tokens(_field(_field(properties, "default_generation_settings"), "n_ctx"))
    return None if window is None else WindowReport(window)


async def _ask_ollama(server: _Server, model: str) -> WindowReport | None:
    """Return the window of the running model. If the model is not running, return the window in its
    settings, or else the limit of the model."""
    shown = await server.of_server("/api/show", {"model": model})
    info, parameters = _field(shown, "model_info"), _field(shown, "parameters")
    if not isinstance(info, Mapping) and not isinstance(parameters, str):
        return None
    running = await server.of_server("/api/ps")
    for name in (model, f"{model}:latest"):
        loaded = _tokens(_field(_find(running, "models", name, "name"), "context_length"))
        if loaded is not None:
            return WindowReport(loaded)
    chosen = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    window = _tokens(int(chosen[1])) if chosen else None
    if window is not None:
        return WindowReport(window)
    window = _model_limit(info)
    return None if window is None else WindowReport(window, is_ceiling=True)


async def _ask_lm_studio(server: _Server, model: str) -> WindowReport | None:
    listed = _find(await server.of_server("/api/v0/models"), "data", model, "id")
    loaded = _tokens(_field(listed, "loaded_context_length"))
    if loaded is not None:
        return WindowReport(loaded)
    window = _tokens(_field(listed, "max_context_length"))
    return None if window is None else WindowReport(window, is_ceiling=True)


# llama.cpp is asked before Ollama, because llama.cpp would answer Ollama's questions with the limit
# of the model.
_QUESTIONS: tuple[Callable[[_Server, str], Awaitable[WindowReport | None]], ...] = (
    _ask_list,
    _ask_llama_cpp,
    _ask_ollama,
    _ask_lm_studio,
)


def _model_limit(info: object) -> int | None:
    """Return the limit that Ollama reports for a model. The name of the field with the limit begins
    with the family of the model, as in "qwen3.context_length"."""
    if not isinstance(info, Mapping):
        return None
    found = (_tokens(value) for name, value in info.items() if name.endswith(".context_length"))
    return next((tokens for tokens in found if tokens is not None), None)


def _find(answer: object, name: str, model: str, id_name: str) -> object:
    """Return the model's entry in a list of models. Some servers send the bare list, without an
    object around it."""
    entries = answer if isinstance(answer, list) else _field(answer, name)
    if not isinstance(entries, list):
        return None
    return next((entry for entry in entries if _field(entry, id_name) == model), None)


def _field(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, Mapping) else None


def _tokens(value: object) -> int | None:
    if not isinstance(value, int | float):
        return None
    return int(value) if SMALLEST_WINDOW <= value <= LARGEST_WINDOW else None
