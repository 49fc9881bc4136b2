"""The model that each agent uses: the user's choice on the page Models, or else the environment's.

A choice is a row. A process reads all rows with one query before each attempt, each job and each
page that names a model, so that a choice counts everywhere without a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from django.conf import settings
from django.db.models import CharField, Value
from django.db.models.functions import Cast

from agents.calling.servers.caps import NO_CAPS, Caps, hold_caps
from agents.calling.servers.refused_fields import hold_refused_fields, stored_refusals
from agents.llm.embedded.status import served_model
from agents.llm.providers.http_clients import host_of
from agents.models import ModelChoice, ModelServer, SpendingCap
from agents.prompting.agent import Agent

# The names of the two servers that are no rows.
EMBEDDED, ENVIRONMENT = "embedded", "environment"
# The key of the choice for all agents that have none of their own.
ALL = ""
# The name of the environment's server in the records of calls. The preset OpenAI has the same name,
# so its own name in the records is another, which no server can have.
ENVIRONMENT_PROVIDER = "openai"
_ADDED_OPENAI = "added:openai"

Source = Literal["chapter", "agent", "all", "environment", "default"]


@dataclass(frozen=True)
class Server:
    """A server of models. `address` is "" for the embedded model."""

    name: str
    title: str
    address: str

    @property
    def host(self) -> str:
        """The host to which texts go, or "" if they stay on this machine."""
        return host_of(self.address) if self.address else ""

    @property
    def provider(self) -> str:
        """The name of the server in the records of calls."""
        if self.name == ENVIRONMENT:
            return ENVIRONMENT_PROVIDER
        return _ADDED_OPENAI if self.name == ENVIRONMENT_PROVIDER else self.name


@dataclass(frozen=True)
class Choice:
    """The server and the model of an agent. `variable` is the variable of the environment that
    names the model, or ""."""

    server: Server
    model: str
    source: Source
    variable: str = ""


# The kinds of rows that one query reads.
_CHOICE, _SERVER, _CAPS, _REFUSED = 1, 0, 2, 3
_Stored = dict[str, tuple[Server, str]]
# The rows as this process last read them. The whole object is replaced, so that no thread sees a
# part of the old rows and a part of the new ones.
_stored: _Stored = {}
# The addresses of all servers that were ever added, by their names in the records of calls.
_addresses: dict[str, str] = {}


def refresh_choices() -> None:
    """Read the user's choices, the addresses of servers, the stored caps and the fields that
    servers refuse from the database, by one query. A choice of a server that another process has
    just removed does not count."""
    global _stored, _addresses
    of_server = ("server__name", "server__title", "server__address")
    chosen = ModelChoice.objects.exclude(server__is_removed=True).values_list(
        Value(_CHOICE), "agent", "builtin", "model", *of_server
    )
    added = ModelServer.objects.order_by().values_list(
        Value(_SERVER), Value(""), Value(""), Value(""), "name", "title", "address"
    )
    caps = SpendingCap.objects.order_by().values_list(
        Value(_CAPS),
        *(Cast(name, CharField(max_length=40)) for name in ("dollars", "tokens")),
        *(Value("") for _ in range(4)),
    )
    no_more = (Value("") for _ in range(3))
    refused = stored_refusals().values_list(Value(_REFUSED), "server", "model", "field", *no_more)
    stored, addresses, capped, fields = {}, {}, NO_CAPS, []
    rows = chosen.union(added, caps, refused, all=True)
    for kind, agent, builtin, model, name, title, address in rows:
        if kind == _REFUSED:
            fields.append((agent, builtin, model))
            continue
        if kind == _CAPS:
            # SQLite drops the zeros at the end of a number.
            dollars = Decimal(agent).quantize(Decimal("0.01")) if agent else None
            capped = Caps(dollars, int(builtin) if builtin else None)
            continue
        server = Server(name, title, address) if name else _builtin_server(builtin)
        if kind == _CHOICE:
            stored[agent] = (server, model)
        else:
            addresses[server.provider] = address
    _stored, _addresses = stored, addresses
    hold_caps(capped)
    hold_refused_fields(fields)


def address_of_provider(name: str) -> str:
    """Return the address of the server with this name in the records of calls, as this process last
    read it, or "" for the environment's server and the embedded model."""
    return _addresses.get(name, "")


def choice_of(agent: Agent) -> Choice:
    """Return the agent's server and model, as this process last read the choices. A model that the
    agent's chapter has set wins, if it was set for this server."""
    choice, own = choice_without_chapter(agent), agent.own
    if own.model and own.server == choice.server.name != EMBEDDED:
        return Choice(choice.server, own.model, "chapter")
    return choice


def choice_without_chapter(agent: Agent) -> Choice:
    """Return the agent's server and model as they are for chapters that set nothing, as this
    process last read the choices."""
    stored = _stored
    for key, source in ((agent.model_setting, "agent"), (ALL, "all")):
        if key in stored:
            server, model = stored[key]
            return _with_model(server, model, "agent" if source == "agent" else "all")
    return choice_of_environment(agent)


def choice_for_all() -> Choice | None:
    """Return the choice for all agents that have none of their own, as this process last read the
    choices, or None."""
    stored = _stored.get(ALL)
    return None if stored is None else _with_model(*stored, "all")


def choice_without_own(agent: Agent) -> Choice:
    """Return what counts for the agent if nothing is chosen for it alone, as this process last read
    the choices."""
    return choice_for_all() or choice_of_environment(agent)


def uses_embedded(agents: Iterable[Agent]) -> bool:
    """Return whether any of these agents uses the embedded model, as this process last read the
    choices."""
    return any(choice_of(agent).server.name == EMBEDDED for agent in agents)


def choice_of_environment(agent: Agent) -> Choice:
    """Return what counts for the agent without a choice on the page."""
    if settings.LLM == "embedded":
        return _with_model(embedded_server(), "", "environment")
    own = settings.MODEL_BY_AGENT.get(agent.model_setting, "")
    if own or settings.MODEL:
        variable = f"STORYENGINE_MODEL_{agent.model_setting}" if own else "STORYENGINE_MODEL"
        return Choice(environment_server(), own or settings.MODEL, "environment", variable)
    return Choice(environment_server(), agent.default_model, "default")


def runs_embedded() -> bool:
    """Return whether the whole program starts the embedded model: the environment says so, or an
    agent uses it. The function makes at most one query."""
    return settings.LLM == "embedded" or ModelChoice.objects.filter(builtin=EMBEDDED).exists()


def can_run_embedded() -> bool:
    """Return whether the embedded model starts with the program once an agent uses it.

    This is so where one command starts all processes, whose broker is a folder then."""
    return settings.LLM == "embedded" or settings.CELERY_BROKER_URL.startswith("filesystem://")


def embedded_server() -> Server:
    return Server(EMBEDDED, "Embedded model", "")


def environment_server() -> Server:
    return Server(ENVIRONMENT, "Environment", settings.OPENAI_BASE_URL)


def server_from(row: ModelServer) -> Server:
    return Server(row.name, row.title, row.address)


def _builtin_server(name: str) -> Server:
    return embedded_server() if name == EMBEDDED else environment_server()


def _with_model(server: Server, model: str, source: Source) -> Choice:
    return with_served_model(Choice(server, model, source))


def with_served_model(choice: Choice) -> Choice:
    """Return the choice with the embedded model that runs now, as this process last read it."""
    if choice.server.name != EMBEDDED:
        return choice
    return replace(choice, model=f"embedded:{served_model()}")
