"""The grammar that keeps a short narration to the turn, and the faults of a text.

A model as small as this lets people die, invents strangers, tells secrets and changes facts. So in
English it only chooses: the grammar has nothing but sentences that are true in any world
(explorer/prompts/short_lines.toml), with the things and wishes of the world in their gaps, and the
world's own sentences. In other languages the grammar fixes only the shape.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from agents.prompting.letters import letters_of
from sessions.language.sentences import split_sentences
from sessions.language.stop_words import ENGLISH, STOP_WORDS
from sessions.language.words import terms_of, words_of
from world.names import parts_of

LINES = tomllib.loads(
    (Path(__file__).parent / "prompts" / "short_lines.toml").read_text(encoding="utf-8")
)
_POSSESSIVES = {"he": "his", "she": "her", "they": "their"}
_ENDS = (
    r"(?=[.,;:!?]|$| (?:that|who|which|where|on|in|with|under|over|and|to|from|by|at|is|are"
    r"|stands?|hangs?|goes|beside|behind|before|above|without|through|until|will|has|half)\b)"
)
_NO_THINGS = frozenset(LINES["unseen"]["words"].split()) | STOP_WORDS[ENGLISH]
_THING = re.compile(
    rf"\b(?:[Aa]n?|[Oo]ne|[Tt]he|[Ii]ts) ((?:[a-z-]+ ){{0,2}}?)([a-z]{{3,}}){_ENDS}"
)
_SIGHT = re.compile(
    r"(?:an?|one|two|three|four|five|six|seven|ten|twelve|twenty|forty) (?!of\b)"
    r"((?:[\w'-]+ ){0,3}?[\w'-]+)"
    r"(?: (?:of|with|in|over|under|to|on|from|for|behind|above|at|by|without|full|that|who)\b.*)?",
    re.IGNORECASE,
)
_SPOKEN = re.compile('"[^"]*"?|\u201c[^\u201d]*\u201d?|\u201e[^\u201c\u201d]*[\u201c\u201d]?')
_AS_I = (
    (r"\b(?:his|their)\b|\bher\b(?= \w)(?! (?:here|to|from|by|and|in|at|for)\b)", "my"),
    (r"\b(?:him|her|them)self\b", "myself"),
    (r"\b(?:he|she) is\b", "I am"),
    (r"\b(?:he|she) has\b", "I have"),
    (r"\b(?:he|she)\b", "I"),
    (r"\b(?:him|her)\b", "me"),
)
# The longest run of words of a text that may also stand in an earlier text.
_SAME_WORDS = 4


@dataclass(frozen=True)
class Shape:
    """The parts of which the grammar of a turn is made. `speaker` is the name of the person who
    speaks, with a `pronoun`, or "" if nobody is there.

    `answer` is how the speaker responds to the words: the name of a list of lines, or "tells" for a
    `fact`. `begins` says that a sentence about the place or the deed comes first. `first_sight` is
    this sentence, if the place was not described yet. `words` are the player's words. `told` are
    the texts so far.
    """

    speaker: str
    pronoun: str
    answer: str
    begins: bool
    words: str
    told: str
    place: str = ""
    description: str = ""
    has_arrived: bool = False
    first_sight: str = ""
    fact: str = ""
    goals: str = ""
    time: str = ""

    @property
    def tells(self) -> str:
        """The sentence that tells the fact."""
        who = self.pronoun if self.pronoun in _POSSESSIVES else self.speaker
        told = to_the_player(self.fact)
        first, _, rest = told.partition(" ")
        if who in ("he", "she") and first in self.speaker.split():
            told = f"{who} {rest}"
        return f"{who[:1].upper()}{who[1:]} {'tell' if who == 'they' else 'tells'} you: {told}"


def to_the_player(fact: str) -> str:
    return re.sub(r"\b[Tt]he player('s)?", lambda one: "your" if one[1] else "you", fact)


def replaced(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for was, now in pairs:
        text = re.sub(was, now, text)
    return text


def outside_of_speech(text: str) -> str:
    return _SPOKEN.sub(" ", text)


def speech_in(text: str) -> str:
    return " ".join(_SPOKEN.findall(text))


def wish_of(goals: str) -> str:
    """Return the first of a person's goals as this person says it after "I want to", or ""."""
    goal = re.split(r"(?:[.;]|, and to\b)", goals.strip())[0]
    return replaced(goal[3:], _AS_I) if re.match(r"[Tt]o \w", goal) else ""


