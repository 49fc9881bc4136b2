"""What changes make of a world."""

from world.changes import MOVED, SIMULATED, apply
from world.state import Person, Place, World


def world_with(*, is_discovered: bool) -> World:
    people = (
        Person("You", location="Inn", is_player=True),
        Person("Osk", location="Inn"),
        Person("Marta", location="Mill", is_discovered=is_discovered),
    )
    places = {name: Place(name) for name in ("Inn", "Mill")}
    return World(places, {one.name: one for one in people})


def test_the_player_does_not_notice_that_somebody_hidden_arrives() -> None:
    moved = {"who": "Marta", "to": "Inn"}
    result = {"places": [{"place": "Mill", "tick": 0, "movements": [moved]}], "skipped": []}
    [hidden] = apply(world_with(is_discovered=False), SIMULATED, result).happenings
    [known] = apply(world_with(is_discovered=True), SIMULATED, result).happenings
    assert set(hidden.witnesses) == {"Marta", "Osk"}
    assert set(known.witnesses) == {"Marta", "Osk", "You"}


def test_the_player_knows_of_an_own_move() -> None:
    world = apply(world_with(is_discovered=False), MOVED, {"who": ["You", "Osk"], "to": "Mill"})
    [move] = world.happenings
    assert set(move.witnesses) == {"You", "Osk", "Marta"}
