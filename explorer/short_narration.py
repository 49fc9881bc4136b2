"""The narration of two or three sentences that the embedded model tells: what it is given, and with
which grammar.

The program has decided everything before: who moves, who is met, whom the words speak to, and
whether this person tells what he or she knows. The model only finds the words.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.modes.registry import world_of
from agents.prompting.layer_sources import prompt_file
from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.prompting.small_forms import SmallForm, examples, plain
from explorer.descriptions import things_here, told_conditions, told_thing
from explorer.setup import Exploration, exploration_of
from explorer.short_grammar import (
    Answer,
    Shape,
    faults_in,
    grammar_in_english,
    grammar_of_script,
    outside_of_speech,
    speech_in,
    things_in,
)
from explorer.state import in_short, world_for
from explorer.stretch import told_stretch
from sessions.language.stop_words import ENGLISH
from sessions.language.words import language_of, terms_of
from sessions.models import Attempt, Event
from sessions.play.played_world import turns_before
from sessions.record.chosen_events import chosen_events
from world.changes import MET
from world.names import parts_of
from world.state import Known, Person, World

OUTPUT_TOKENS, TEMPERATURE, MOST_TRIES = 110, 0.5, 3
# How many turns back the program looks for sentences that are told again.
_MOST_TURNS = 40
# Of how many turns the acts and the beginnings of answers are not taken again.
_MOST_LATELY = 6
_MOST_CHARACTERS = 400
_SPEAKS = re.compile(
    r"\b(?:ask|tell|say|answer|greet|thank|whisper|call|shout|beg|warn|promise|offer|talk|speak"
    r"|reply)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\?|\bask\b", re.IGNORECASE)
_OF_ONESELF = re.compile(r"\b(?:you|your|yourself)\b", re.IGNORECASE)
_OF_THEMSELVES = re.compile(r"\b(?:he|she|they)\b", re.IGNORECASE)
_NAMES = re.compile(r"(?<=[a-z,;] )[^\W\d_a-z][\w']+(?: [^\W\d_a-z][\w']+)*")
_AS_YOU = (
    (r"\bI am\b|\bI'm\b", "you are"),
    (r"\bI was\b", "you were"),
    (r"\bI\b|\bme\b", "you"),
    (r"\bmy\b", "your"),
    (r"\bmyself\b", "yourself"),
    (r"\bmine\b", "yours"),
)
_EXAMPLES = [
    (question.strip(), answer.strip())
    for question, _, answer in (
        pair.partition("\n>\n")
        for pair in (Path(__file__).parent / "prompts" / "short_examples.md")
        .read_text(encoding="utf-8")
        .split("\n===\n")
    )
]


@dataclass(frozen=True)
class Telling:
    """What the program has decided of a turn. `before` are the player's last words at this place,
    because a small model copies what was told after them. `is_new_place` says that nothing was told
    here yet. `earlier` is what was told in the turns before, and `asked_before` what the player
    said in them to whoever is spoken to now."""

    setup: Exploration
    world: World
    words: str
    has_arrived: bool = False
    met: str = ""
    spoken_to: str = ""
    asked_before: Sequence[str] = ()
    before: str = ""
    is_new_place: bool = False
    earlier: Sequence[str] = ()

    @property
    def speaker(self) -> Person | None:
        """Whoever speaks in the narration: whom the player meets or speaks to, or whoever here has
        not been told of for longest."""
        told = "\n".join(self.earlier)
        here = sorted(self.world.present(), key=lambda one: told.rfind(one.name))
        name = self.met or self.spoken_to
        return self.world.people.get(name) or next(iter(here), None)

    @property
    def answer(self) -> tuple[Answer, Sequence[Known]]:
        """How the speaker takes the words, and the facts that he or she tells.

        What somebody keeps is told when the same is asked once more, when somebody here or the
        player has a thing that it is about, or when this person is hurt or otherwise not as usual.
        """
        one = self.speaker
        if one is None or one.name != self.spoken_to:
            return ("meets" if self.met else "remarks"), ()
        if about := facts_about(one, self.words):
            asked = {fact for words in self.asked_before for fact in facts_about(one, words)}
            found = " ".join(told_thing(thing) for thing in things_here(self.world))
            earned = asked | set(facts_about(one, found)) | set(about if one.conditions else ())
            known = [fact for fact in about if fact in earned or not fact.is_kept]
            new = [fact for fact in known if fact.content not in "\n".join(self.earlier)]
            return ("tells", new[-1:]) if new else ("has told" if known else "keeps", ())
        if not _ASKS.search(self.words):
            return "replies", ()
        of_oneself = _OF_ONESELF.search(speech_in(self.words)) or _OF_THEMSELVES.search(
            outside_of_speech(self.words)
        )
        return ("wants" if of_oneself and one.goals else "knows not"), ()


def facts_about(one: Person, words: str) -> list[Known]:
    """Return the facts that this person knows and the words are about."""
    own = set(terms_of(one.name))
    asked = set(terms_of(words)) - own
    return [fact for fact in one.knowledge if asked & (set(terms_of(fact.content)) - own)]


def whom_the_words_speak_to(words: str, here: Sequence[Person], last: str) -> str:
    """Return the name of the one of these people to whom the words speak, or "". `last` is to whom
    the words before spoke."""
    if not (speech_in(words) or _SPEAKS.search(words)):
        return ""
    said = re.findall(r"[^\W\d_]+", words.casefold())

    def place(one: Person) -> int:
        parts = {part for name in (one.name, *one.aliases) for part in parts_of(name)}
        return next((at for at, word in enumerate(said) if word in parts), len(said))

    named = min(here, key=place, default=None)
    if named is None or place(named) < len(said):
        return named.name if named else ""
    return last if any(one.name == last for one in here) else here[0].name if len(here) == 1 else ""


def telling_of(attempt: Attempt, world: World | None = None) -> Telling:
    """Return what the program has decided of the attempt's turn. `world` is the one in which an
    attempt that is not stored would be answered, if it is not that before the attempt."""
    before = world_of(attempt)
    world = before if world is None else world
    last = attempt.turn.number if attempt.turn else attempt.session.prompt_index + 1
    moments = told_stretch(attempt, 1).moments
    words = dict(turns_before(attempt).values_list("number", "chosen__words"))
    spoken_to: dict[int, str] = {0: ""}
    for number in sorted(words):
        there = [world.people[name] for name in moments[number].there if name in world.people]
        others = [one for one in there if not one.is_player]
        spoken_to[number] = whom_the_words_speak_to(
            words[number], others, spoken_to.get(number - 1, "")
        )
    name = whom_the_words_speak_to(attempt.words, world.present(), spoken_to.get(last - 1, ""))
    found = attempt.changes.filter(run_id=attempt.run_id, kind=MET)
    met = [payload["name"] for payload in found.values_list("payload", flat=True)]
    known = {one.name for one in before.people.values() if one.is_discovered}
    met += [one.name for one in world.present() if one.name not in known]
    told = _told_before(attempt, last)
    here = [number for number in told if moments[number].place == world.player_location]
    return Telling(
        exploration_of(attempt.session),
        world,
        attempt.words,
        has_arrived=moments[last - 1].place != world.player_location,
        met=next(iter(met), ""),
        spoken_to=name,
        asked_before=[words[number] for number in words if name and spoken_to[number] == name],
        before=words.get(here[-1], "") if here else "",
        is_new_place=not here,
        earlier=list(told.values()),
    )


def _told_before(attempt: Attempt, last: int) -> dict[int, str]:
    """Return what was told in the turns before, by their numbers."""
    events = chosen_events(attempt.session, from_prompt=last - _MOST_TURNS, to_prompt=last - 1)
    told: dict[int, str] = {}
    for event in events.filter(role=Event.Role.AGENT):
        told[event.prompt_index] = f"{told.get(event.prompt_index, '')} {event.text}".strip()
    return told


def told_setting(telling: Telling) -> str:
    return telling.setup.description.strip().split("\n\n")[-1]


def told_place_and_people(telling: Telling) -> str:
    world = telling.world
    here = world.places.get(world.player_location)
    time = _uncapitalised(world.narrative_time)
    lines = [", ".join(filter(None, (here.name if here else "Somewhere", time))) + "."]
    if here:
        lines[0] += f" {in_short(here.description, _MOST_CHARACTERS)}"
        lines[0] += f" Now: {told_conditions(here.conditions)}." if here.conditions else ""
    others = [one for one in world.present() if one.name != telling.met]
    speaker = telling.speaker
    others.sort(key=lambda one: speaker is None or one.name != speaker.name)
    told = [_who(others[0], telling) if others[0] is speaker else others[0].name] if others else []
    lines.append(f"Here: {told[0] if told else 'nobody'}.")
    lines[1] += f" Also here: {', '.join(one.name for one in others[1:])}." if others[1:] else ""
    lines[1] += f" Now you meet {_who(world.people[telling.met], telling)}." if telling.met else ""
    if things := [told_thing(one) for one in things_here(world)]:
        lines.append(f"Things here: {in_short('; '.join(things), _MOST_CHARACTERS)}.")
    if world.player and world.player.conditions:
        lines.append(f"You: {told_conditions(world.player.conditions)}.")
    if telling.before:
        lines.append(f"Before: {_as_you(telling.before)}")
    return "\n".join(lines)


def _who(one: Person, telling: Telling) -> str:
    pronouns = f" ({one.pronouns})" if one.pronouns else ""
    about = _uncapitalised(in_short(one.description, _MOST_CHARACTERS).rstrip("."))
    answer, facts = telling.answer
    own = [f"wants: {_uncapitalised(one.goals.rstrip('.'))}"] if one.goals else []
    own += [told_conditions(one.conditions)] if one.conditions else []
    if answer == "tells":
        own += [f"answers: {'; '.join(fact.content.rstrip('.') for fact in facts)}"]
    own += {"keeps": ["will not answer that yet"], "knows not": ["does not know it"]}.get(
        answer, []
    )
    told = f"{one.name}{pronouns}, {about}".rstrip(", ")
    return f"{told} ({'; '.join(own)})" if own else told


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def told_words(telling: Telling) -> str:
    told = _as_you(telling.words)
    if telling.has_arrived and _OF_ONESELF.match(told) is None:
        told = f"You come to {telling.world.player_location}. {told}".strip()
    return f"Now: {told or 'You wait and watch.'}"


def _as_you(words: str) -> str:
    """Return the player's words with "you" for "I", outside of speech."""
    parts = re.split('("[^"]*"?|\u201c[^\u201d]*\u201d?)', words.strip())
    for at in range(0, len(parts), 2):
        for was, now in _AS_YOU:
            parts[at] = re.sub(was, now, parts[at])
    told = "".join(parts).strip()
    if told and speech_in(told) == told:
        told = f"You say: {told}"
    return told[:1].upper() + told[1:]


