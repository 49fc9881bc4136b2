"""The setup of an exploration on Tab 1: the scenario with its places and people, and the user's own
person."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, ValidationInfo, model_validator

from agents.modes.declaration import Beginning
from agents.modes.fields import setup_of
from agents.modes.registry import mode_of
from agents.prompting.sandwich import Subject
from explorer.guidance import MOST_TALK, AuthorsNote, Lorebook, TalkExample
from explorer.output_rules import MOST_RULES, OutputRule
from explorer.setup_parts import (
    AnyText,
    Line,
    Name,
    Part,
    Pronouns,
    Text,
    Title,
    is_stored,
    lines_of,
    none_if_empty,
)
from sessions.chapter.cast import clean_person
from sessions.exceptions import ChapterError, WrongState
from sessions.language.speaker_marks import person_as_read
from sessions.limits import PUBLIC_TEXT_CHAR_LIMIT
from sessions.models import Session
from sessions.roster import Character, character
from world.names import normalized
from world.state import Source

# A world has at most this many places and people, including the people and places that appear in
# play. A file has fewer.
MOST_PLACES = MOST_PEOPLE = 1_000
MOST_FACTS, MOST_ALIASES, MOST_WAYS, MOST_DEEDS = 50, 10, 20, 5
# The name of the user's person, as long as the user gives none.
PLAYER = "The traveller"
START = "The beginning"
# The name under which a request keeps its setup.
_SETUP = "explorer.setup"
_NO_NAME = "a place needs a name with a letter or a digit"

# The place of a field, and the words for its fault.
Problem = tuple[tuple[str | int, ...], str]
# The owners of names. The keys are the forms of the names that readers and the world compare. An
# owner is the number of a person, or the word "name" for the user's own person.
_Owners = dict[tuple[str, str], int | str]


class PlaceSetup(Part):
    name: Name
    description: Text = ""
    # The names of the places that a known way leads to.
    ways: Annotated[list[Name], BeforeValidator(lines_of)] = Field([], max_length=MOST_WAYS)
    # The name of the same place in the chapter before, or "".
    was: Name = ""


class KnownSetup(Part):
    content: Line
    source: Source = "witnessed"
    source_character: Name = ""
    # False for a fact that was learned in an earlier chapter of the story.
    is_kept: bool = True


class TieSetup(Part):
    name: Name
    description: Line = ""


class PersonSetup(Part):
    name: Name
    description: Text = ""
    goals: Text = ""
    # The name of a place; "" for the starting place.
    location: Name = ""
    is_player: bool = False
    is_discovered: bool = True
    encounter_chance: Annotated[float | None, BeforeValidator(none_if_empty)] = Field(
        None, ge=0, le=1
    )
    knowledge: list[KnownSetup] = Field([], max_length=MOST_FACTS)
    relationships: list[TieSetup] = Field([], max_length=MOST_PEOPLE)
    aliases: Annotated[list[Name], BeforeValidator(lines_of)] = Field([], max_length=MOST_ALIASES)
    pronouns: Pronouns = ""
    # The name of the same person in the chapter before, or "".
    was: Name = ""


class Persona(Part):
    """The user's person, unless one of the people is the player. `seen_as` is the description that
    others see."""

    name: Name = PLAYER
    pronouns: Pronouns = ""
    description: Text = ""
    seen_as: Annotated[AnyText, StringConstraints(max_length=PUBLIC_TEXT_CHAR_LIMIT)] = ""


class Exploration(Part):
    """The setup of an exploration. A place that is named but not listed is added."""

    title: Title = ""
    description: Text = ""
    narrative_time: Line = ""
    places: list[PlaceSetup] = Field([], max_length=MOST_PLACES)
    people: list[PersonSetup] = Field([], max_length=MOST_PEOPLE)
    starting_place: Name = ""
    persona: Persona = Persona()
    style: Text = ""
    # The opening text of the story, and suggestions for the player's first deed.
    opening: Text = ""
    deeds: Annotated[list[Line], BeforeValidator(lines_of)] = Field([], max_length=MOST_DEEDS)
    # The open threads at the beginning of a next chapter.
    about: Text = ""
    # Whether Tab 1 has the knowledge and the ties that the people bring from the chapter before. In
    # chapters that an earlier release began, only the world that was handed on has them.
    is_next: bool = False
    note: AuthorsNote = AuthorsNote()
    talk: list[TalkExample] = Field([], max_length=MOST_TALK)
    lorebook: Lorebook = Lorebook()
    output_rules: list[OutputRule] = Field([], max_length=MOST_RULES)

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if not is_stored(info) and (problem := next(iter(self.problems()), None)):
            raise ValueError(problem[1])
        return self

    def problems(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Return the faults of fields that do not fit together, each with the place of the
        field."""
        return [*self._problems_of_places(), *self._problems_of_people()]

    def _problems_of_places(self) -> Iterator[Problem]:
        forms: set[str] = set()
        for at, place in enumerate(self.places):
            form = normalized(place.name)
            if not form or form in forms:
                why = "two places have this name" if form else _NO_NAME
                yield ("places", at, "name"), why
            forms.add(form)
        for at, place in enumerate(self.places):
            for which, way in enumerate(place.ways):
                if normalized(way) not in forms:
                    yield ("places", at, "ways", which), f"no place is called “{way}”"
        # A place that is only named becomes a place of the world too.
        if self.starting_place and not normalized(self.starting_place):
            yield ("starting_place",), _NO_NAME
        for at, one in enumerate(self.people):
            if one.location and not normalized(one.location):
                yield ("people", at, "location"), _NO_NAME

    def _problems_of_people(self) -> Iterator[Problem]:
        players = [at for at, one in enumerate(self.people) if one.is_player]
        for at in players[1:]:
            yield ("people", at, "is_player"), "only one of the people can be the player"
        named: list[Problem] = [
            (("people", at, "name"), one.name) for at, one in enumerate(self.people)
        ]
        if not players:
            named.append((("persona", "name"), self.persona.name))
        owners: _Owners = {}
        yield from _problems_of_names(named, owners)
        yield from _problems_of_aliases(self.people, owners)

    @property
    def player(self) -> PersonSetup | None:
        """The person of the list who is the player, or None if the persona is."""
        return next((one for one in self.people if one.is_player), None)

    @property
    def first_place(self) -> str:
        """The place where the player starts."""
        listed = self.places[0].name if self.places else ""
        at = self.player.location if self.player else ""
        return at or self.starting_place or listed or START

    @property
    def premise(self) -> str:
        """The first paragraph of the description."""
        return self.description.strip().split("\n\n")[0]

    def named_places(self) -> list[str]:
        """Return the names of all places, once each: the places of the list, and then the places
        that are only named."""
        names = [one.name for one in self.places]
        names += [self.first_place, *(one.location for one in self.people if one.location)]
        names += [self.starting_place] if self.starting_place else []
        by_form: dict[str, str] = {}
        for name in names:
            by_form.setdefault(normalized(name), name)
        return list(by_form.values())


