"""The chapter's settings for its agents: their models, and how the models write."""

from typing import Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from agents.calling.chapter_models import (
    HOTTEST,
    LEAST_OUTPUT_TOKENS,
    MOST_STOPS,
    STOP_CHAR_LIMIT,
    save_models,
)
from agents.calling.servers.choices import choice_of, refresh_choices
from agents.modes.registry import agents_in
from agents.prompting.agent import Agent
from agents.prompting.own_settings import OwnSettings
from sessions.chapter.access import get_chapter
from sessions.exceptions import InvalidInput
from sessions.models import Session
from storyengine.api.bodies import Body
from storyengine.api.documents import Document
from storyengine.api.model_routes import AGENT
from storyengine.api.problems import READ, WRITE

router = Router(tags=["Models"])

_SET = "as the chapter has set it; null when it has not."
_TEMPERATURE = f"From 0 to {HOTTEST:g}, for a model that takes one."
_TOP_P = "From 0.01 to 1, for a model that takes a temperature."
_OUTPUT = (
    f"The most tokens of text of one answer: at least {LEAST_OUTPUT_TOKENS}, and at most what the "
    "model can write and half of its window. Hidden reasoning comes on top."
)
_STOP = f"At most {MOST_STOPS} texts of at most {STOP_CHAR_LIMIT} characters that end an answer."


class ChapterModel(Document):
    agent: str = Field(description=AGENT)
    server: str = Field(description="The agent's own server, as for all chapters.")
    model: str
    source: Literal["chapter", "agent", "all", "environment", "default"] = Field(
        description="Where the model comes from: set for this chapter, or as for all chapters."
    )
    temperature: float | None = Field(description=f"The temperature {_SET}")
    top_p: float | None = Field(description=f"The top_p {_SET}")
    max_output_tokens: int | None = Field(description=f"The output limit {_SET}")
    stop: list[str] = Field(description="The stop sequences that the chapter has set.")


class ChapterModelsDocument(Document):
    agents: list[ChapterModel]


class ChapterModelBody(Body):
    """Everything that the chapter sets for an agent. A field that is missing is not set, so the
    agent's value for all chapters counts."""

    agent: str = Field(description=AGENT)
    server: str = Field(
        "", description="The agent's own server, or empty. A chapter cannot set another server."
    )
    model: str = Field("", description="A model of the agent's server.")
    temperature: float | None = Field(None, description=_TEMPERATURE)
    top_p: float | None = Field(None, description=_TOP_P)
    max_output_tokens: int | None = Field(None, description=_OUTPUT)
    stop: list[str] = Field([], max_length=MOST_STOPS, description=_STOP)


class ChapterModelsBody(Body):
    agents: list[ChapterModelBody] = Field(
        max_length=100, description="Agents that are not named keep what they have."
    )


@router.get("/session/{uuid:session_id}/models", response={200: ChapterModelsDocument, **READ})
def get_chapter_models(request: HttpRequest, session_id: UUID) -> ChapterModelsDocument:
    """Return the server and the model of each agent of the chapter, and the settings that the
    chapter has for them."""
    return _read(get_chapter(session_id))


@router.put("/session/{uuid:session_id}/models", response={200: ChapterModelsDocument, **WRITE})
def put_chapter_models(
    request: HttpRequest, session_id: UUID, body: ChapterModelsBody
) -> ChapterModelsDocument:
    """Set the chapter's models and how they write, for all named agents or for none. These settings
    count from the next attempt on, and win over `PUT /api/models`. Forks, copies, a reset and the
    next chapter keep them, and no file of a chapter has them."""
    refresh_choices()
    agents = {str(agent.label): agent for agent in agents_in(get_chapter(session_id))}
    changes = {}
    for one in body.agents:
        agent = agents.get(one.agent)
        if agent is None:
            raise InvalidInput(
                "This chapter has no agent with this number or name. Nothing was changed."
            )
        changes[agent.model_setting] = _settings(agent, one)
    return _read(save_models(session_id, changes))


def _settings(agent: Agent, body: ChapterModelBody) -> OwnSettings:
    server = choice_of(agent).server.name
    if body.server and body.server != server:
        raise InvalidInput(
            f"Agent {agent.label} uses the server {server} in all chapters. Nothing was changed; "
            "choose another server with PUT /api/models."
        )
    return OwnSettings(
        model=body.model,
        temperature=body.temperature,
        top_p=body.top_p,
        output_tokens=body.max_output_tokens,
        stop=tuple(body.stop),
    )


def _read(chapter: Session) -> ChapterModelsDocument:
    refresh_choices()
    found = []
    for agent in agents_in(chapter):
        choice = choice_of(agent)
        found.append(
            ChapterModel(
                agent=str(agent.label),
                server=choice.server.name,
                model=choice.model,
                source=choice.source,
                temperature=agent.own.temperature,
                top_p=agent.own.top_p,
                max_output_tokens=agent.own.output_tokens,
                stop=list(agent.own.stop),
            )
        )
    return ChapterModelsDocument(agents=found)
