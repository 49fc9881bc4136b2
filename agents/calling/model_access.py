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
    uses_embedded,
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
from agents.llm.facts.hosted_models import Price, find_listed
from agents.llm.facts.model_facts import ModelFacts, facts_of, with_window
from agents.llm.facts.prices import price_of
from agents.llm.facts.reported_windows import read_report
from agents.llm.providers.base import Provider
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider
from agents.models import EmbeddedServer
from agents.modes.registry import all_agents
from agents.prompting.agent import Agent
from agents.prompting.budget import read_weight_per_token
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


@dataclass(frozen=True)
class AgentModel:
    """An agent and its model, resolved once for a call and handed on.

    `agent` is in the form that is used to ask the model. The window in `facts` may be another one;
    `as_known` and `when_ready` return the same object with the window that is known now.
    """

    agent: Agent
    choice: Choice
    facts: ModelFacts

    @property
    def name(self) -> str:
        """The model's name."""
        return self.choice.model

    @property
    def is_small(self) -> bool:
        """Whether the model needs the shortest requests and shapes with the lowest limits."""
        return self.facts.tier == "minimal"

    @property
    def tier(self) -> Tier:
        """The tier for the window that is known now. It may be read by a query."""
        return self.as_known().facts.tier

    @property
    def host(self) -> str:
        """The host that receives the agent's texts, or "" if they do not leave this machine."""
        return self.choice.server.host if _substitute is None else _substitute.host

    @property
    def weight_per_token(self) -> float:
        """The weight per token of the agent's requests. It may be read by a query."""
        return read_weight_per_token(self.name, self.agent.name)

    @property
    def price(self) -> Price | None:
        return price_of(self.name, self.choice.server.address)

    @property
    def is_on_its_way(self) -> bool:
        """Whether the model is the embedded one, and is being fetched or loaded. A query is made
        only for this model."""
        if not self._is_embedded:
            return False
        server = read_embedded_server()
        return is_coming(server) and not is_ready(server)

    def when_ready(self) -> "AgentModel":
        """Return the same object with the window that the server reports, if this report has
        priority over the other sources. Raises ModelNotReady while the window of the embedded model
        is not known."""
        if self._is_embedded:
            # The row of the embedded server is read before the model's name, because the server may
            # now run another model.
            window = _ready_server().context_window
            now = replace(self, choice=with_served_model(self.choice))
            facts = facts_of(now.name)
            return replace(now, facts=replace(facts, context_window=window, is_window_told=True))
        reported = _reported_window(self.choice, self.facts)
        if reported is None:
            return self
        return replace(self, facts=with_window(self.facts, reported, is_told=True))

    def as_known(self) -> "AgentModel":
        """Return the same object with the window that is known now, even if the embedded model is
        not ready."""
        try:
            return self.when_ready()
        except ModelNotReady:
            return self

    @property
    def _is_embedded(self) -> bool:
        return self.choice.server.name == EMBEDDED and _substitute is None


def read_model(agent: Agent, chapter: Session | None = None) -> AgentModel:
    """Return the agent's model by the choices that are stored now. One query reads the choices at
    the beginning of each call, so that server, model and facts come from one choice."""
    refresh_choices()
    return model_of(agent, chapter)


def model_of(agent: Agent, chapter: Session | None = None) -> AgentModel:
    """Return the agent's model, as this process last read the choices and the embedded server. With
    `chapter`, the agent has its small form if its model is the embedded one and the form is for
    such a chapter. The function makes no query."""
    choice = choice_of(agent)
    is_embedded = (_substitute or choice.server).name == EMBEDDED
    if is_embedded and chapter is not None and agent.small and agent.small.suits(chapter):
        agent = agent.in_small_form()
    return model_at(agent, choice)


def model_at(agent: Agent, choice: Choice) -> AgentModel:
    """Return the model of this choice for this agent, even if the agent uses another model now."""
    return AgentModel(agent, choice, _facts_for(choice))


def provider_hosts(agents: Sequence[Agent] | None = None) -> list[str]:
    """Return the hosts that receive the texts of these agents, or of all agents. This machine is
    not among the hosts."""
    agents = all_agents() if agents is None else agents
    hosts = dict.fromkeys(model_of(agent).host for agent in agents)
    return [host for host in hosts if host]


def models_worth_asking_about(agents: Iterable[Agent]) -> dict[Server, list[str]]:
    """Return, by server, the models of these agents. A model is left out if settings or files have
    priority over its server's report."""
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


def heard_by_small_model(agents: Iterable[Agent], chapter: Session) -> str:
    """Return a sentence for pages about how much the embedded model is told, or "" if none of these
    agents is asked in a small form. If several are, the sentence is about the first of them."""
    asked = [model_of(agent, chapter).agent for agent in agents]
    return next((one.small.hears for one in asked if one.small and one.has_small_form), "")


def provider_label(agents: Sequence[Agent] | None = None) -> str:
    """Return the names and the place of the models of these agents, or of all agents, as pages show
    them: "o4-mini at api.openai.com"."""
    refresh_choices()
    agents = all_agents() if agents is None else agents
    if uses_embedded(agents):
        read_embedded_server()
    models = list(dict.fromkeys(_title(choice_of(agent).model) for agent in agents))
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


# A process has only one provider for each address, so that connections are kept open between calls.
@lru_cache(maxsize=16)
def _openai_provider(base_url: str, api_key: str, name: str, title: str) -> Provider:
    return OpenAICompatibleProvider(base_url=base_url, api_key=api_key, name=name, title=title)


@cache
def _embedded_provider(base_url: str) -> Provider:
    return EmbeddedProvider(base_url=base_url)
