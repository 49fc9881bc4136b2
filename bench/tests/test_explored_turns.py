"""Tests of the comparison of a world with the one that a turn's words lead to."""

import pytest

from bench.explored_turns import ExploredTurn, all_scenarios, what_is_wrong
from explorer.ready import ready_scenarios
from explorer.setup import Exploration
from world.names import normalized
from world.state import Person, Place, World

BEFORE = frozenset({"You", "Marta"})


def world(place: str = "The Inn", *, tick: int = 1, has_met: bool = False, more: str = "") -> World:
    people = {
        "You": Person("You", location=place, is_player=True),
        "Marta": Person("Marta", location="The Inn", is_discovered=has_met),
    }
    people |= {more: Person(more, location=place)} if more else {}
    return World({one: Place(one) for one in ("The Inn", "The Mill")}, people, tick=tick)


@pytest.mark.parametrize(
    ("turn", "after", "wrong"),
    [
        (ExploredTurn(words="", place="the inn"), world(), []),
        (ExploredTurn(words="", place="The Mill"), world(), ["the player is at The Inn"]),
        (
            ExploredTurn(words="", place="The Inn", met=("Marta",)),
            world(),
            ["Marta is not discovered"],
        ),
        (ExploredTurn(words="", place="The Inn", met=("Marta",)), world(has_met=True), []),
        (ExploredTurn(words="", place="The Inn"), world(more="Ib"), ["new people: Ib"]),
        (
            ExploredTurn(words="", place="The Inn", new_person=True),
            world(),
            ["new people: nobody"],
        ),
        (ExploredTurn(words="", place="The Inn", waits=True), world(), ["no time passed"]),
        (ExploredTurn(words="", place="The Inn", waits=True), world(tick=9), []),
    ],
)
def test_what_is_wrong_is_named(turn: ExploredTurn, after: World, wrong: list[str]) -> None:
    assert what_is_wrong(after, turn, 0, BEFORE) == wrong


def test_the_turns_name_places_and_people_of_their_scenarios() -> None:
    setups: dict[str, Exploration] = {one.name: one.setup for one in ready_scenarios()}
    for scenario in all_scenarios():
        assert len(scenario.turns) == 10
        setup = setups[scenario.name]
        places = {normalized(name) for name in setup.named_places()} | {"attic"}
        hidden = {one.name for one in setup.people if not one.is_discovered}
        for turn in scenario.turns:
            assert normalized(turn.place) in places
            assert set(turn.met) <= hidden
