"""What the embedded model is given for a narration, and to what its text is held."""

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.providers.scripted import ScriptedProvider
from explorer.ready import ReadyScenario, ready_scenarios
from explorer.setup import Exploration
from explorer.short_grammar import choice_of, parts_in_english
from explorer.short_narration import (
    Telling,
    faults_of,
    grammar_for,
    shape_of,
    told_place_and_people,
    told_words,
    whom_the_words_speak_to,
)
from explorer.short_sights import LINES
from explorer.state import world_of_setup
from explorer.tests.playing import begin, play, scripted  # noqa: F401
from sessions.language.sentences import split_sentences
from sessions.language.words import words_of
from world import changes
from world.changes import MET, MOVED
from world.conditions import BECAME, THING
from world.state import World

FERRY = next(one.setup for one in ready_scenarios() if one.name == "last-ferry")
# What each kind of turn has for words. Without words the player comes back.
DEEDS = [
    *("", "I wait.", "I look around.", "I look at the table.", "I touch the door.", "I listen."),
    *(
        "I push the table.",
        "I try the door.",
        '"{name}, what do you know?"',
        "I ask {name} what is wrong with the clock.",
    ),
    *(
        "I ask {name} what you want.",
        '"Thank you, {name}."',
        '"Hello, {name}."',
        '"{name}, come with me."',
    ),
    *('"{name}, give me the key."', '"{name}, it is late."'),
]
SKIFF = "Osk mended the skiff himself last night, by candle, and told nobody."


def told(words: str = "", world: World | None = None, **fields: Any) -> Telling:
    world = world_of_setup(FERRY) if world is None else world
    name = whom_the_words_speak_to(words, world.present(), fields.pop("last", ""))
    return Telling(FERRY, world, words, spoken_to=name, **fields)


def after(*made: tuple[str, dict[str, Any]]) -> World:
    world = world_of_setup(FERRY)
    for kind, payload in made:
        world = changes.apply(world, kind, payload)
    return world


def moved(to: str) -> tuple[str, dict[str, Any]]:
    return MOVED, {"who": [FERRY.persona.name], "to": to, "ticks": 5, "narrative_time": ""}


class TestFactsOfTheBeginning:
    QUESTION = '"Osk, who mended the skiff?"'

    @pytest.mark.parametrize(
        "earned",
        [
            {"asked_before": ["Osk, what about the skiff?"]},
            {"world": after((BECAME, {"person": "Osk Brandt", "condition": "arm broken"}))},
            {"world": after((THING, {"name": "The skiff", "place": "The Ferry Inn"}))},
        ],
        ids=["asked again", "hurt", "found"],
    )
    def test_come_out_when_they_are_earned(self, earned: dict[str, Any]) -> None:
        assert f"answers: {SKIFF[:-1]}" in told_place_and_people(told(self.QUESTION, **earned))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ('"Osk, who lit that?"', "Osk Brandt"),
        ("I ask the boy Ib about Osk.", "Ib"),
        ("I look at Osk.", ""),
        ("I wait for somebody to speak.", ""),
        ("I ask him again.", "Ib"),
        ('"Is anybody there?"', "Ib"),
        ("I ask Runa about the wheel.", "Ib"),
    ],
)
def test_whom_the_words_speak_to(words: str, name: str) -> None:
    assert told(words, last="Ib").spoken_to == name


@pytest.mark.parametrize(
    ("words", "you"),
    [
        ("I take my coat.", "Now: You take your coat."),
        ('I say: "I am Edda."', 'Now: You say: "I am Edda."'),
        ('"I am Edda."', 'Now: You say: "I am Edda."'),
        ("", "Now: You wait and watch."),
    ],
)
def test_the_player_is_you_outside_of_speech(words: str, you: str) -> None:
    assert told_words(told(words)) == you


def test_only_whoever_speaks_is_described_and_nobody_hidden_is_named() -> None:
    request = told_place_and_people(told('"Ib, whom do you wait for?"'))
    assert "Here: Ib (he/him), the miller's boy" in request
    assert "Also here: Osk Brandt." in request
    assert "counts everything twice" not in request
    there = told_place_and_people(told("I wait.", after(moved("The Landing"))))
    assert "Marta" not in there
    met = told("I look around.", after(moved("The Landing"), (MET, {"name": "Marta Quill"})))
    assert "Now you meet Marta Quill" in told_place_and_people(replace(met, met="Marta Quill"))


