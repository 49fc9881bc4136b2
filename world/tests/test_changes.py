"""What changes make of a world."""

from world.changes import SIMULATED, TIED, apply
from world.document import read_world, write_world
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


def test_a_tie_of_the_beginning_is_not_lost_by_a_later_one() -> None:
    married = {"Okoro": "They were married once."}
    lio = Person("Lio", relationships=married, tied_at_start=married)
    world = World(people={"Lio": lio})
    assert lio.tie_to("Okoro") == "They were married once."

    for what in ("He trusts her.", "He is shaken."):
        world = apply(world, TIED, {"who": "Lio", "name": "Okoro", "description": what})
    world = apply(world, TIED, {"who": "Lio", "name": "Tavi", "description": "He likes her."})
    now = read_world(write_world(world)).people["Lio"]
    assert now.tie_to("Okoro") == "They were married once. Since then: He is shaken."
    assert (now.tie_to("Tavi"), now.tie_to("Wen")) == ("He likes her.", "")
