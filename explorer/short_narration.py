"""The narration of two or three sentences that the embedded model tells: its request and its
grammar.

The program has decided everything before: who moves, whom the player meets, whom the words address,
and whether this person tells a fact. The model only finds the words, and in English it only chooses
among sentences (explorer.short_grammar).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.prompting.layer_sources import prompt_file
from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.prompting.small_forms import SmallForm, examples, plain
from explorer.deeds import asked_along
from explorer.descriptions import things_here, told_conditions, told_thing
from explorer.played_world import WORLD, world_for
from explorer.setup import Exploration, exploration_of
from explorer.short_grammar import (
    Shape,
    as_within,
    faults_in,
    grammar_in_english,
    grammar_of_script,
    kind_of,
    replaced,
    to_the_player,
    wish_of,
)
from explorer.short_sights import LINES, Sights, called, sentences_of, terms_of_things
from explorer.state import in_short
from explorer.stretch import told_stretch
from sessions.language.sentences import outside_of_speech, speech_in, split_speech
from sessions.language.stop_words import ENGLISH
from sessions.language.words import language_of, terms_of, words_of
from sessions.models import Attempt, Event
from sessions.play.played_world import turns_before
from sessions.record.chosen_events import chosen_events
from world.changes import MET
from world.names import parts_of
from world.state import Known, Person, World

OUTPUT_TOKENS, TEMPERATURE, MOST_TRIES = 250, 0.5, 3
# How many turns back the program looks for words that a text repeats, and for somebody who looks at
# something.
_MOST_TURNS, _LATELY = 40, 5
_MOST_CHARACTERS = 400
_SPEAKS = re.compile(
    r"\b(?:ask|tell|say|answer|greet|thank|whisper|call|shout|beg|warn|promise|offer|talk|speak"
    r"|reply)\b",
    re.IGNORECASE,
)
_SILENT = re.compile(
    r"\b(?:\w+ (?:nothing|no)\b|(?:not|without|n't) \w+|for \w+ to \w+)", re.IGNORECASE
)
_ASKS = re.compile(r"\?|\bask\b", re.IGNORECASE)
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
    """The program's decisions about a turn. `is_new_place` says that nothing was told at this place
    yet. `earlier` are the texts of the turns before, `words_here` the player's words in those turns
    at this place, and `asked_before` the player's words in those turns to the person who is spoken
    to now."""

    setup: Exploration
    world: World
    words: str
    has_arrived: bool = False
    met: str = ""
    spoken_to: str = ""
    asked_before: Sequence[str] = ()
    words_here: Sequence[str] = ()
    is_new_place: bool = False
    earlier: Sequence[str] = ()

    @property
    def speaker(self) -> Person | None:
        """The person who speaks in the narration: the person whom the player meets, speaks to or
        names, or else the person here of whom nothing was told for the longest time."""
        told, named = "\n".join(self.earlier), set(words_of(outside_of_speech(self.words)))
        here = sorted(self.world.present(), key=lambda one: told.rfind(one.name))
        here.sort(key=lambda one: not parts_of(one.name) & named)
        name = self.met or self.spoken_to
        return self.world.people.get(name) or next(iter(here), None)

    @property
    def answer(self) -> tuple[str, Sequence[Known]]:
        """How the speaker responds to the words, and the facts that he or she tells.

        The speaker tells a kept fact when the player asks for it once more, when the player or
        somebody here has a thing that the fact is about, or when the speaker is in some condition,
        such as a wound.
        """
        one = self.speaker
        if self.met or one is None or one.name != self.spoken_to:
            player = self.world.player
            came = one and player and one.arrived_at == player.arrived_at
            unasked = "receives" if self.has_arrived and not came else "remarks"
            return "meets" if self.met else unasked, ()
        told = "\n".join(self.earlier)
        if about := facts_about(one, self.words):
            asked = {fact for words in self.asked_before for fact in facts_about(one, words)}
            found = " ".join(told_thing(thing) for thing in things_here(self.world))
            earned = asked | set(facts_about(one, found)) | set(about if one.conditions else ())
            known = [fact for fact in about if fact in earned or not fact.is_kept]
            # The first word may be told as "he" or "she".
            tails = {fact: to_the_player(fact.content).partition(" ")[2] for fact in known}
            new = [fact for fact in known if tails[fact] not in told]
            return ("tells", new[-1:]) if new else ("has told" if known else "keeps", ())
        if one.name in asked_along(self.words, self.world):
            return "along", ()
        if not _ASKS.search(self.words):
            words, ways = self.words.casefold(), LINES["taken"].items()
            return next((way for way, form in ways if re.search(form, words)), "replies"), ()
        asks, said = LINES["asked"], speech_in(self.words)
        outside = outside_of_speech(self.words)
        if not (re.search(asks["you"], said) or re.search(asks["them"], outside)):
            return "knows not", ()
        wish = wish_of(one.goals) if re.search(asks["wants"], self.words) else ""
        return ("keeps" if not wish else "has told" if wish in told else "wants"), ()


def facts_about(one: Person, words: str) -> list[Known]:
    """Return the facts of this person that the words are about."""
    own = set(terms_of(one.name))
    asked = set(terms_of(speech_in(words) or _SPEAKS.sub(" ", words))) - own
    return [fact for fact in one.knowledge if asked & (set(terms_of(fact.content)) - own)]


def whom_the_words_speak_to(words: str, here: Sequence[Person], last: str) -> str:
    """Return the name of the person, among these people, whom the words address, or "". `last` is
    the person whom the previous words addressed."""
    if not (speech_in(words) or _SPEAKS.search(_SILENT.sub(" ", words))):
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
    """Return the program's decisions about the attempt's turn. `world` is given for an attempt that
    is not stored: it is the world as it would be when the attempt is answered."""
    before = WORLD.of(attempt)
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
    places = {moments[number].place for number in told}
    return Telling(
        exploration_of(attempt.session),
        world,
        attempt.words,
        has_arrived=moments[last - 1].place != world.player_location,
        met=next(iter(met), ""),
        spoken_to=name,
        asked_before=[words[number] for number in words if name and spoken_to[number] == name],
        words_here=[words[one] for one in words if moments[one].place == world.player_location],
        is_new_place=world.player_location not in places,
        earlier=list(told.values()),
    )


def _told_before(attempt: Attempt, last: int) -> dict[int, str]:
    """Return the texts that were told in the turns before, by the numbers of the turns."""
    events = chosen_events(attempt.session, to_prompt=last - 1)
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
    if telling.has_arrived and not told.startswith("You"):
        told = f"You come to {telling.world.player_location}. {told}".strip()
    return f"Now: {told or 'You wait and watch.'}"


def _as_you(words: str) -> str:
    """Return the player's words with "you" for "I", outside of speech."""
    parts = split_speech(words.strip())
    for at in range(0, len(parts), 2):
        parts[at] = replaced(parts[at], _AS_YOU)
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
    """Return the grammar of this narration, or "" if the program does not know the script of the
    story."""
    shape = shape_of(telling)
    if language := _other_language(telling.setup):
        return grammar_of_script(shape, language)
    return grammar_in_english(shape)


