"""The addresses of servers that the user may add, and the presets for usual servers."""

import ipaddress
from dataclasses import dataclass

import httpx2

from agents.llm.providers.base_urls import mended, problem_of
from agents.llm.providers.connecting import is_refused
from sessions.exceptions import InvalidInput

ADDRESS_CHAR_LIMIT = 500


@dataclass(frozen=True)
class Preset:
    name: str
    title: str
    address: str


PRESETS = (
    Preset("openai", "OpenAI", "https://api.openai.com/v1"),
    Preset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1"),
    Preset("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    Preset("lm-studio", "LM Studio", "http://127.0.0.1:1234/v1"),
    Preset("llama-cpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
    Preset("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
)


def clean_address(text: str) -> str:
    """Return the address in one form, mended where only one address can be meant. Raises
    InvalidInput if it cannot be a server's address."""
    address = mended(text)
    if problem := problem_of(address):
        raise _no_address(problem)
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise _no_address() from error
    if len(address) > ADDRESS_CHAR_LIMIT or url.scheme not in ("http", "https") or not url.host:
        raise _no_address()
    if url.userinfo or url.query or url.fragment:
        raise InvalidInput(
            "An address has no user name, password, question mark or # in it. Nothing was added."
        )
    try:
        is_bad = is_refused(ipaddress.ip_address(url.host))
    except ValueError:
        # A number such as 0xA9FEA9FE or 2852039166 would be an IP address in disguise.
        is_bad = url.host.rstrip(".").rsplit(".", 1)[-1][:1].isdigit()
    if is_bad:
        raise InvalidInput(
            "This address belongs to the network card or to a cloud's own services, and no texts "
            "or keys go there. Nothing was added."
        )
    return str(url).rstrip("/")


def _no_address(problem: str = "This is no address of a server.") -> InvalidInput:
    return InvalidInput(
        f"{problem} It looks like https://openrouter.ai/api/v1 or "
        "http://127.0.0.1:11434/v1. Nothing was added."
    )