def things_in(text: str) -> list[str]:
    """Return the nouns of things that a text names."""
    return [
        noun
        for before, noun in dict.fromkeys(_THING.findall(text))
        if not {noun, *before.split()} & _NO_THINGS and not noun.endswith(("ly", "ing"))
    ]


def sights_in(description: str) -> list[str]:
    """Return the entries of lists in the description that name something and have no verb."""
    found = []
    lists = (re.split(r"[;,]\s*", one.strip(" .!?")) for one in split_sentences(description))
    # Two parts that are joined by "and" are clauses.
    lists = (one for one in lists if len(one) > 1 + one[-1].startswith("and "))
    for part in (part for parts in lists for part in parts):
        match = _SIGHT.fullmatch(part.removeprefix("and ").strip())
        # A single thing may be a whole sentence if one of its words ends like a verb.
        is_seen = match and match[1].split()[-1] not in _NO_THINGS
        if match and is_seen and not re.search(r"[^s]s$|\b(?:is|has|was)\b", match[1]):
            found.append(match[0][:1].lower() + match[0][1:])
    return found


def grammar_in_english(shape: Shape) -> str:
    """Return the grammar (GBNF) of a text of two or three sentences."""
    parts = (choice_of([one.split() for one in part]) for part in parts_in_english(shape))
    return "root ::= " + ' " " '.join(f"({part})" for part in parts)


def parts_in_english(shape: Shape) -> list[list[str]]:
    """Return the possible sentences for each part of the text: the result of the player's deed or
    what is seen, the deed of the speaker, and the words of the speaker."""
    first = [shape.first_sight] if shape.first_sight else _first(shape)
    if not shape.speaker:
        return [first] if shape.first_sight else [first, _seen(shape, first) or _of("still", shape)]
    said = [] if shape.fact else LINES["said"][shape.answer]
    says = [f'"{one}"' for one in _filled(said, shape, _things_meant(shape))]
    says = [shape.tells] if shape.fact else says
    return [*([first] if shape.begins else []), _acts(shape), says]


def _first(shape: Shape) -> list[str]:
    """Return the possible first sentences, which tell the result of the deed or what is seen."""
    if shape.answer == "meets":
        return _of("finds", shape)
    if shape.has_arrived:
        return _of("arrives", shape)
    if not shape.speaker and speech_in(shape.words):
        return _of("unanswered", shape)
    deed = outside_of_speech(shape.words)
    kind = next((name for name, form in LINES["deeds"].items() if re.search(form, deed)), "deed")
    seen, found = _seen(shape), _of(kind, shape)
    if kind == "look":
        again = _filled(LINES["told"]["again"], shape, sights=_about(_told_before(shape), deed))
        return _about(seen, deed) or again or _of("thing", shape) or [*seen, *found]
    return [*found, *seen] if kind == "wait" else found or _of("deed", shape)


def _of(kind: str, shape: Shape) -> list[str]:
    return _filled(LINES["told"][kind], shape, _things_meant(shape))


def _things_meant(shape: Shape) -> list[str]:
    return _about(things_in(shape.description), outside_of_speech(shape.words))


def _told_before(shape: Shape) -> list[str]:
    """Return the parts of the description in the form that they have in the middle of a
    sentence."""
    whole = re.findall(
        r"\b(?:A|An|The|One|Its|Half|Somebody|Nobody) [^.]+(?=\.)", shape.description
    )
    return [*sights_in(shape.description), *(one[:1].lower() + one[1:] for one in whole)]


