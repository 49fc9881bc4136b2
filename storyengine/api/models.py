"""The servers of models, and which model each agent uses."""

from typing import Literal, cast

from django.http import HttpRequest
from ninja import Router, Status
from pydantic import Field

from agents.calling.model_test import try_model
from agents.modes import all_agents
from agents.prompting.declarations import Agent
from agents.providers.windows import address_of
from agents.servers.changing import (
    add_server,
    all_servers,
    choose_models,
    find_server,
    remove_server,
)
from agents.servers.choices import ALL, ENVIRONMENT, Server, choice_of, refresh_choices
from agents.servers.keys import paste_key, source_of_key
from sessions.exceptions import InvalidInput
from storyengine.api.bodies import Body
from storyengine.api.documents import Document
from storyengine.api.problems import refusals

router = Router(tags=["Models"])

AGENT = "The number of an agent as text, or the name of an agent without a number."


_Source = Literal["agent", "all", "environment", "default"]


class ChosenModel(Document):
    agent: str = Field(description=AGENT)
    server: str
    model: str
    source: _Source = Field(
        description="Where the choice comes from: made here for the agent or for all agents, the "
        "environment, or the program's default."
    )


class ModelsDocument(Document):
    agents: list[ChosenModel]


class ModelChoiceBody(Body):
    agent: str = Field(description=f"{AGENT} Empty for all agents without their own choice.")
    server: str = Field("", description="The name of a server. Empty to take the choice back.")
    model: str = Field("", description="The name of a model of this server.")


class ModelsBody(Body):
    agents: list[ModelChoiceBody] = Field(
        max_length=100, description="The choices to store. Agents that are not named keep theirs."
    )


class ServerDocument(Document):
    name: str
    title: str
    address: str
    host: str = Field(description="Where texts would go; empty when they stay on this machine.")
    has_key: bool


class ServersDocument(Document):
    servers: list[ServerDocument]


class NewServerBody(Body):
    title: str = Field(description="At most 60 characters. The server's name is made from it.")
    address: str = Field(description="Such as `http://127.0.0.1:11434/v1`.")
    key: str = Field("", description="A key for this address. It is never returned.")


class ServerNameBody(Body):
    name: str


class ModelTestBody(Body):
    agent: str = Field(description=AGENT)


class ModelTestDocument(Document):
    works: bool
    server: str
    model: str
    seconds: float
    first_seconds: float | None
    said: str = Field(description="The first 80 characters of the model's words.")
    tokens: int | None
    problem: str


@router.get("/models", response={200: ModelsDocument, **refusals()})
def get_models(request: HttpRequest) -> ModelsDocument:
    """Return the server and the model of each agent, and where the choice comes from."""
    return _read_models()


@router.put("/models", response={200: ModelsDocument, **refusals(400, 403, 413, 415, 422)})
def put_models(request: HttpRequest, body: ModelsBody) -> ModelsDocument:
    """Store choices, all of them or none. They count from the next attempt on."""
    choices: dict[str, tuple[str, str] | None] = {}
    for one in body.agents:
        key = ALL if one.agent == "" else _agent_labelled(one.agent).model_setting
        choices[key] = (one.server, one.model) if one.server else None
    choose_models(choices)
    return _read_models()


@router.post(
    "/models/test", response={200: ModelTestDocument, **refusals(400, 403, 413, 415, 422, 429)}
)
def test_model(request: HttpRequest, body: ModelTestBody) -> ModelTestDocument:
    """Make one tiny call of the agent's model. No text of a story is sent."""
    return ModelTestDocument.model_validate(try_model(_agent_labelled(body.agent)))


@router.get("/servers", response={200: ServersDocument, **refusals()})
def get_servers(request: HttpRequest) -> ServersDocument:
    """Return the embedded model, the environment's server, and the servers that were added."""
    return _read_servers()


@router.post("/servers", response={201: ServersDocument, **refusals(400, 403, 409, 413, 415, 422)})
def post_server(request: HttpRequest, body: NewServerBody) -> Status[ServersDocument]:
    """Add a server. Nothing is sent to it before its host is allowed."""
    server = add_server(body.title, body.address)
    if body.key:
        try:
            paste_key(server, body.key)
        except Exception:
            remove_server(server.name)
            raise
    return Status(201, _read_servers())


@router.delete(
    "/servers", response={200: ServersDocument, **refusals(400, 403, 409, 413, 415, 422)}
)
def delete_server(request: HttpRequest, body: ServerNameBody) -> ServersDocument:
    """Remove a server with its pasted key and the choices of it."""
    remove_server(find_server(body.name).name)
    return _read_servers()


def _read_models() -> ModelsDocument:
    refresh_choices()
    chosen = [
        ChosenModel(
            agent=str(agent.label),
            server=choice.server.name,
            model=choice.model,
            # No agent here works for a chapter.
            source=cast(_Source, choice.source),
        )
        for agent in all_agents()
        for choice in [choice_of(agent)]
    ]
    return ModelsDocument(agents=chosen)


def _read_servers() -> ServersDocument:
    return ServersDocument(servers=[_server_document(server) for server in all_servers()])


def _server_document(server: Server) -> ServerDocument:
    # The environment's address may have a user name and password in it.
    address = address_of(server.address) if server.name == ENVIRONMENT else server.address
    return ServerDocument(
        name=server.name,
        title=server.title,
        address=address,
        host=server.host,
        has_key=bool(server.address) and bool(source_of_key(server)),
    )


def _agent_labelled(label: str) -> Agent:
    for agent in all_agents():
        if str(agent.label) == label:
            return agent
    raise InvalidInput("There is no agent with this number or name. Nothing was changed.")