def shape_of(telling: Telling) -> Shape:
    world, speaker = telling.world, telling.speaker
    here = world.places.get(world.player_location)
    answer, facts = telling.answer
    is_addressed = speaker is not None and speaker.name == telling.spoken_to
    return Shape(
        speaker.name if speaker else "",
        speaker.pronouns.split("/")[0].casefold() if speaker else "",
        answer,
        begins=not is_addressed or answer == "meets" or telling.is_new_place,
        words=telling.words,
        told="\n".join(telling.earlier),
        lately="\n".join(telling.earlier[-_LATELY:]),
        about=speaker.description if speaker else "",
        place=here.name if here else "",
        sights=sights_of(telling),
        has_arrived=telling.has_arrived,
        was_here=not telling.is_new_place,
        fact=in_short(facts[0].content, _MOST_CHARACTERS) if facts else "",
        goals=speaker.goals if speaker else "",
        time=_uncapitalised(world.narrative_time),
    )


def sights_of(telling: Telling) -> Sights:
    """Return the sights of the player's place and the player's memories, in the world's words."""
    world, words = telling.world, set(words_of(outside_of_speech(telling.words)))
    here, player = world.places.get(world.player_location), world.player
    conditions = here.conditions if here else ()
    now = [f"Something has changed here: {one.text.rstrip('.')}." for one in conditions]
    for thing in things_here(world):
        how = "; ".join(part.rstrip(".") for part in (thing.state, thing.description) if part)
        whose = f"{thing.holder} has" if thing.holder in world.people else "You see"
        now.append(f"{whose} {as_within(thing.name)}{f': {how}' if how else ''}.")
    known = player.knowledge if player else ()
    asked = [f"You remember: {fact.content.rstrip('.')}." for fact in known]
    for one in world.present():
        if parts_of(one.name) & words:
            told = sentences_of(one.description)
            asked += told[1:] if called(one.description) else told
            asked += [f"You see how it is with {one.name}: {of.text}." for of in one.conditions]
    changed = [one for one in telling.words_here if kind_of(one) in ("deed", "try", "open")]
    return Sights(
        [in_short(one, _MOST_CHARACTERS) for one in sentences_of(here.description)] if here else (),
        now,
        asked,
        terms_of_things(one for one in changed if not _SPEAKS.search(one)),
        "\n".join(telling.earlier),
    )


def _other_language(setup: Exploration) -> str:
    """Return text in the story's language if this is not English, else ""."""
    last = setup.description.strip().split("\n\n")[-1]
    given = "\n".join((last, *(one.description for one in setup.people)))
    return "" if language_of([given]) == ENGLISH else given


def faults(attempt: Attempt, text: str) -> list[str]:
    # In English, the grammar allows no text with a fault.
    is_english = not _other_language(exploration_of(attempt.session))
    return [] if is_english else faults_of(telling_of(attempt), text)


def faults_of(telling: Telling, text: str) -> list[str]:
    people, here = telling.world.people.values(), telling.world.present()
    absent = [one.name for one in people if not one.is_player and one not in here]
    earlier = telling.earlier[-_MOST_TURNS:]
    return faults_in(text, words=telling.words, absent=absent, earlier=earlier)


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
        "people and things in it, and your new words. It hears neither your words before them nor "
        "a text that was told."
    ),
)
