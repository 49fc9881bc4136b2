"""Starters, and the chapters that a client begins."""

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from agents.flows.starters import begin_starter, open_starter
from agents.modes import begin_chapter
from sessions.exceptions import InvalidInput
from sessions.models import DEFAULT_MODE, Session
from sessions.starters import Starter, all_starters
from storyengine.api.bodies import NewChapterBody
from storyengine.api.documents import Document

router = Router(tags=["Chapters"])


class StarterCharacterDocument(Document):
    agent_slot: int
    name: str
    pronouns: str
    public_text: str = Field(description="What everybody may know.")
    hint: str = Field(description="A line about its secret, for the person who chooses a starter.")


class SuggestedPromptDocument(Document):
    agent_slot: int
    user_text: str


class StarterDocument(Document):
    """A finished beginning of a chapter."""

    name: str = Field(description="Send it as `starter` to `POST /api/session`.")
    title: str
    kind: str = Field(description="The genre and the place.")
    premise: str
    characters: list[StarterCharacterDocument]
    prompt_count: int = Field(description="How many prompts have been played in it.")
    next_prompt: SuggestedPromptDocument = Field(description="A prompt that can follow.")


@router.get("/starters", response=list[StarterDocument])
def list_starters(request: HttpRequest) -> list[StarterDocument]:
    """List the starters: finished beginnings of chapters, each with its first prompts played."""
    return [starter_document(one) for one in all_starters()]


def begin(asked: NewChapterBody) -> Session:
    """Create the chapter that the client asks for. Raises UnknownStarter and InvalidInput."""
    if not asked.starter:
        return begin_chapter(asked.title, mode=asked.mode)
    if asked.mode != DEFAULT_MODE:
        raise InvalidInput(f"Starters are played as {DEFAULT_MODE}. Nothing was made.")
    make = open_starter if asked.change_first else begin_starter
    return make(asked.starter, title=asked.title)


def starter_document(starter: Starter) -> StarterDocument:
    return StarterDocument(
        name=starter.name,
        title=starter.title,
        kind=starter.kind,
        premise=starter.premise,
        characters=[
            StarterCharacterDocument(
                agent_slot=slot,
                name=one.name,
                pronouns=one.pronouns,
                public_text=one.public,
                hint=one.hint,
            )
            for slot, one in enumerate(starter.characters, start=1)
        ],
        prompt_count=len(starter.turns),
        next_prompt=SuggestedPromptDocument(
            agent_slot=starter.slot_of(starter.next.to), user_text=starter.next.prompt
        ),
    )