def _layer(name: str, tell: Callable[[Telling], str]) -> LayerDeclaration:
    def source(subject: Subject, tier: Tier) -> list[Piece]:
        telling: Telling | None = subject.worked_out.get("explorer.telling")
        if telling is None and subject.attempt is not None:
            telling = telling_of(subject.attempt, world_for(subject))
            subject.worked_out["explorer.telling"] = telling
        return [Piece(tell(telling))] if telling else []

    return plain(name, source)


def grammar(attempt: Attempt) -> str:
    return grammar_for(telling_of(attempt))


def grammar_for(telling: Telling) -> str:
    """Return the grammar of this narration, or "" if the story has no script that is known."""
    world, speaker = telling.world, telling.speaker
    answer, facts = telling.answer
    shape = Shape(
        speaker.name if speaker else "",
        speaker.pronouns if speaker else "",
        answer,
        begins=speaker is None or speaker.name != telling.spoken_to,
        things=_things(telling),
        told_lately="\n".join(telling.earlier[-_MOST_LATELY:]),
        first_sight=_first_sight(telling),
        fact=in_short(facts[0].content, _MOST_CHARACTERS) if facts else "",
        **dict(zip(("names", "narrated"), _names(telling), strict=True)),
    )
    given = "\n".join((told_setting(telling), *(one.description for one in world.people.values())))
    if language_of([given]) == ENGLISH:
        return grammar_in_english(shape)
    return grammar_of_script(shape, given)