def texts_of(choices: str) -> set[str]:
    """Return all texts of a choice in a grammar of literals, groups and what may be left out."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|[()|?]', choices)

    def choice(at: int) -> tuple[set[str], int]:
        found: set[str] = set()
        texts = {""}
        while at < len(tokens) and tokens[at] != ")":
            token, at = tokens[at], at + 1
            if token == "|":
                found, texts = found | texts, {""}
                continue
            more = {token[1:-1].replace('\\"', '"').replace("\\\\", "\\")}
            if token == "(":
                more, at = choice(at)
                at += 1
                if tokens[at : at + 1] == ["?"]:
                    more, at = more | {""}, at + 1
            texts = {one + another for one in texts for another in more}
        return found | texts, at

    return choice(0)[0]


class TestGrammar:
    def parts(self, telling: Telling) -> list[list[str]]:
        return parts_in_english(shape_of(telling))

    def test_whoever_is_spoken_to_acts_and_speaks_and_is_described_once(self) -> None:
        asked = told('"Ib, why?"')
        act, said = self.parts(asked)
        assert all(one.startswith("Ib, the miller's boy, eleven years old,") for one in act)
        assert all(one[0] == one[-1] == '"' for one in said)
        again, _ = self.parts(replace(asked, earlier=[act[0]]))
        assert not any("miller" in one for one in again)

    def test_a_title_with_a_point_is_no_sentence_that_was_told(self) -> None:
        people = [FERRY.people[0].model_copy(update={"name": "Dr. Brandt"})]
        setup = FERRY.model_copy(update={"people": people})
        world = world_of_setup(setup)
        earlier = ["Dr. Brandt sighs.", "Dr. Brandt is quiet."]
        telling = Telling(setup, world, "Why?", spoken_to="Dr. Brandt", earlier=earlier)
        assert len(self.parts(telling)[0]) > 20

    def test_a_place_is_first_seen_as_the_scenario_has_it(self) -> None:
        (first,), _ = self.parts(told("", after(moved("The Landing")), is_new_place=True))
        assert first.startswith("Planks over black water")
        nowhere = FERRY.model_copy(update={"places": []})
        world = world_of_setup(nowhere)
        (first,), *_ = self.parts(Telling(nowhere, world, "", is_new_place=True, has_arrived=True))
        assert first == "You are at the Ferry Inn."

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            ("I look closely at the lantern.", "The drifted lantern stands on the counter"),
            ("I sit down by the fire.", "a fire that smokes."),
            ("I search the skiff.", ""),
            ("I look around.", "A low room full of wet coats"),
        ],
    )
    def test_a_look_finds_what_the_author_wrote_of_a_thing_and_once(
        self, words: str, found: str
    ) -> None:
        look = told(words)
        first = self.parts(look)[0]
        assert all(found in one for one in first)
        if found:
            again = self.parts(replace(look, earlier=[f"{first[0]} Ib sighs."]))[0]
            assert not any(found in one for one in again)

    def test_what_has_changed_is_told_once_and_what_was_moved_is_not_told_as_it_was(self) -> None:
        became = {"place": "The Ferry Inn", "condition": "the floor is under water"}
        knife = {"name": "The knife", "holder": "Osk Brandt", "state": "wet"}
        look = told("I look around.", after((BECAME, became), (THING, knife)))
        ((changed,), _) = self.parts(look)
        assert "the floor is under water" in changed
        ((thing,), _) = self.parts(replace(look, earlier=[changed]))
        assert thing == "Osk Brandt has the knife: wet."
        lantern = replace(look, words="I look at the lantern.", words_here=["I take the lantern."])
        assert "stands on the counter" not in str(self.parts(lantern))

    def test_what_is_only_tried_is_not_told_as_done(self) -> None:
        assert not {*self.parts(told("I try to lift the table."))[0]} & {*LINES["told"]["deed"]}

    def test_nobody_looks_more_than_once_in_six_turns(self) -> None:
        asked = told('"Osk, who mended the skiff?"', earlier=["Ib looks at you.", *[""] * 4])
        assert not re.search(
            r"\b(?:looks|glances|watches|keeps an eye)\b", str(self.parts(asked)[0])
        )
        assert "looks" in str(self.parts(replace(asked, earlier=[*asked.earlier, ""]))[0])

    @settings(max_examples=6, deadline=None)
    @given(
        st.sampled_from(ready_scenarios()),
        st.lists(st.sampled_from(DEEDS), min_size=1, max_size=4),
        st.randoms(use_true_random=False),
    )
    def test_no_sentence_is_told_twice_however_long_the_play(
        self, scenario: ReadyScenario, deeds: list[str], chance: Random
    ) -> None:
        world, setup = world_of_setup(scenario.setup), scenario.setup
        name = world.present()[0].name
        sentences: list[tuple[str, ...]] = []
        texts = [setup.opening]
        for turn in range(80):
            words = deeds[turn % len(deeds)].format(name=name)
            telling = Telling(
                setup,
                world,
                words,
                has_arrived=not words,
                spoken_to=whom_the_words_speak_to(words, world.present(), ""),
                earlier=texts,
            )
            text = " ".join(chance.choice(part) for part in self.parts(telling))
            own = [tuple(words_of(one)) for one in split_sentences(text)]
            assert own
            assert not {*own} & {*sentences}
            texts, sentences = [*texts, text], [*sentences, *own]

    @pytest.mark.parametrize("scenario", ready_scenarios(), ids=lambda one: one.name)
    def test_a_first_question_brings_out_no_fact_and_nobody_who_is_hidden(
        self, scenario: ReadyScenario
    ) -> None:
        setup = scenario.setup
        for place in setup.places:
            who = {"who": [setup.persona.name], "to": place.name, "ticks": 5, "narrative_time": ""}
            world = changes.apply(world_of_setup(setup), MOVED, who)
            hidden = [one.name for one in world.people.values() if not one.is_discovered]
            for one in world.present():
                about = " ".join(fact.content for fact in one.kept)
                asked = Telling(setup, world, f'"{about}?"', spoken_to=one.name)
                lines = str(self.parts(asked))
                assert not any(fact.content[:-1] in lines for fact in one.kept)
                assert not any(name in lines for name in hidden)

    @given(st.lists(st.text('ab"\\ ').filter(str.strip), min_size=1))
    def test_the_grammar_has_just_the_lines(self, lines: list[str]) -> None:
        words = [one.split() for one in lines]
        assert texts_of(choice_of(words)) == {" ".join(one) for one in words}

    @pytest.mark.parametrize(
        ("description", "letter"),
        [
            ("Ein Gasthaus am Fluss, in dem niemand schläft und die Fähre nicht kommt.", "A-Z"),
            ("Трактир за рекой, где никто не спит.", "\u0400"),
            ("川のほとりの宿屋。", "\u4e00"),
            ("โรงแรมริมแม่น้ำ", ""),
        ],
    )
    def test_other_languages_are_held_to_no_english_words(
        self, description: str, letter: str
    ) -> None:
        setup = Exploration(description=description)
        grammar = grammar_for(Telling(setup, world_of_setup(setup), ""))
        assert bool(grammar) == bool(letter)
        assert letter in grammar
        assert "You " not in grammar


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('The fire burns low. Ib sighs. "I only want to go."', ""),
        ("Runa looks at you.", "names Runa Vass"),
        ("You hold your hands to the fire.", "repeats the player's words"),
        ("The rain comes down on the roof.", "repeats what was told before"),
    ],
)
def test_faults(text: str, fault: str) -> None:
    earlier = ["The rain comes down on the roof."]
    telling = told("I hold my hands to the fire.", earlier=earlier)
    assert faults_of(telling, text) == ([fault] if fault else [])


@pytest.mark.django_db
def test_the_embedded_model_is_asked_in_this_form(scripted: ScriptedProvider) -> None:  # noqa: F811
    scripted.name = "embedded"
    chapter = begin()
    scripted.enqueue('The bench stands by the wall. Osk sighs. "You may sit."')
    play(chapter, "I sit down.")
    scripted.enqueue('Osk shrugs. "Not now, if you please."')
    play(chapter, '"Osk, how many lanterns had the ferry?"')
    request = scripted.history[-1]
    assert request.tools == ()
    assert 'root ::= ("Osk," (" " (' in request.extra_body["grammar"]
    last = request.messages[-1].content
    assert "will not answer that yet" in last
    assert "You may sit" not in last
