"""Decides which place a destination means: a place of the world, or a new one.

A place of this name, whatever its case, articles and spaces, comes first, then an earlier decision
about the same words, then the answer of a model, and if there is none, a rule.
"""

from typing import Annotated

from pydantic import Field, StringConstraints, WithJsonSchema

from agents.prompting.agent import Agent
from agents.prompting.layer_sources import own_pieces, prompt_file
from agents.prompting.layers import Piece
from agents.prompting.sandwich import LayerDeclaration
from agents.prompting.tools import (
    AnswerTool,
    ProposedChange,
    Question,
    ToolArguments,
)
from explorer.setup import MOST_PLACES
from explorer.state import in_short
from sessions.language.text import why_no_name
from sessions.limits import AGENT_NAME_CHAR_LIMIT
from world.changes import KNOWN_AS, PLACE
from world.names import canonical_name, normalized
from world.state import World

RESOLVER = "explorer.places"
# If the model is less sure than this that a place is meant, the destination is a new place. This
# number and the limit of tokens come from sections 11 and 8 of the specification.
LEAST_CONFIDENCE = 0.6
WHOLE_ANSWER_TOKENS = 4_096
# The limits in characters of the descriptions of all places together, and of one place.
_MOST_DESCRIBED, _MOST_OF_A_PLACE = 12_000, 160

RESOLVER_AGENT = Agent(
    None,
    RESOLVER,
    "Who knows the places",
    "o4-mini",
    output_tokens=WHOLE_ANSWER_TOKENS,
    reasoning_tokens=1_000,
    temperature=0.1,
    layers=(
        LayerDeclaration(
            "SYSTEM", prompt_file("explorer.places"), role="system", has_heading=False
        ),
        LayerDeclaration("EXISTING_LOCATIONS", own_pieces("EXISTING_LOCATIONS")),
        LayerDeclaration("LOCATION_DESCRIPTION", own_pieces("LOCATION_DESCRIPTION")),
    ),
    occasion="When you go to a place by another name than those that are known",
    reasoning_effort="low",
    retry_waits=(1, 2, 4),
)


class ResolveLocation(ToolArguments):
    # The schemas of the program have one type for each field, so null is not in the schema but
    # accepted.
    matchedClusterId: Annotated[str | None, WithJsonSchema({"type": "string"})] = Field(  # noqa: N815
        None, description="The id of the place that is meant; empty for a new place."
    )
    canonicalName: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(  # noqa: N815
        "", description="The best short name of the place."
    )
    confidence: float = Field(0, ge=0, le=1, description="How sure this is, from 0 to 1.")


ANSWER = AnswerTool("resolveLocation", "Says which place is meant.", ResolveLocation)


def question(destination: str, world: World) -> Question | None:
    """Return the question which place is meant, or None if the place is clear without a model."""
    if not world.places or why_no_place(destination) or world.find_place(destination):
        return None
    most = min(_MOST_DESCRIBED // len(world.places), _MOST_OF_A_PLACE)
    known = [
        f'{_id(at)}. "{name}"'
        + (f": {told}" if (told := in_short(place.description, most)) else "")
        for at, (name, place) in enumerate(world.places.items())
    ]
    here = f'The player is at "{world.player_location}" now.' if world.player_location else ""
    pieces = {
        "EXISTING_LOCATIONS": [Piece("\n".join([*known, here]).strip())],
        "LOCATION_DESCRIPTION": [Piece(destination)],
    }
    return Question(RESOLVER, pieces, ANSWER)


def why_no_place(destination: str) -> str:
    """Return a sentence that says why no place can have this name, or ""."""
    if not normalized(destination):
        return "The destination has no name. Nothing was changed; name the place."
    if problem := why_no_name(destination):
        return f"In the destination, {problem}. Nothing was changed; name the place without that."
    return ""


def resolve(
    destination: str, world: World, answer: ResolveLocation | None
) -> tuple[str, tuple[ProposedChange, ...]]:
    """Return the canonical name of the place, and the changes that make it known.

    The name is "" if the world may have no more places.
    """
    if place := world.find_place(destination):
        return place.name, ()
    name = _named(destination, world, answer)
    wanted = normalized(destination)
    if not name or not wanted:
        return "", ()
    found = world.find_place(name)
    if found is None and len(world.places) >= MOST_PLACES:
        return "", ()
    canonical = found.name if found else name
    changes = [] if found else [ProposedChange(PLACE, {"name": name, "description": ""})]
    if wanted != normalized(canonical):
        # From now on, the same words lead to the same place without a model.
        changes.append(ProposedChange(KNOWN_AS, {"name": wanted, "place": canonical}))
    return canonical, tuple(changes)


def _named(destination: str, world: World, answer: ResolveLocation | None) -> str:
    if answer is None:
        return canonical_name(destination)
    by_id = {_id(at): name for at, name in enumerate(world.places)}
    matched = by_id.get((answer.matchedClusterId or "").strip())
    if matched and answer.confidence >= LEAST_CONFIDENCE:
        return matched
    told = " ".join(answer.canonicalName.split())[:AGENT_NAME_CHAR_LIMIT]
    is_name = bool(normalized(told)) and not why_no_name(told)
    # The new place needs another name if an existing place has this name, because the model was not
    # sure that this place is meant.
    is_free = is_name and world.find_place(told) is None
    return told if is_free else canonical_name(destination)


def _id(at: int) -> str:
    return f"place-{at + 1}"
