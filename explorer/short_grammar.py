"""The grammar that keeps a short narration to the turn, and the faults of a text.

A model as small as this lets people die, invents strangers, tells secrets and changes facts. So in
English it only chooses: the grammar has nothing but sentences that are true in any world
(explorer/prompts/short_lines.toml), with the things and wishes of the world in their gaps, and the
world's own sentences (explorer.short_sights). It has no sentence that was told before. In other
languages the grammar fixes only the shape.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, permutations

from agents.prompting.letters import letters_of
from explorer.short_sights import LINES, Sights, called, things_in, was_told
from sessions.language.sentences import outside_of_speech, speech_in
from sessions.language.words import words_of
from world.names import parts_of

_POSSESSIVES = {"he": "his", "she": "her", "they": "their"}
_GAZE = re.compile(r"\b(?:looks?|glances?|keeps an eye|watches)\b")
_AS_I = (
    (r"\b(?:his|their)\b|\bher\b(?= \w)(?! (?:here|to|from|by|and|in|at|for)\b)", "my"),
    (r"\b(?:him|her|them)self\b", "myself"),
    (r"\b(?:he|she) is\b", "I am"),
    (r"\b(?:he|she) has\b", "I have"),
    (r"\b(?:he|she)\b", "I"),
    (r"\b(?:him|her)\b", "me"),
)
# A text may repeat at most this many words in a row from an earlier text.
_SAME_WORDS = 4
# A part of a grammar has at most this many sentences, and one sentence is made of at most this many
# lines.
_MOST_WAYS, _MOST_LINES = 48, 4
# At most this many sentences of several lines are compared with the texts of the story. The limit
# bounds the time.
_MOST_TRIED = 5_000


@dataclass(frozen=True)
class Shape:
    """The parts that make up the grammar of a turn. `speaker` is the name of the person who speaks,
    with a `pronoun` and a description (`about`), or "" if nobody is there.

    `answer` is how the speaker responds to the words: the name of a list of lines, or "tells" for a
    `fact`. `begins` says that a sentence about the place or the deed comes first, and `was_here`
    that something was told at this place before. `words` are the player's words. `told` are the
    texts so far, and `lately` are the last of these texts.
    """

    speaker: str
    pronoun: str
    answer: str
    begins: bool
    words: str
    told: str
    lately: str = ""
    about: str = ""
    place: str = ""
    sights: Sights = field(default_factory=Sights)
    has_arrived: bool = False
    was_here: bool = True
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


def kind_of(words: str) -> str:
    """Return the kind of the player's deed, by its name among the kinds of deeds, or "deed"."""
    deed = outside_of_speech(words)
    return next((name for name, form in LINES["deeds"].items() if re.search(form, deed)), "deed")


def to_the_player(fact: str) -> str:
    return re.sub(r"\b[Tt]he player('s)?", lambda one: "your" if one[1] else "you", fact)


