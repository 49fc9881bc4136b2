"""The servers of models, and the choice of a model for each agent."""

from decimal import Decimal
from typing import Literal, cast

from django.db import transaction
from django.http import HttpRequest
from ninja import Router, Status
from pydantic import Field

from agents.calling.model_test import try_model
from agents.calling.servers.caps import Caps, caps_of_environment, present_caps, stored_caps
from agents.calling.servers.changing import (
    add_server,
    all_servers,
    choose_models,
    find_server,
    remove_server,
    save_caps,
)
from agents.calling.servers.choices import ALL, ENVIRONMENT, Server, choice_of, refresh_choices
from agents.calling.servers.keys import paste_key, source_of_key, why_unusable
from agents.llm.providers.windows import address_of
from agents.modes.registry import all_agents
from agents.prompting.agent import Agent
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


class Budget(Document):
    """The caps on what a chapter may cost. Null stands for no cap."""

    dollars: Decimal | None = Field(description="The cap that counts.")
    tokens: int | None = Field(
        description="The cap that counts, on tokens of models without a known price."
    )
    stored_dollars: Decimal | None = Field(description="The cap that was stored here.")
    stored_tokens: int | None = Field(description="The cap that was stored here.")
    highest_dollars: Decimal | None = Field(
        description="The environment's cap, which is the highest that can be stored."
    )
    highest_tokens: int | None = Field(
        description="The environment's cap, which is the highest that can be stored."
    )


class ModelsDocument(Document):
    agents: list[ChosenModel]
    budget: Budget


class ModelChoiceBody(Body):
    agent: str = Field(description=f"{AGENT} Empty for all agents without their own choice.")
    server: str = Field("", description="The name of a server. Empty to take the choice back.")
    model: str = Field("", description="The name of a model of this server.")


class BudgetBody(Body):
    """The caps to store, in place of both stored caps. If a cap is missing or null, its stored
    value is removed, and the cap of the environment counts."""

    dollars: float | None = Field(None, description="From 0.01, in whole cents.")
    tokens: int | None = Field(None, description="From 1.")


class ModelsBody(Body):
    agents: list[ModelChoiceBody] = Field(
        [],
        max_length=100,
        description="The choices to store. Agents that are not named keep theirs.",
    )
    budget: BudgetBody | None = Field(
        None, description="The caps to store. Both stay as they are if this is missing or null."
    )


class ServerDocument(Document):
    name: str
    title: str
    address: str
    host: str = Field(description="Where texts would go; empty when they stay on this machine.")
    has_key: bool


class ServersDocument(Document):
    servers: list[ServerDocument]
    keys_problem: str = Field(
        description="Why the file of pasted keys cannot be used, in a sentence; empty if it can."
    )


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
    server_said: str = Field(
        description="What the server itself said of the problem, at most about 300 characters."
    )


@router.get("/models", response={200: ModelsDocument, **refusals()})
def get_models(request: HttpRequest) -> ModelsDocument:
    """Return the server and the model of each agent, where the choice comes from, and the caps on
    what a chapter may cost."""
    return _read_models()


@router.put("/models", response={200: ModelsDocument, **refusals(400, 403, 413, 415, 422)})
def put_models(request: HttpRequest, body: ModelsBody) -> ModelsDocument:
    """Store choices and caps: either all of them or none. They count from the next attempt on."""
    choices: dict[str, tuple[str, str] | None] = {}
    for one in body.agents:
        key = ALL if one.agent == "" else _agent_labelled(one.agent).model_setting
        choices[key] = (one.server, one.model) if one.server else None
    try:
        with transaction.atomic():
            if body.budget is not None:
                save_caps(_caps(body.budget))
            choose_models(choices)
    except InvalidInput:
        # This process may have read values that were not stored in the end.
        refresh_choices()
        raise
    return _read_models()


@router.post(
    "/models/test", response={200: ModelTestDocument, **refusals(400, 403, 409, 413, 415, 422, 429)}
)
def test_model(request: HttpRequest, body: ModelTestBody) -> ModelTestDocument:
    """Make one tiny call of the agent's model. No text of a story is sent. The test is recorded,
    and all tests of a day may cost as much as a chapter may."""
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
    """Remove a server, and the agents' choices of this server. Its pasted key goes too, unless
    another server has the same address."""
    remove_server(find_server(body.name).name)
    return _read_servers()


def _read_models() -> ModelsDocument:
    refresh_choices()
    chosen = [
        ChosenModel(
            agent=str(agent.label),
            server=choice.server.name,
            model=choice.model,
            # These agents work for no particular chapter.
            source=cast(_Source, choice.source),
        )
        for agent in all_agents()
        for choice in [choice_of(agent)]
    ]
    caps, stored, highest = present_caps(), stored_caps(), caps_of_environment()
    budget = Budget(
        dollars=caps.dollars,
        tokens=caps.tokens,
        stored_dollars=stored.dollars,
        stored_tokens=stored.tokens,
        highest_dollars=highest.dollars,
        highest_tokens=highest.tokens,
    )
    return ModelsDocument(agents=chosen, budget=budget)


def _caps(body: BudgetBody) -> Caps:
    return Caps(None if body.dollars is None else Decimal(str(body.dollars)), body.tokens)


def _read_servers() -> ServersDocument:
    servers = [_server_document(server) for server in all_servers()]
    return ServersDocument(servers=servers, keys_problem=why_unusable())


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