def _seen(shape: Shape, but: Sequence[str] = ()) -> list[str]:
    """Return sentences that tell a part of the place as it was found, each part only once."""
    whole = split_sentences(shape.description)
    sights = [one for one in sights_in(shape.description) if f"{one}." not in shape.told]
    seen = [line.format(sight=one) for one in sights for line in LINES["told"]["sights"]]
    return [one for one in (*whole, *seen) if one not in shape.told and one not in but]


def _about(sentences: Iterable[str], words: str) -> list[str]:
    asked = set(terms_of(words)) - set(terms_of("look see"))
    return [one for one in sentences if asked & set(terms_of(one))]


def _acts(shape: Shape) -> list[str]:
    lines = LINES["acts"]
    acts = lines["alone"] + [
        f"{act} the {one}" for act in lines["at"] for one in things_in(shape.description)
    ]
    if own := _POSSESSIVES.get(shape.pronoun):
        acts += [one.format(own=own) for one in lines["own"]]
    return _new([f"{shape.speaker} {act}." for act in acts], shape)


def _filled(
    lines: Sequence[str], shape: Shape, things: Sequence[str] = (), sights: Sequence[str] = ()
) -> list[str]:
    """Return the lines with each possible filling of their gaps, but without lines that were told
    already."""
    about, wish = things_in(shape.words), wish_of(shape.goals)
    place = re.sub(r"^The ", "the ", shape.place)
    found = [
        line.format(thing=thing, about=topic, sight=sight, place=place, wish=wish, time=shape.time)
        for line in lines
        if shape.time or "{time}" not in line
        for thing in (things if "{thing}" in line else [""])
        for sight in (sights if "{sight}" in line else [""])
        for topic in (about if "{about}" in line else [""])
    ]
    return _new(found, shape)


def _new(texts: Sequence[str], shape: Shape) -> list[str]:
    """Return the texts that were not told yet, or all texts if none is left."""
    return [one for one in texts if one not in shape.told] or list(texts)


def choice_of(texts: Sequence[list[str]]) -> str:
    """Return the choice between these texts, each a list of words, with their common beginnings
    written once, because a grammar of long alternatives is slow."""
    ways = []
    for word, rest in groupby(sorted(texts), key=lambda one: one[0]):
        after = [one[1:] for one in rest]
        longer = [one for one in after if one]
        end = ")?" if len(longer) < len(after) else ")"
        tail = f' (" " ({choice_of(longer)}){end}' if longer else ""
        ways.append(f"{_literal(word)}{tail}")
    return " | ".join(ways)


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def grammar_of_script(shape: Shape, given: str) -> str:
    """Return a grammar that fixes only the shape of the text, in the letters of the script in which
    most of `given` is written, or "" if no grammar can hold this script."""
    letters = letters_of([given])
    if letters is None:
        return ""
    gap = f'"{letters.gap}"'
    opens, closes = _literal(letters.opens), _literal(letters.closes)
    speaks = [_literal(shape.speaker), "sentence", f"{opens} sentence {closes}"]
    told = [*(["sentence"] if shape.begins else []), *(speaks if shape.speaker else ["sentence"])]
    sentence = f"sentence ::= [{letters.within}]{{4,110}} [{letters.ends}]"
    return f"root ::= {f' {gap} '.join(told)}\n{sentence}"


def faults_in(text: str, *, words: str, absent: Iterable[str], earlier: Iterable[str]) -> list[str]:
    """Return the faults of a text of which the grammar fixed only the shape, in words that follow
    "The first answer". `absent` are the names of the people who are not there, and `earlier` are
    the texts that must not be told again."""
    told, named = words_of(text), set(words_of(outside_of_speech(text)))
    found = [f"names {one}" for one in absent if set(parts_of(one)) & named]
    runs = _runs(told)
    if runs & _runs(words_of(words)):
        found.append("repeats the player's words")
    if any(runs & _runs(words_of(one)) for one in earlier):
        found.append("repeats what was told before")
    return found


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _SAME_WORDS]) for at in range(len(words) - _SAME_WORDS + 1)}
