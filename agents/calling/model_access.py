"""Finds the provider, the model and the model's facts for an agent, by the choice for the agent."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from django.conf import settings

from agents.calling.servers.choices import (
    EMBEDDED,
    ENVIRONMENT,
    Choice,
    Server,
    choice_of,
    refresh_choices,
    with_served_model,
)
from agents.calling.servers.keys import key_for
from agents.calling.servers.refused_fields import facts_without_refused, refused_fields
from agents.exceptions import ModelNotReady
from agents.llm.embedded.catalogue import KNOWN_MODELS
from agents.llm.embedded.status import (
    describe,
    is_coming,
    is_ready,
    read_embedded_server,
)
from agents.llm.facts.hosted_models import find_listed
from agents.llm.facts.model_facts import ModelFacts, facts_of, with_window
from agents.llm.facts.reported_windows import read_report
from agents.llm.providers.base import Provider
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.models import EmbeddedServer
from agents.modes.registry import all_agents
from agents.prompting.agent import Agent
from agents.prompting.layers import Tier
from sessions.models import Session

# The sources of a number about an unknown model, in the words that pages use.
_SETTING, _SERVER, _LIST, _DEFAULT = (
    "as you have set it",
    "as its server reports",
    "from a list of models",
    "a cautious default",
)

_substitute: Provider | None = None


def provider_at(server: Server) -> Provider:
    """Return the provider for this server. The key is looked up by the server's address.

    Raises ModelNotReady and KeysUnreadable.
    """
    if _substitute is not None:
        return _substitute
    if server.name == EMBEDDED:
        return _embedded_provider(_ready_server().base_url)
    title = "" if server.name == ENVIRONMENT else server.title
    return _openai_provider(server.address, key_for(server), server.provider, title)


def is_on_its_way(agent: Agent) -> bool:
    """Return whether the agent's model is the embedded one, and is being fetched or loaded. The
    function makes a query only for this model."""
    if choice_of(agent).server.name != EMBEDDED or _substitute is not None:
        return False
    server = read_embedded_server()
    return is_coming(server) and not is_ready(server)


def host_for(agent: Agent) -> str:
    """Return the host to which the agent's texts are sent, or "" if they stay on this machine."""
    return _substitute.host if _substitute is not None else choice_of(agent).server.host


def provider_hosts(agents: Sequence[Agent] | None = None) -> list[str]:
    """Return the hosts to which the texts of these agents are sent, or of all, without this
    machine."""
    hosts = dict.fromkeys(host_for(agent) for agent in (all_agents() if agents is None else agents))
    return [host for host in hosts if host]


def model_name(agent: Agent) -> str:
    """Return the name of the agent's model, as this process last read the choices and the embedded
    server. The function makes no query."""
    return choice_of(agent).model


def model_facts(agent: Agent) -> ModelFacts:
    """Return the facts of the agent's model.

    The facts have the window that the server reports, if this report has priority over the other
    sources. Raises ModelNotReady while the window of the embedded model is not known.
    """
    return facts_at(choice_of(agent))


def facts_at(choice: Choice) -> ModelFacts:
    """Return the facts of the chosen model. Raises ModelNotReady."""
    if choice.server.name == EMBEDDED and _substitute is None:
        # The row of the embedded server is read before the model's name, because the server may now
        # run another model.
        window = _ready_server().context_window
        facts = facts_of(with_served_model(choice).model)
        return replace(facts, context_window=window, is_window_told=True)
    facts = _facts_for(choice)
    reported = _reported_window(choice, facts)
    return facts if reported is None else with_window(facts, reported, is_told=True)


def models_worth_asking_about(agents: Iterable[Agent]) -> dict[Server, list[str]]:
    """Return the models of these agents for which the report of their server has priority, by
    server."""
    worth: dict[Server, list[str]] = defaultdict(list)
    for choice in dict.fromkeys(choice_of(agent) for agent in agents):
        is_new = choice.model not in worth.get(choice.server, ())
        if is_new and _may_server_tell(choice, _facts_for(choice)):
            worth[choice.server].append(choice.model)
    return dict(worth)


@dataclass(frozen=True)
class UnknownModels:
    """Models that no capability file names, and the facts that the engine assumes for them.

    `window_source` and `output_source` say in words where the numbers come from.
    """

    names: tuple[str, ...]
    context_window: int
    window_source: str
    max_output: int
    output_source: str

    @property
    def named(self) -> str:
        """The names of the models as one phrase, which has at most the first three names."""
        shown = list(self.names[:3])
        if len(self.names) > len(shown):
            shown.append(f"{len(self.names) - len(shown)} more")
        *others, last = shown
        return f"{', '.join(others)} and {last}" if others else last


def unknown_models(agents: Sequence[Agent] | None = None) -> list[UnknownModels]:
    """Return the unknown models that these agents use, or all agents. Models with equal facts are
    in one entry."""
    names_of: dict[UnknownModels, list[str]] = {}
    agents = all_agents() if agents is None else agents
    for choice in dict.fromkeys(choice_of(agent) for agent in agents):
        facts = _facts_for(choice)
        if not facts.is_known:
            names = names_of.setdefault(_describe_unknown(choice, facts), [])
            names += [] if choice.model in names else [choice.model]
    return [replace(models, names=tuple(names)) for models, names in names_of.items()]


