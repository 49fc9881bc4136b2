"""Things and conditions: what is noted of them, and where a thing is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from world.changes import MOVED, apply
from world.conditions import BECAME, MOST_CONDITIONS, MOST_THINGS, THING
from world.document import read_world, write_world
from world.state import Person, Place, World

PEOPLE, PLACES, THINGS = ("You", "Osk"), ("Inn", "Mill"), ("The mill key", "A lamp", "Bread")


def small_world() -> World:
    people = {
        name: Person(name, location="Inn", is_player=name == "You", seen_at="") for name in PEOPLE
    }
    return World({name: Place(name) for name in PLACES}, people)


def told(world: World, kind: str, **payload: Any) -> World:
    return apply(world, kind, payload, ref="made")


def test_a_thing_goes_with_who_has_it() -> None:
    world = told(small_world(), THING, name="The mill key", holder="Osk", state="bent")
    world = apply(world, MOVED, {"who": ["Osk"], "to": "Mill"})
    [key] = world.things.values()
    assert (key.holder, key.place, key.state, key.made_by) == ("Osk", "", "bent", "made")
    assert world.place_of(key) == "Mill"

    world = told(world, THING, name="mill key", place="Inn")
    [key] = world.things.values()
    assert (key.name, key.holder, key.place, key.state) == ("The mill key", "", "Inn", "bent")
    assert told(world, THING, name="the mill key", over=True).things == {}


def test_a_condition_ends_by_its_own_or_by_shorter_words() -> None:
    world = told(small_world(), BECAME, person="You", condition="right hand cut")
    world = told(world, BECAME, person="You", condition="owes Osk a lamp")
    assert told(world, BECAME, person="You", condition="Right hand cut.") == world
    healed = told(world, BECAME, person="You", condition="hand cut", over=True)
    assert [one.text for one in healed.people["You"].conditions] == ["owes Osk a lamp"]
    # What is not known, and somebody who is not, change nothing.
    assert told(world, BECAME, person="You", condition="blind", over=True) == world
    assert told(world, BECAME, person="Nobody", condition="blind") == world


def test_things_and_conditions_are_bounded() -> None:
    world = small_world()
    for at in range(MOST_THINGS + 5):
        world = told(world, THING, name=f"Thing {at}", place="Inn")
    for at in range(MOST_CONDITIONS + 5):
        world = told(world, BECAME, place="Inn", condition=f"mark number{at}")
    assert len(world.things) == MOST_THINGS
    assert len(world.places["Inn"].conditions) == MOST_CONDITIONS


NAMES = st.sampled_from(("", *PEOPLE, *PLACES, "nobody"))
CHANGES = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just(THING), "name": st.sampled_from(THINGS)},
        optional={
            "holder": NAMES,
            "place": NAMES,
            "state": st.sampled_from(("", "lit")),
            "over": st.booleans(),
        },
    ),
    st.fixed_dictionaries(
        {"kind": st.just(BECAME), "condition": st.sampled_from(("cut", "hand cut", "wet"))},
        optional={"person": NAMES, "place": NAMES, "over": st.booleans()},
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just(MOVED),
            "who": st.lists(st.sampled_from(PEOPLE), min_size=1, unique=True),
            "to": st.sampled_from(PLACES),
        }
    ),
)


@given(st.lists(CHANGES, max_size=20))
def test_a_thing_stands_in_one_place_and_a_condition_once(changes: list[dict[str, Any]]) -> None:
    world = small_world()
    for change in changes:
        world = told(world, **change)
    for thing in world.things.values():
        assert not (thing.holder and thing.place)
        assert world.place_of(thing) in ("", *PLACES)
    held = [person.conditions for person in world.people.values()]
    held += [place.conditions for place in world.places.values()]
    for conditions in held:
        words = [one.text for one in conditions]
        assert len(set(words)) == len(words)
    for place in world.places.values():
        assert all(place.name in world.places[other].ways for other in place.ways)
    assert read_world(write_world(world)) == world
