"""The lock of an exploration, which the program writes: the scenario as the first memory, and who
takes part. It never has a secret: neither hidden people nor what anybody knows."""

from typing import Any

from explorer.setup import exploration_of, title_of
from explorer.state import world_of_setup
from sessions.cast import CastText
from sessions.exceptions import InvalidInput
from sessions.limits import PUBLIC_TEXT_CHAR_LIMIT
from sessions.models import Session
from world.state import Person

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
    places = [_described(one.name, one.description) for one in world.places.values()]
    title = title_of(chapter)
    return {
        "memory_type": "world_chapter_lock",
        "world": {
            "genre": "",
            "tone": "",
            "themes": [],
            "rules_of_reality": [],
            "factions_or_powers": [],
            "key_lore": [_described(one.name, one.description) for one in known],
            "safety_or_boundaries": [],
        },
        "chapter": {
            # A chapter that nobody has named is called as the first sentence.
            "premise": f"{title}. {setup.description}" if title else setup.description,
            "location": world.player_location,
            "time": world.narrative_time,
            "environment": places,
            "active_threats": [],
            "open_mysteries": [],
            "chapter_goals": [],
        },
        "agents": [],
        "canon_locks": [f"{one.name} is at {one.location}." for one in known],
        "assumptions": [],
    }


def cast_of(chapter: Session) -> list[CastText]:
    """Return the player, and then the people who are known from the beginning. Whoever is hidden
    joins the cast when the player meets them."""
    setup = exploration_of(chapter)
    world = world_of_setup(setup)
    known = [one for one in world.people.values() if one.is_discovered and not one.is_player]
    player = world.player
    assert player is not None, "Every exploration has a player."
    pronouns = "" if setup.player else setup.persona.pronouns
    first = CastText(player.name, pronouns, _public(player))
    return [first, *(CastText(one.name, "", _public(one)) for one in known)]


def _described(name: str, description: str) -> str:
    return f"{name}: {' '.join(description.split())}" if description else name


def _public(one: Person) -> str:
    """Return the first line of what others see of a person, as long as the cast can show."""
    line = " ".join(one.description.split())
    if len(line) <= PUBLIC_TEXT_CHAR_LIMIT:
        return line
    return line[: PUBLIC_TEXT_CHAR_LIMIT - 1].rsplit(" ", 1)[0] + "…"