def facts_without_window(agent: Agent) -> ModelFacts:
    """Return what the agent's model can do, without the forms of answers that its server refuses.
    The window may be another one. The function makes no query."""
    return _facts_for(choice_of(agent))


def known_facts(agent: Agent) -> ModelFacts:
    """Return the facts of the agent's model that are known now.

    Unlike `model_facts`, this function does not raise ModelNotReady while the embedded model is not
    ready.
    """
    return known_facts_at(choice_of(agent))


def known_facts_at(choice: Choice) -> ModelFacts:
    """Return the facts of the chosen model that are known now."""
    try:
        return facts_at(choice)
    except ModelNotReady:
        return _facts_for(choice)


def tier_of(agent: Agent) -> Tier:
    """Return the tier of the agent's model. This function may make a query."""
    return known_facts(agent).tier


def is_small_model(agent: Agent) -> bool:
    """Return whether the agent's model needs the shortest requests and shapes with the lowest
    limits.

    This function makes no query, because the answer depends on the model's name and not on its
    window.
    """
    return _facts_for(choice_of(agent)).tier == "minimal"


def as_asked(agent: Agent, chapter: Session) -> Agent:
    """Return the agent in the form in which its model is asked: in its small form if the model is
    the embedded one, and the form is for such a chapter."""
    is_embedded = (_substitute or choice_of(agent).server).name == EMBEDDED
    suits = is_embedded and agent.small is not None and agent.small.suits(chapter)
    return agent.in_small_form() if suits else agent


def heard_by_small_model(agents: Iterable[Agent], chapter: Session) -> str:
    """Return how much the embedded model is told as the first of these agents that it has, in a
    sentence for pages, or "" if none is asked in a small form."""
    asked = (as_asked(one, chapter) for one in agents)
    return next((one.small.hears for one in asked if one.small and one.has_small_form), "")


def provider_label(agents: Sequence[Agent] | None = None) -> str:
    """Return the names of the models of these agents, or of all, and their place, as pages show
    them: "o4-mini at api.openai.com"."""
    refresh_choices()
    agents = all_agents() if agents is None else agents
    if any(choice_of(agent).server.name == EMBEDDED for agent in agents):
        read_embedded_server()
    models = list(dict.fromkeys(_title(model_name(agent)) for agent in agents))
    named = " and ".join(models) if len(models) < 3 else f"{len(models)} models"
    hosts = provider_hosts(agents)
    if len(hosts) > 1:
        return f"{named} at {len(hosts)} hosts"
    return f"{named} at {hosts[0]}" if hosts else f"{named} on this machine"


def _title(model: str) -> str:
    """Return a model's name as pages show it. Only the embedded model has a title."""
    name = model.removeprefix("embedded:")
    return KNOWN_MODELS[name].title if name in KNOWN_MODELS and name != model else name


@contextmanager
def substitute_provider(provider: Provider) -> Iterator[Provider]:
    """Use this provider for every agent within the block. Only tests call this function."""
    global _substitute
    before, _substitute = _substitute, provider
    try:
        yield provider
    finally:
        _substitute = before


def _facts_for(choice: Choice) -> ModelFacts:
    facts, address = facts_of(choice.model, choice.server.address), choice.server.address
    return facts_without_refused(facts, refused_fields(address, choice.model))


def _may_server_tell(choice: Choice, facts: ModelFacts) -> bool:
    """Return whether the server's report of a window has priority over the other sources.

    If a capability file names the model, and the model has no open weights, the window in the file
    has priority over the report of a distant server. But a server on this machine may run the model
    with another window than the file says. For any other model, only the window in the settings has
    priority over the report.
    """
    if choice.server.name == EMBEDDED or _substitute is not None:
        return False
    if facts.is_known and not facts.open_weights:
        return not choice.server.host
    return not settings.CONTEXT_WINDOW


def _reported_window(choice: Choice, facts: ModelFacts) -> int | None:
    """Return the window that the server reports, or None if it does not change the facts."""
    may_tell = _may_server_tell(choice, facts)
    report = read_report(choice.server.address, choice.model) if may_tell else None
    if report is None:
        return None
    is_limit = report.is_ceiling or (facts.is_known and not facts.open_weights)
    return None if is_limit and report.tokens >= facts.context_window else report.tokens


def _describe_unknown(choice: Choice, facts: ModelFacts) -> UnknownModels:
    reported = _reported_window(choice, facts)
    listed = find_listed(choice.model, choice.server.address)
    if reported is not None:
        window_source = _SERVER
    elif settings.CONTEXT_WINDOW:
        window_source = _SETTING
    else:
        window_source = _LIST if listed and listed.context_window else _DEFAULT
    return UnknownModels(
        names=(),
        context_window=reported or facts.context_window,
        window_source=window_source,
        max_output=facts.max_output,
        output_source=_SETTING if settings.MAX_OUTPUT else _DEFAULT,
    )


def _ready_server() -> EmbeddedServer:
    server = read_embedded_server()
    if server is None or not is_ready(server):
        raise ModelNotReady(describe(server), is_coming=is_coming(server))
    return server


# A process has only one provider for each address, so that connections stay open between calls.
@lru_cache(maxsize=16)
def _openai_provider(base_url: str, api_key: str, name: str, title: str) -> Provider:
    return OpenAICompatibleProvider(base_url=base_url, api_key=api_key, name=name, title=title)


@cache
def _embedded_provider(base_url: str) -> Provider:
    return EmbeddedProvider(base_url=base_url)
