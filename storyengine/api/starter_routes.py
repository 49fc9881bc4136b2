"""Starters, and the chapters that a client begins."""

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from agents.flows.beginning.from_starters import begin_starter, open_starter
from agents.modes.declaration import Finished, Mode
from agents.modes.registry import all_modes, begin_chapter
from sessions.chapter.starters import Starter, all_starters
from sessions.exceptions import InvalidInput
from sessions.models import DEFAULT_MODE, Session
from sessions.payloads import with_fields
from sessions.roster import PUBLIC_TEXTS
from storyengine.api.bodies import NewChapterBody
from storyengine.api.documents import Document

router = Router(tags=["Chapters"])


@with_fields({one.name: (str, Field("", description=f"{one.label}.")) for one in PUBLIC_TEXTS})
class StarterCharacterDocument(Document):
    agent_slot: int | None = Field(description="null for a person whom a narrator plays.")
    hint: str = Field(
        description="A line about its secret, for the person who chooses a starter; may be empty."
    )


class SuggestedPromptDocument(Document):
    agent_slot: int | None = Field(description="null where a narrator answers.")
    user_text: str


class StarterDocument(Document):
    """A finished beginning of a chapter."""

    name: str = Field(description="Send it as `starter` to `POST /api/session`.")
    mode: str = Field(description="The way to play.")
    title: str
    kind: str = Field(description="The genre and the place, or the way to play.")
    premise: str
    characters: list[StarterCharacterDocument]
    prompt_count: int = Field(description="How many prompts have been played in it.")
    next_prompt: SuggestedPromptDocument = Field(description="A prompt that can follow.")


@router.get("/starters", response=list[StarterDocument])
def list_starters(request: HttpRequest) -> list[StarterDocument]:
    """List the starters and the finished worlds of all ways to play: beginnings of chapters, each
    with its first prompts played."""
    worlds = [finished_document(mode, one) for mode in all_modes() for one in mode.setup.finished()]
    return [*map(starter_document, all_starters()), *worlds]


def begin(asked: NewChapterBody) -> Session:
    """Create the chapter that the client asks for. Raises UnknownStarter and InvalidInput."""
    if not asked.starter:
        return begin_chapter(asked.title, mode=asked.mode)
    for mode in all_modes():
        found = next((one for one in mode.setup.finished() if one.name == asked.starter), None)
        if found is not None and asked.mode in (DEFAULT_MODE, mode.name):
            return (found.open if asked.change_first else found.begin)(asked.title)
    if asked.mode != DEFAULT_MODE:
        raise InvalidInput(f"Starters are played as {DEFAULT_MODE}. Nothing was made.")
    make = open_starter if asked.change_first else begin_starter
    return make(asked.starter, title=asked.title)


def finished_document(mode: Mode, one: Finished) -> StarterDocument:
    return StarterDocument(
        name=one.name,
        mode=mode.name,
        title=one.title,
        kind=mode.title,
        premise=one.premise,
        characters=[
            StarterCharacterDocument.model_validate({"agent_slot": None, "hint": "", **told})
            for told in one.people
        ],
        prompt_count=one.prompt_count,
        next_prompt=SuggestedPromptDocument(agent_slot=None, user_text=one.next_words),
    )


def starter_document(starter: Starter) -> StarterDocument:
    return StarterDocument(
        name=starter.name,
        mode=DEFAULT_MODE,
        title=starter.title,
        kind=starter.kind,
        premise=starter.premise,
        characters=[
            StarterCharacterDocument.model_validate(
                {"agent_slot": slot, "hint": one.hint}
                | {text.name: getattr(one, text.field_name) for text in PUBLIC_TEXTS}
            )
            for slot, one in enumerate(starter.characters, start=1)
        ],
        prompt_count=len(starter.turns),
        next_prompt=SuggestedPromptDocument(
            agent_slot=starter.slot_of(starter.next.to), user_text=starter.next.prompt
        ),
    )
