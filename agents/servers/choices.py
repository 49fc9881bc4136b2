"""The model that each agent uses: the user's choice on the page Models, or else the environment's.

A choice is a row. A process reads all rows with one query before each attempt, each job and each
page that names a model, so that a choice counts everywhere without a restart.
"""

from dataclasses import dataclass
from typing import Literal

from django.conf import settings

from agents.embedded.status import served_model
from agents.models import ModelChoice, ModelServer
from agents.prompting.declarations import Agent
from agents.providers.openai_compatible import host_of

# The names of the two servers that are no rows.
EMBEDDED, ENVIRONMENT = "embedded", "environment"
# The key of the choice for all agents that have none of their own.
ALL = ""

Source = Literal["agent", "all", "environment", "default"]


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


def refresh_choices() -> None:
    """Read the user's choices from the database, by one query."""
    global _stored
    rows = ModelChoice.objects.select_related("server")
    _stored = {row.agent: (_server_of(row), row.model) for row in rows}


def choice_of(agent: Agent) -> Choice:
    """Return the agent's server and model, as this process last read the choices."""
    stored = _stored
    for key, source in ((agent.model_setting, "agent"), (ALL, "all")):
        if key in stored:
            server, model = stored[key]
            return _with_model(server, model, "agent" if source == "agent" else "all")
    return choice_of_environment(agent)


def choice_of_environment(agent: Agent) -> Choice:
    """Return what counts for the agent without a choice on the page."""
    if settings.LLM == "embedded":
        return _with_model(embedded_server(), "", "environment")
    own = settings.MODEL_BY_AGENT.get(agent.model_setting, "")
    if own or settings.MODEL:
        variable = f"STORYENGINE_MODEL_{agent.model_setting}" if own else "STORYENGINE_MODEL"
        return Choice(environment_server(), own or settings.MODEL, "environment", variable)
    return Choice(environment_server(), agent.default_model, "default")


def embedded_server() -> Server:
    return Server(EMBEDDED, "Built-in model", "")


def environment_server() -> Server:
    return Server(ENVIRONMENT, "Environment", settings.OPENAI_BASE_URL)


def server_from(row: ModelServer) -> Server:
    return Server(row.name, row.title, row.address)


def _server_of(row: ModelChoice) -> Server:
    if row.server is not None:
        return server_from(row.server)
    return embedded_server() if row.builtin == EMBEDDED else environment_server()


def _with_model(server: Server, model: str, source: Source) -> Choice:
    if server.name == EMBEDDED:
        model = f"embedded:{served_model()}"
    return Choice(server, model, source)
