"""The lock of an exploration, which the program writes: the scenario as the first memory, and the
cast. The lock never has a secret: it names no hidden people, and tells nobody's knowledge."""

from typing import Any

from explorer.setup import exploration_of, title_of
from explorer.state import in_short, public_texts_of, world_of_setup
from sessions.chapter.cast import TextsOfMember
from sessions.exceptions import InvalidInput
from sessions.limits import MAX_PEOPLE
from sessions.models import Session

# The descriptions of all places and people together have at most this many characters. The narrator
# reads more of the place where the player is, and of the people who are present.
MOST_DESCRIBED = 12_000
NOTHING_TO_EXPLORE = (
    "There is nothing to explore yet. Describe the world, or name at least one place, or choose a "
    "finished scenario."
)


def lock_of(chapter: Session) -> dict[str, Any]:
    """Return the first memory. Raises InvalidInput if the scenario is empty."""
    setup = exploration_of(chapter)
    if not (setup.description.strip() or setup.places or setup.people):
        raise InvalidInput(NOTHING_TO_EXPLORE)
    world = world_of_setup(setup)
    known = [one for one in world.people.values() if one.is_discovered]
    if len(known) > MAX_PEOPLE + 1:
        raise InvalidInput(
            f"At most {MAX_PEOPLE} people whom you know can take part, and here are "
            f"{len(known) - 1}. Nothing was lost; remove some of them or hide them until you meet."
        )
    room = MOST_DESCRIBED // (len(world.places) + len(known))
    places = [_described(one.name, one.description, room) for one in world.places.values()]
    title = title_of(chapter)
    return {
        "memory_type": "world_chapter_lock",
        "world": {
            "genre": "",
            "tone": "",
            "themes": [],
            "rules_of_reality": [],
            "factions_or_powers": [],
            "key_lore": [_described(one.name, one.description, room) for one in known],
            "safety_or_boundaries": [],
        },
        "chapter": {
            # A chapter without a title of its own is named after the first sentence.
            "premise": f"{title}. {setup.description}" if title else setup.description,
            # The lock tells nobody's place, because people move. Only the world says where they
            # are.
            "location": "",
            "time": world.narrative_time,
            "environment": places,
            "active_threats": [],
            "open_mysteries": [],
            "chapter_goals": [],
        },
        "agents": [],
        "canon_locks": [],
        "assumptions": [],
    }


def cast_of(chapter: Session) -> list[TextsOfMember]:
    """Return the player, and then the people who are known from the beginning. A hidden person
    joins the cast when the player meets this person."""
    setup = exploration_of(chapter)
    world = world_of_setup(setup)
    known = [one for one in world.people.values() if one.is_discovered and not one.is_player]
    player = world.player
    assert player is not None, "Every exploration has a player."
    return [public_texts_of(one) for one in (player, *known)]


def _described(name: str, description: str, room: int) -> str:
    told = in_short(description, room)
    return f"{name}: {told}" if told else name