def replaced(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for was, now in pairs:
        text = re.sub(was, now, text)
    return text


def wish_of(goals: str) -> str:
    """Return the first of a person's goals as this person says it after "I want to", or ""."""
    goal = re.split(r"(?:[.;]|, and to\b)", goals.strip())[0]
    return replaced(goal[3:], _AS_I) if re.match(r"[Tt]o \w", goal) else ""


def grammar_in_english(shape: Shape) -> str:
    """Return the grammar (GBNF) of a text of two to four sentences."""
    parts = (choice_of([one.split() for one in part]) for part in parts_in_english(shape))
    return "root ::= " + ' " " '.join(f"({part})" for part in parts)


def parts_in_english(shape: Shape) -> list[list[str]]:
    """Return the possible sentences for each part of the text: the result of the player's deed, a
    sight in the author's words, the deed of the speaker, and the words of the speaker.

    A part is left out if each of its sentences was told before. A speaker who would only make a
    remark is silent if a sight is told.
    """
    done, seen = _beginning(shape) if shape.begins else ([], [])
    if not shape.speaker:
        parts = [done, seen or _of("still", shape), [] if done else _of("still", shape)]
    else:
        is_remark = shape.answer == "remarks" or (shape.answer == "receives" and shape.was_here)
        says = [] if seen and is_remark else _says(shape)
        parts = [done, seen, _acts(shape, speaks=bool(says)), says]
    return [one for one in parts if one] or [LINES["told"]["still"]]


def _beginning(shape: Shape) -> tuple[list[str], list[str]]:
    """Return the possible sentences about the result of the deed, and those about a sight."""
    sights, deed, kind = shape.sights, outside_of_speech(shape.words), kind_of(shape.words)
    if shape.answer == "meets":
        return sights.found(deed), _of("finds", shape)
    if not shape.was_here:
        # Whoever is alone has more time to look.
        seen = sights.changed() if shape.speaker else sights.after_first()
        first = [one for one in sights.place[:1] if not was_told(one, shape.told)]
        return first or [f"You are at {as_within(shape.place)}."], seen
    if shape.has_arrived:
        return _of("arrives", shape), sights.next()
    if not shape.speaker and speech_in(shape.words):
        return _of("unanswered", shape), []
    if kind not in ("deed", "try") and (found := sights.found(deed)):
        return [], found
    seen = sights.next(deed)
    if kind == "look" and not sights.named(deed):
        return ([], seen) if seen else (_of("look", shape), [])
    kind = {"look": "again", "open": "deed", "go": "deed"}.get(kind, kind)
    return _of(kind, shape) or _of("deed", shape), seen


def _of(kind: str, shape: Shape) -> list[str]:
    return _new(_filled(LINES["told"][kind], shape), shape.told, "; ")


def _acts(shape: Shape, *, speaks: bool) -> list[str]:
    """Return the possible deeds of the speaker. Once in a story, the speaker's description stands
    behind the name."""
    acts = [*LINES["acts"]["alone"], *(LINES["acts"]["speaking"] if speaks else ())]
    if own := _POSSESSIVES.get(shape.pronoun):
        acts += [one.format(own=own) for one in LINES["acts"]["own"]]
    if _GAZE.search(shape.lately):
        acts = [one for one in acts if not _GAZE.match(one)]
    # A deed that nobody has done yet comes before the others.
    acts = [one for one in acts if f" {one}." not in shape.told] or acts
    who = called(shape.about)
    name = shape.speaker if not who or who in shape.told else f"{shape.speaker}, {who},"
    return _new(acts, shape.told, " and ", f"{name} {{}}.")


def _says(shape: Shape) -> list[str]:
    if shape.fact:
        return [] if was_told(shape.tells, shape.told) else [shape.tells]
    return _new(_filled(LINES["said"][shape.answer], shape), shape.told, " \u2013 ", '"{}"')


def _filled(lines: Sequence[str], shape: Shape) -> list[str]:
    """Return the lines with each possible filling of their gaps."""
    wish, place = wish_of(shape.goals), as_within(shape.place)
    things = shape.sights.named(outside_of_speech(shape.words))[:1]
    return [
        line.format(thing=thing, about=topic, place=place, wish=wish, time=shape.time)
        for line in lines
        if shape.time or "{time}" not in line
        for thing in (things if "{thing}" in line else [""])
        for topic in (things_in(shape.words) if "{about}" in line else [""])
    ]


def as_within(name: str) -> str:
    """Return the name in the form that it has in the middle of a sentence."""
    return re.sub(r"^(?:The|A|An) ", lambda one: one[0].lower(), name)


def _new(lines: Sequence[str], told: str, between: str, frame: str = "{}") -> list[str]:
    """Return sentences that were not told yet: each of one line, or of two and more lines if all
    single lines were told."""
    for count in range(1, _MOST_LINES + 1):
        some = islice(permutations(lines, count), _MOST_TRIED)
        ways = (frame.replace("{}", _joined(one, between)) for one in some)
        if new := list(islice((one for one in ways if not was_told(one, told)), _MOST_WAYS)):
            return new
    return []


def _joined(lines: Sequence[str], between: str) -> str:
    first, *others = lines
    for one in others:
        is_name = re.match(r"I\b", one)
        first = f"{first.rstrip('.')}{between}{one if is_name else one[:1].lower() + one[1:]}"
    return first


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
    """Return a grammar that fixes only the shape of the text. Its letters belong to the script that
    most of `given` is written in. Return "" if no grammar can hold this script."""
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