def _first_sight(telling: Telling) -> str:
    """Return how the player finds a place that no text has told yet, in the scenario's words."""
    here = telling.world.places.get(telling.world.player_location)
    if here is None or not telling.is_new_place:
        return ""
    return in_short(here.description, _MOST_CHARACTERS)


def _things(telling: Telling) -> list[str]:
    here = telling.world.places.get(telling.world.player_location)
    names = [one.name.casefold() for one in things_here(telling.world)]
    return things_in(here.description if here else "", outside_of_speech(telling.words), *names)


def _names(telling: Telling) -> tuple[list[str], list[str]]:
    """Return the names of the request that may stand in speech, and those that may stand outside of
    it: nobody calls those present, and nothing else is told of those who are not."""
    world = telling.world
    here = {part for one in world.present() for part in (one.name, *one.name.split())}
    known = {
        part
        for one in world.people.values()
        if one.is_discovered and not one.is_player
        for part in (one.name, *one.name.split())
        if not part[:1].islower()
    }
    inside = set(_NAMES.findall(f"{told_setting(telling)} {told_place_and_people(telling)}"))
    large = (inside | known | set(world.places)) - {"The", "I", "Now", "Here"}
    elsewhere = set(world.places) - {world.player_location}
    return sorted(large - here), sorted(large - (known - here) - elsewhere)


def faults(attempt: Attempt, text: str) -> list[str]:
    return faults_of(telling_of(attempt), text)


def faults_of(telling: Telling, text: str) -> list[str]:
    people = telling.world.people.values()
    here = telling.world.present()
    return faults_in(
        text,
        given="\n".join((told_setting(telling), told_place_and_people(telling), telling.words)),
        words=telling.words,
        absent=[one.name for one in people if not one.is_player and one not in here],
        pronouns=[one.pronouns for one in here],
        copied=[answer for _, answer in _EXAMPLES],
        earlier=telling.earlier,
    )


SMALL_NARRATION = SmallForm(
    (
        plain("SYSTEM", prompt_file("explorer.short_role"), "system"),
        *examples(*_EXAMPLES),
        _layer("SCENARIO", told_setting),
        _layer("WORLD_NOW", told_place_and_people),
        _layer("PLAYERS_WORDS", told_words),
        plain("HOW_TO_ANSWER", prompt_file("explorer.short_question")),
    ),
    output_tokens=OUTPUT_TOKENS,
    grammar=grammar,
    faults=faults,
    most_tries=MOST_TRIES,
    temperature=TEMPERATURE,
    hears=(
        "The small model hears little: the last paragraph of the scenario, the place with the "
        "people and things in it, your last words there and your new ones. It hears no text that "
        "was told before."
    ),
)
