"""What the program reads in the words of a player whose narrator has no tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.deeds import Deed, asked_along, read_deeds
from world.state import Person, Place, World

INN, MILL, LANDING, STUDY = "The Ferry Inn", "The Mill", "The Landing", "Mr. Sallow's Study"
WORLD = World(
    {name: Place(name) for name in (INN, MILL, LANDING, STUDY, "The Cellar Door", "House of Osk")},
    {
        one.name: one
        for one in (
            Person("Edda", location=INN, is_player=True),
            Person("Osk Brandt", location=INN, aliases=("the innkeeper",)),
            Person("Pia Brandt", location=INN),
            Person("Ib", location=MILL),
        )
    },
    known_as={"wheel house": MILL},
)


def moves_of(words: str, world: World = WORLD) -> list[Deed]:
    return [one for one in read_deeds(words, world) if one.kind == "go"]


@pytest.mark.parametrize(
    ("words", "to", "along"),
    [
        ("I go to the mill.", MILL, ()),
        ("Go to the Landing", LANDING, ()),
        ("I thank him. Then I quickly run down to the landing, towards the bell!", LANDING, ()),
        ("I put on my coat and go out to the Landing, towards the bell.", LANDING, ()),
        ("I go up the river to the mill.", MILL, ()),
        ("I return to the wheel house to look for Ib.", MILL, ()),
        ("I enter Mr. Sallow's study.", STUDY, ()),
        (
            "I leave the inn and head for the mill with Osk and Pia.",
            MILL,
            ("Osk Brandt", "Pia Brandt"),
        ),
        ("Osk and I walk to the mill.", MILL, ("Osk Brandt",)),
        ("I take the innkeeper to the mill", MILL, ("Osk Brandt",)),
        ("I go with Pia to the mill.", MILL, ("Pia Brandt",)),
        ("I follow the path up to the mill.", MILL, ()),
        ("Let's go to the mill.", MILL, ()),
        ("I go back.", "", ()),
        ("I return with Osk", "", ("Osk Brandt",)),
    ],
)
def test_a_plain_move_is_found(words: str, to: str, along: tuple[str, ...]) -> None:
    assert moves_of(words) == [Deed("go", to, along)]


@pytest.mark.parametrize(
    "words",
    [
        "Shall I go to the mill?",
        "I ask Osk to come to the mill.",
        "I look towards the mill.",
        "I walk towards the mill.",
        "I do not go to the mill.",
        "I don't go to the mill.",
        "I went to the mill.",
        "I would go to the mill.",
        "I want to go to the mill.",
        "I go to the mill if Osk comes.",
        "I go to the mill, but stop on the bridge.",
        "If I go to the mill, who stays here.",
        "I'll go to the mill tomorrow.",
        "I watch Osk stand up and go to the mill.",
        '"I go to the mill," says Osk.',
        "'I go to the mill,' I whisper.",
        "I go to the mill door.",
        "I follow the path to the mill with my eyes.",
        "I leave the lantern for the mill.",
        "I look out onto the landing.",
        "Let Osk go to the mill.",
        "I go to the door.",
        "I go to the ferry.",
        "I go to the mill. Then I go to the landing.",
        "I go to the mill and then to the landing and go back",
        "I return the key.",
        "I go back to sleep.",
        "I remember that I go to the mill.",
        "I usually go to the mill.",
        "Go to the mill, Osk!",
        "Ich gehe zur Mill.",
    ],
)
def test_words_that_are_not_plain_move_nobody(words: str) -> None:
    assert moves_of(words) == []


@pytest.mark.parametrize(
    ("words", "deeds"),
    [
        ("I wait until dark.", [Deed("wait", ticks=20, until="Dark")]),
        ("We wait for an hour, then I listen.", [Deed("wait", ticks=10), Deed("look")]),
        ("I sleep.", [Deed("wait", ticks=30)]),
        ("I rest my hand on the table.", []),
        ("I look around and go to the mill.", [Deed("look"), Deed("go", MILL)]),
        ("I search the shelves for what may be there.", [Deed("look", ticks=2)]),
        ("I listen, but I would not go to the mill.", [Deed("look")]),
        ("I call out for Marta.", [Deed("look")]),
        ("I look at Osk.", []),
        ("I tell Osk to wait and listen.", []),
        ("Why wait?", []),
    ],
)
def test_waiting_and_looking_are_found(words: str, deeds: list[Deed]) -> None:
    assert read_deeds(words, WORLD) == deeds


@pytest.mark.parametrize(
    ("words", "who"),
    [
        ('I ask Osk: "Will you come with me to the mill?"', ["Osk Brandt"]),
        ('I turn to Pia. "Follow me."', ["Pia Brandt"]),
        ("I ask Osk not to come along.", []),
        ("Come with me!", []),
        ("I ask Osk about the mill.", []),
    ],
)
def test_who_is_asked_along_is_found(words: str, who: list[str]) -> None:
    assert asked_along(words, WORLD) == who


@given(
    st.lists(
        st.sampled_from(
            ["I", "we", "go", "to", "mill", ",", "and", '"', "with", "Osk", "@1~", "#2~"]
        )
        | st.text(max_size=3)
    )
)
def test_any_words_lead_to_one_known_place_at_most(parts: list[str]) -> None:
    moves = moves_of(" ".join(parts))
    assert len({one.to for one in moves}) < 2
    assert all(
        one.to in {"", *WORLD.places} and {*one.along} <= {"Osk Brandt", "Pia Brandt"}
        for one in moves
    )
