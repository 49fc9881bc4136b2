"""Tests of the world as it stands at one moment."""

import pytest

from world.state import Person, Place, World

AWAY = ("John Smith", "Widow of Osk", "Anna of the Mill", "Pia Brandt")
HERE = ("Old Baker", "Osk Brandt")


def called(name: str) -> str:
    """Return who is called so in a world where these people are here and elsewhere."""
    people = [Person(one, location="Inn") for one in HERE]
    people += [Person(one, location="Mill", is_discovered=False) for one in AWAY]
    you = Person("You", location="Inn", is_player=True)
    found = World(people={one.name: one for one in [you, *people]}).find_called(name)
    return found.name if found else ""


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("John", "John Smith"),
        ("Smith", "John Smith"),
        ("the smith", ""),
        ("A Smith", ""),
        ("smith", ""),
        ("the baker", "Old Baker"),
        ("Osk", "Osk Brandt"),
        ("the widow of Osk", "Widow of Osk"),
        ("Widow", "Widow of Osk"),
        ("Anna", "Anna of the Mill"),
        ("Mill", ""),
        ("Brandt", "Osk Brandt"),
        ("of", ""),
        ("the", ""),
        ("", ""),
    ],
)
def test_a_part_of_a_name_means_one_person_and_a_description_somebody_here(
    name: str, whose: str
) -> None:
    assert called(name) == whose


def test_marks_of_letters_may_be_left_out_where_that_means_one_person_or_place() -> None:
    people = [Person(one) for one in ("René Łuk", "Søren", "Soren", "Zoé")]
    places = [Place("Café Noir"), Place("Dún"), Place("Dùn")]
    world = World({one.name: one for one in places}, {one.name: one for one in people})
    assert [one and one.name for one in map(world.find_called, ("rene luk", "Luk", "Zoe"))] == [
        "René Łuk",
        "René Łuk",
        "Zoé",
    ]
    assert [one and one.name for one in map(world.find_person, ("Soren", "søren", "Sören"))] == [
        "Soren",
        "Søren",
        None,
    ]
    assert world.find_place("the cafe noir") == places[0]
    assert world.find_place("Dun") is None


def test_among_some_people_a_description_may_be_any_of_them() -> None:
    smith = Person("John Smith", location="Mill")
    world = World(people={smith.name: smith})
    assert world.find_called("the smith", [smith]) == smith
    assert world.find_called("the smith", []) is None
