"""The world of an exploration at any moment of play."""

from agents.modes.registry import mode_of
from agents.modes.world_rules import WorldRules
from agents.prompting.sandwich import Subject
from explorer.handing_on import hands_on, initial_world
from explorer.state import apply_change
from world.changes import CHANGE_KINDS
from world.state import World

WORLD = WorldRules(initial_world, apply_change, CHANGE_KINDS, hands_on=hands_on)

# The name under which a request keeps its world.
_WORLD = "explorer.world"


def world_for(subject: Subject) -> World:
    """Return the world that a request is about: for an attempt, this is the world with the changes
    of its run. The world is folded once for all layers of the request. A request for a dry run is
    about the world as it would be when the prompt is answered."""
    world: World | None = subject.worked_out.get(_WORLD)
    if world is None:
        attempt = subject.attempt
        world = WORLD.of(attempt) if attempt else WORLD.now(subject.chapter)
        if attempt and attempt._state.adding and subject.own_pieces:
            begun = mode_of(subject.chapter).play.begins(attempt)
            world = WORLD.with_changes(world, begun)
        subject.worked_out[_WORLD] = world
    return world
