"""Which provider and which model an agent runs on, as the environment says."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from django.conf import settings

from agents.capabilities import ModelFacts, facts_of
from agents.declarations import AGENTS
from agents.embedded.catalogue import KNOWN_MODELS
from agents.embedded.status import describe, is_coming, is_ready, read_embedded_server
from agents.exceptions import ModelNotReady
from agents.models import EmbeddedServer
from agents.providers.base import Provider
from agents.providers.embedded import EmbeddedProvider
from agents.providers.openai_compatible import OpenAICompatibleProvider, host_of

_substitute: Provider | None = None


def current_provider() -> Provider:
    """The provider to call; raises ModelNotReady while the embedded model cannot answer."""
    if _substitute is not None:
        return _substitute
    if settings.LLM == "embedded":
        return _embedded_provider(_ready_server().base_url)
    return _openai_provider(settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY)


def provider_host() -> str:
    """The host that texts are sent to; "" when they stay on this machine."""
    if _substitute is not None:
        return _substitute.host
    return "" if settings.LLM == "embedded" else host_of(settings.OPENAI_BASE_URL)


def model_name(agent_id: int) -> str:
    """The embedded model for all agents, else the environment's choice, else the agent's own."""
    if settings.LLM == "embedded":
        return f"embedded:{settings.EMBEDDED_MODEL.rsplit('/', 1)[-1]}"
    chosen: str = settings.MODEL_BY_AGENT[agent_id] or settings.MODEL
    return chosen or AGENTS[agent_id].default_model


def model_facts(agent_id: int) -> ModelFacts:
    facts = facts_of(model_name(agent_id))
    if settings.LLM == "embedded" and _substitute is None:
        return replace(facts, context_window=_ready_server().context_window)
    return facts


def is_small_model(agent_id: int) -> bool:
    """Whether the agent's model needs the tightest prompts and shapes that there are."""
    return facts_of(model_name(agent_id)).tier == "minimal"


def provider_label() -> str:
    """What all agents run on, and where, for the pages: "o4-mini at api.openai.com"."""
    if settings.LLM == "embedded":
        server = read_embedded_server()
        # What runs may be another model than the one that was asked for.
        name = (server.model if server else settings.EMBEDDED_MODEL).rsplit("/", 1)[-1]
        models = [KNOWN_MODELS[name].title if name in KNOWN_MODELS else name]
    else:
        models = list(dict.fromkeys(model_name(agent_id) for agent_id in AGENTS))
    named = " and ".join(models) if len(models) < 3 else f"{len(models)} models"
    host = provider_host()
    return f"{named} at {host}" if host else f"{named} on this machine"


@contextmanager
def substitute_provider(provider: Provider) -> Iterator[Provider]:
    """Use this provider for every agent, in tests."""
    global _substitute
    before, _substitute = _substitute, provider
    try:
        yield provider
    finally:
        _substitute = before


def _ready_server() -> EmbeddedServer:
    server = read_embedded_server()
    if server is None or not is_ready(server):
        raise ModelNotReady(describe(server), is_coming=is_coming(server))
    return server


# One provider per address and process: its connections are kept open between calls.
@cache
def _openai_provider(base_url: str, api_key: str) -> Provider:
    return OpenAICompatibleProvider(base_url=base_url, api_key=api_key)


@cache
def _embedded_provider(base_url: str) -> Provider:
    return EmbeddedProvider(base_url=base_url)
