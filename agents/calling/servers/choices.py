"""The model that each agent uses: the user's choice on the page Models, or else the environment's.

A choice is a row. A process reads all rows with one query before each attempt, each job and each
page that names a model, so that a choice counts everywhere without a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from django.conf import settings
from django.db.models import CharField, Value
from django.db.models.functions import Cast, JSONObject

from agents.calling.servers.caps import NO_CAPS, Caps, hold_caps
from agents.calling.servers.refused_fields import hold_refused_fields, stored_refusals
from agents.llm.embedded.status import served_model
from agents.llm.providers.http_clients import host_of
from agents.models import ModelChoice, ModelServer, SpendingCap
from agents.prompting.agent import Agent

# The names of the two servers that have no row.
EMBEDDED, ENVIRONMENT = "embedded", "environment"
# The key of the choice for all agents without a choice of their own.
ALL = ""
# The name of the environment's server in the records of calls. A server that was added by the
# preset OpenAI has the same name, so the second name stands for it in the records. No server can
# have the second name itself.
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
        """The host that receives the texts, or "" if they do not leave this machine."""
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
    of_server = {name: f"server__{name}" for name in ("name", "title", "address")}
    chosen = ModelChoice.objects.exclude(server__is_removed=True)
    dollars = Cast("dollars", CharField(max_length=40))
    tables: dict[str, tuple[Any, dict[str, Any]]] = {
        "choice": (chosen, {"agent": "agent", "builtin": "builtin", "model": "model", **of_server}),
        "server": (ModelServer.objects, {name: name for name in of_server}),
        "caps": (SpendingCap.objects, {"dollars": dollars, "tokens": "tokens"}),
        "refused": (stored_refusals(), {name: name for name in ("server", "model", "field")}),
    }
    first, *others = (
        rows.order_by().values_list(Value(kind), JSONObject(**fields))
        for kind, (rows, fields) in tables.items()
    )
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in tables}
    for kind, row in first.union(*others, all=True):
        found[kind].append(row)
    _stored = {row["agent"]: (_chosen_server(row), row["model"]) for row in found["choice"]}
    servers = [_chosen_server(row) for row in found["server"]]
    _addresses = {server.provider: server.address for server in servers}
    hold_caps(_caps(found["caps"][0]) if found["caps"] else NO_CAPS)
    hold_refused_fields((row["server"], row["model"], row["field"]) for row in found["refused"])


def _chosen_server(row: dict[str, Any]) -> Server:
    if row["name"]:
        return Server(row["name"], row["title"], row["address"])
    return _builtin_server(row["builtin"])


def _caps(row: dict[str, Any]) -> Caps:
    # SQLite drops the zeros at the end of a number.
    dollars = Decimal(row["dollars"]).quantize(Decimal("0.01")) if row["dollars"] else None
    return Caps(dollars, row["tokens"])


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
    """Return the choice for all agents without a choice of their own, as this process last read the
    choices, or None."""
    stored = _stored.get(ALL)
    return None if stored is None else _with_model(*stored, "all")


def choice_without_own(agent: Agent) -> Choice:
    """Return the choice that counts for the agent if nothing is chosen for this agent alone, as
    this process last read the choices."""
    return choice_for_all() or choice_of_environment(agent)


def uses_embedded(agents: Iterable[Agent]) -> bool:
    """Return whether any of these agents uses the embedded model, as this process last read the
    choices."""
    return any(choice_of(agent).server.name == EMBEDDED for agent in agents)


def may_use_embedded() -> bool:
    """Return whether any agent can use the embedded model, as this process last read the choices.
    An agent can use it if the environment names it, even if every agent has another choice."""
    return settings.LLM == EMBEDDED or any(one.name == EMBEDDED for one, _ in _stored.values())


def choice_of_environment(agent: Agent) -> Choice:
    """Return the choice that counts for the agent if nothing is chosen on the page Models."""
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
    """Return the choice with the embedded model that runs now, as this process last read the row of
    the embedded server."""
    if choice.server.name != EMBEDDED:
        return choice
    return replace(choice, model=f"embedded:{served_model()}")
