"""Tests of the comparison of a world with the one that a turn's words lead to."""

from bench.embedded_worlds import figures_of
from bench.explored_turns import ExploredTurn, all_scenarios, what_is_wrong
from explorer.ready import ready_scenarios
from explorer.setup import Exploration
from world.state import Person, World


def test_what_is_wrong_is_named() -> None:
    you = Person("You", location="The Inn", is_player=True)
    world = World({}, {"You": you, "Marta": Person("Marta", is_discovered=False)}, tick=1)
    assert what_is_wrong(world, ExploredTurn(place="The Inn"), 0) == []
    turn = ExploredTurn(place="The Mill", met=("Marta",), waits=True)
    assert what_is_wrong(world, turn, 0) == [
        "the player is at The Inn",
        "Marta is not discovered",
        "no time passed",
    ]


def test_the_turns_name_places_and_people_of_their_scenarios() -> None:
    setups: dict[str, Exploration] = {one.name: one.setup for one in ready_scenarios()}
    assert [one.name for one in all_scenarios()] == list(setups)
    for scenario in all_scenarios():
        assert len(scenario.turns) == 20
        setup = setups[scenario.name]
        for turn in scenario.turns:
            assert {turn.place, turn.click} <= {"", *setup.named_places()}
            assert set(turn.met) <= {one.name for one in setup.people if not one.is_discovered}


def test_the_figures_find_a_sentence_a_tool_and_a_secret() -> None:
    fact = "The chain was cut half through before the flood."
    turn = {"scenario": "mill", "wrong": [], "kept": [fact], "seconds": 1.0, "model_calls": 1}
    turn |= {"is_pressed": False}
    texts = [
        ("I ask Runa about the wheel.", "The wheel trembles under the chain."),
        ("I wait.", "The wheel trembles under the chain. advanceTime"),
        ("I ask Runa what ails her.", '"Somebody cut the chain half through before the flood."'),
        ("I ask Runa about the chain.", '"The chain was cut half through before the flood."'),
    ]
    results = [
        turn | {"number": number, "words": words, "given": words, "narration": text}
        for number, (words, text) in enumerate(texts, 1)
    ]
    failed = {one.name: one.value for one in figures_of(results) if one.passed is False}
    assert failed == {
        "texts with a tool": "1 mill 2",
        "texts with a sentence told before": "1 mill 2",
        "texts with a secret at the first question": "2 mill 3, mill 4",
    }
