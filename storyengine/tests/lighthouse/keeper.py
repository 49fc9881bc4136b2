"""The two keepers of the lighthouse. They are two characters of one agent, with the same tools."""

from pydantic import Field

from agents.modes.fields import given_of
from agents.prompting.agent import Agent
from agents.prompting.declarations import cast_layer, memory_layer
from agents.prompting.layer_sources import (
    character_memory,
    identity,
    own_pieces,
    prompt_file,
    recent_context,
)
from agents.prompting.layers import Piece
from agents.prompting.sandwich import LayerDeclaration
from agents.prompting.tools import ToolArguments
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer
from storyengine.tests.lighthouse.narrator import NARRATOR
from storyengine.tests.lighthouse.state import what_is_here
from storyengine.tests.lighthouse.tools import TOOLS

# After words of the user that begin with this text, the keepers act in turn without prompts.
WATCH = "Keep watch"

KEEPER = Agent(
    None,
    "lighthouse.keeper",
    "Keeper of the light",
    "gpt-4o",
    output_tokens=500,
    reasoning_tokens=1_000,
    temperature=0.5,
    layers=(
        LayerDeclaration(
            "SYSTEM",
            prompt_file("storyengine.tests.lighthouse.keeper"),
            role="system",
            has_heading=False,
        ),
        cast_layer(),
        LayerDeclaration("AGENT_IDENTITY", identity),
        memory_layer("STRUCTURED_MEMORY", character_memory),
        LayerDeclaration("WHAT_IS_HERE", what_is_here),
        LayerDeclaration("RECENT_CONTEXT", recent_context),
        LayerDeclaration("USER_PROMPT", own_pieces("USER_PROMPT")),
    ),
    tools=TOOLS,
)


def answers(chapter: Session, actor: int | None) -> Writer:
    """Return who answers a prompt. A prompt to the narrator or to the second keeper may be
    empty."""
    if actor is None:
        return Writer(None, NARRATOR.name, needs_words=False)
    return Writer(actor, KEEPER.name, needs_words=actor == 1)


def acts_next(chapter: Session) -> Writer | None:
    """Return the keeper who did not act last, if the user's last words begin with "Keep watch"."""
    turns = chapter.turns.select_related("chosen").order_by("-number")
    latest = turns[0].chosen
    began = next((one.chosen for one in turns if one.chosen.words), None)
    if began is None or not began.words.startswith(WATCH):
        return None
    return Writer(2 if latest.actor == 1 else 1, KEEPER.name)


class Pointing(ToolArguments):
    """The direction in which the user points, which a prompt may carry."""

    degrees: int = Field(ge=0, lt=360)
    with_a_lamp: bool = False


def words_of(attempt: Attempt) -> dict[str, list[Piece]]:
    pieces, pointing = [Piece(attempt.words or "(You go on.)")], given_of(attempt)
    if pointing is not None:
        how = " with a lamp" if pointing.with_a_lamp else ""
        pieces.append(Piece(f"(The user points to {pointing.degrees} degrees{how}.)"))
    return {"USER_PROMPT": pieces}