def follow_new_names(before: dict[str, Any], now: dict[str, Any]) -> None:
    """If only the names of places or people have changed, change the fields that name them in the
    same way."""
    places, people = (_new_names(before[key], now[key]) for key in ("places", "people"))
    for place in now["places"]:
        ways = lines_of(place.get("ways", []))
        if isinstance(ways, list):
            place["ways"] = [places.get(way, way) for way in ways]
    for one in now["people"]:
        one["location"] = places.get(one["location"], one["location"])
        for tie in one.get("relationships", []):
            tie["name"] = people.get(tie["name"], tie["name"])
        for fact in one.get("knowledge", []):
            teller = fact.get("source_character", "")
            fact["source_character"] = people.get(teller, teller)
    now["starting_place"] = places.get(now["starting_place"], now["starting_place"])


def _new_names(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> dict[str, str]:
    """Map the old names of the entries to the new names, if no entry was added or removed."""
    if len(before) != len(now):
        return {}
    names = ((old["name"], new["name"].strip()) for old, new in zip(before, now, strict=True))
    return {old: new for old, new in names if old != new}


def check_exploration(chapter: Session) -> None:
    """Raise WrongState for a chapter of another way to play."""
    if mode_of(chapter).setup.fields is not Exploration:
        raise WrongState("This chapter is no exploration, so it has no world. Nothing was changed.")


def exploration_of(chapter: Session) -> Exploration:
    """Return the chapter's scenario. Raises WrongState for a chapter of another way to play, and
    BadSetup for stored fields that do not fit."""
    check_exploration(chapter)
    setup = setup_of(chapter)
    assert isinstance(setup, Exploration)
    return setup


def setup_for(subject: Subject) -> Exploration:
    """Return the scenario for a request. It is read once for all layers of the request."""
    setup: Exploration | None = subject.worked_out.get(_SETUP)
    if setup is None:
        setup = subject.worked_out[_SETUP] = exploration_of(subject.chapter)
    return setup


def opening_of(chapter: Session) -> str:
    return exploration_of(chapter).opening.strip()


def beginning_of(chapter: Session) -> Beginning | None:
    """Return the premise and the suggested first deeds. Return None once more than the opening was
    told, or if the scenario has neither an opening nor deeds."""
    setup = exploration_of(chapter)
    opening, deeds = setup.opening.strip(), [one for one in setup.deeds if one]
    is_at_first = chapter.prompt_index == (1 if opening else 0)
    return Beginning(setup.premise, deeds) if is_at_first and (opening or deeds) else None


def title_in(setup: Exploration) -> str:
    return setup.title


def title_of(chapter: Session) -> str:
    """Return the title of the scenario, or else the title of the chapter, or ""."""
    named = "" if chapter.is_untitled else chapter.title
    return exploration_of(chapter).title or named


def are_namesakes(one: str, other: str) -> bool:
    """Return whether two people cannot have these names, because a reader or the world would take
    one for the other."""
    forms = {normalized(one), normalized(other)}
    return person_as_read(one) == person_as_read(other) or (len(forms) == 1 and forms != {""})


def _problems_of_names(named: Sequence[Problem], owners: _Owners) -> Iterator[Problem]:
    """Yield the faults of names that nobody can have. `names` has pairs of a place and a name. The
    forms of all names are added to `owners`."""
    taken: dict[str, Character] = {}
    for where, name in named:
        # Names are held to the rules of Tab 1, so that nobody is taken for somebody else, and also
        # to the rules by which the world finds people.
        reading, form = person_as_read(name), normalized(name)
        if problem := _problem_of(taken.get(reading), name):
            yield where, problem
        elif ("world", form) in owners:
            yield where, f"somebody else is called “{name}”, articles and case aside"
        taken[reading] = character(0, name)
        _own(owners, reading, form, where[1])


def _problems_of_aliases(people: Sequence[PersonSetup], owners: _Owners) -> Iterator[Problem]:
    """Yield the faults of aliases that are also a name or an alias of somebody else."""
    for at, one in enumerate(people):
        for number, alias in enumerate(one.aliases):
            if not _own(owners, person_as_read(alias), normalized(alias), at):
                why = f"somebody else is called “{alias}” already"
                yield ("people", at, "aliases", number), why


def _own(owners: _Owners, reading: str, form: str, owner: int | str) -> bool:
    """Let the owner have these forms of a name, and return whether nobody else has one of them."""
    forms = [one for one in (("reader", reading), ("world", form)) if one[1]]
    return all([owners.setdefault(one, owner) == owner for one in forms])


def _problem_of(namesake: Character | None, name: str) -> str:
    """Return the reason why nobody can have the name, or "". `namesake` is another person whom a
    reader would take for the same person."""
    try:
        clean_person([namesake] if namesake else [], name=name)
    except ChapterError as error:
        return str(error)
    return ""
