"""Reads the deeds that the player's words tell plainly, in English: where the player goes and with
whom, how long the player waits, and whether the player looks around.

Where the words could mean anything else, no deed is found, because a move that nobody wanted is
worse than a wanted move that needs a click. So speech, questions, and whatever is denied, wished,
past or only possible tell no deed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from sessions.language.spelling import plain_spelling
from world.names import normalized, parts_of, plain
from world.state import World

# The ticks that each kind of deed takes in addition to the ticks of the words. A move takes the
# ticks of the tool `go`.
SEARCH_TICKS, WAIT_TICKS, HOUR_TICKS, UNTIL_TICKS, NIGHT_TICKS = 2, 5, 10, 20, 30

_QUOTED = re.compile(
    r'["\u201c\u201e\u00ab][^"\u201c\u201d\u00bb]*(?:["\u201c\u201d\u00bb]|\Z)'
    r"|(?<!\w)['\u2018](?=\w)[\s\S]*"
)
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s|\n")
_DOUBT = re.compile(
    r"\?|n't\b|'(?:d|ll)\b|\b(?:not|never|no longer|nearly|almost|but|unless|if|would|could|should"
    r"|might|may|can|cannot|must|will|shall|going to|about to|want|wish|hope|plan|mean|intend"
    r"|decide|try|pretend|imagine|dream|remember|recall|think|wonder|instead|tomorrow|yesterday"
    r"|maybe|perhaps|possibly|probably|was|were|had|usually|normally|regularly|rarely|hardly"
    r"|every|says|said|asks|asked|tells|told)\b|, i (?:say|tell|ask|answer|reply|shout|whisper)\b"
)
# After these words, the sentence may tell the deed of somebody else.
_OF_OTHERS = re.compile(
    r"\b(?:that|who|ask|tell|order|beg|bid|invite|urge|send|let|make|have|help|see|watch|hear|feel"
    r"|notice|observe|find|expect|need|persuade|convince|warn|promise|suggest|propose|say|answer"
    r"|offer|agree|refuse|to (?!@|(?:the|an?|my|his|her|their|our)\b)\w+)\b"
)
_PEOPLE = r"(?:#\d+~)+"
_LEAD = r"(?:(?:so|then|now|next|well|ok|okay|and|finally|at last|after that|at once|\w+ly)[,\s]+)*"
_SUBJECT = re.compile(
    rf"{_LEAD}(?:(?P<along>{_PEOPLE}) and )?(?P<who>i|we|let's|let us)(?: and (?P<too>{_PEOPLE}))? "
    r"(?:(?:\w+ly|then|just|now|all|both|also|simply) )*"
)
_NEXT = re.compile(
    r"(?:\s*(?:[,;:\u2013\u2014]|--)\s*|\s+(?=and\b|then\b))(?:(?:and|then|also|i|we)\s+)*"
)
_GO = (
    r"(?:go|walk|run|head|return|hurry|travel|climb|ride|stroll|march|rush|race|sneak|creep|wander"
    r"|come|step|slip|move|row|sail|drive|swim|cross|duck|dash|stride|trudge|push on|off"
    r"|set (?:off|out)|make (?:my|our) way|make(?= for )|climb the (?:stairs|steps|ladder)"
    r"|(?:follow|take) (?:the|an?) (?:path|road|track|trail|way|lane|stairs?|steps|stairway|river"
    r"|stream|shore|bank|corridor|passage|tunnel|bridge|ladder)|carry (?:the|an?|my) \w+)"
)
_HOW = (
    r"(?: (?:back|down|up|in|over|out|across|off|straight|along|away|on|around|inside|outside"
    r"|upstairs|downstairs|together|alone|again|home|at once|\w+ly))*"
)
_FROM = (
    rf"(?:{_HOW}(?: with {_PEOPLE}| (?:from|out of) @\d+~"
    r"| (?:up|down|along|across|over|through|past|by) (?:the|an?) \w+)?){,2}"
)
_TO = rf"{_FROM}{_HOW} (?:to|into|onto|for|inside|out (?:on|in)) @(?P<to>\d+)~"
_AFTER = (
    r"(?:\W*$| (?:with(?! my (?:eyes?|finger|gaze))|to|by|through|via|again|now|alone|together"
    r"|at once|as|while|so|because|before|along|where|in silence|in the (?:rain|dark|snow|fog)"
    r"|for|without|towards?|\w+ly)\b.*)"
)
_MOVES = tuple(
    re.compile(form + _AFTER)
    for form in (
        rf"(?:{_GO}|leave(?: here| @\d+~)?){_TO}",
        rf"(?:take|bring|lead) {_PEOPLE}(?: along| with me| by the hand)*{_HOW} to "
        r"@(?P<to>\d+)~",
        r"(?:enter|visit|climb) @(?P<to>\d+)~",
    )
)
_BACK = re.compile(
    r"(?:return|(?:go|walk|run|head|hurry|come|ride|make (?:my|our) way) back)(?: there| again| now"
    rf"| at once| alone| together| the way (?:i|we) came)*(?: with {_PEOPLE})?\W*$"
)
# The pattern for the people who go along, in a clause that tells a move.
_ALONG = re.compile(rf"\b(?:with|take|bring|lead) ({_PEOPLE})")
_WAIT = re.compile(
    r"(?:wait|linger|keep watch|pass the time|spend (?:the|an?) (?:night|hour|day|evening)"
    r"|sleep|doze|(?:rest|stay)(?= (?:here|for|until|till|a while|a bit|on|in|by|beside)\b|\W*$))\b"
)
_UNTIL = re.compile(
    r"\b(?:until|till) (?P<time>(?:the )?(?:next |first |late |early )?(?:dawn|daybreak|sunrise"
    r"|light|morning|noon|midday|afternoon|evening|dusk|sunset|dark|nightfall|night|midnight)\b)?"
)
_NIGHT = re.compile(r"\bsleep|\bnight\b|\bhours\b|\ball (?:day|evening)\b")
_HOUR = re.compile(r"\bhour\b|\b(?:long|good) (?:while|time)\b|\bevening\b")
_MOMENT = re.compile(r"\b(?:moment|second|minute|bit)\b")
_SEARCH = re.compile(
    r"(?:search|explore|examine|inspect|rummage|look (?:for|everywhere|under|behind|through))\b"
)
_LOOK = re.compile(
    r"(?:look(?! (?:at|to|into) (?:#|him\b|her\b|them\b))|listen|call|shout|cry out|whistle|knock"
    r"|watch|peer)\b"
)
_ASKS_ALONG = re.compile(
    r"\b(?:(?:come|go|walk) (?:along|with (?:me|us))|(?:follow|join|accompany) (?:me|us))\b"
)
_STAYS = re.compile(r"\b(?:not|never|stay)\b|n't\b")
# Words that name a part of a place. They do not stand for the place, unless they are its whole
# name.
_PARTS_OF_PLACES = frozenset(
    {
        *("door", "room", "window", "gate", "stair", "stairs", "steps", "wall", "corner"),
        *("table", "fire", "bed", "side", "end", "top", "back"),
    }
)


@dataclass(frozen=True)
class Deed:
    """An action of the player. `to` is the canonical name of a place, or "" for the previous place.
    `along` are the names of those who come along."""

    kind: Literal["go", "wait", "look"]
    to: str = ""
    along: tuple[str, ...] = ()
    ticks: int = 0
    until: str = ""


def read_deeds(words: str, world: World) -> list[Deed]:
    """Return the player's deeds that these words tell, in order. If words lead to more than one
    place, they tell no move."""
    deeds = list(_deeds(words, world))
    moves = {one.to for one in deeds if one.kind == "go"}
    return deeds if len(moves) < 2 else [one for one in deeds if one.kind != "go"]


def asked_along(words: str, world: World) -> list[str]:
    """Return the names of the people present whom these words ask to come along."""
    text, people = _marked(_unmarked(words), _forms_of_people(world), "#")
    named = _names(text, people)
    present = [one.name for one in world.present()]
    for sentence in _SENTENCE.split(text):
        if _ASKS_ALONG.search(sentence) and not _STAYS.search(sentence):
            return _names(sentence, people) or named or (present if len(present) == 1 else [])
    return []


def forms_of_places(world: World) -> Mapping[str, str]:
    """Map the forms of a place's name that words may use to the canonical name of the place: the
    name itself, other names that were resolved to the place, and the last words of a name, such as
    the inn for The Ferry Inn, if no other place can be meant."""
    whole = {plain(name): name for name in world.places}
    known = {plain(one): name for one, name in world.known_as.items() if name in world.places}
    parts: dict[str, str] = {}
    for form, name in whole.items():
        words = form.split()
        if "of" in words or words[-1] in _PARTS_OF_PLACES:
            continue
        for at in range(1, len(words)):
            part = " ".join(words[at:])
            parts[part] = "" if part in parts else name
    return {form: name for form, name in (parts | known | whole).items() if form and name}


def _forms_of_people(world: World) -> Mapping[str, str]:
    present = world.present()
    forms = {
        plain_spelling(form): one
        for one in present
        for form in (*parts_of(one.name), normalized(one.name), *map(normalized, one.aliases))
    }
    return {
        form: one.name for form, one in forms.items() if world.find_called(form, present) == one
    }


def _unmarked(words: str) -> str:
    """Return the words in plain spelling, in lines without marks and spaces that say nothing."""
    lines = re.sub("[@#~]", " ", plain_spelling(words)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def _marked(text: str, forms: Mapping[str, str], sign: str) -> tuple[str, list[str]]:
    """Return the text with a mark in place of each name, and the names that the marks stand for."""
    told = f" {plain(text)} "
    found = sorted((one for one in forms if f" {one} " in told), key=len, reverse=True)
    names = list(dict.fromkeys(forms[one] for one in found))
    if not found:
        return text, names
    several = "|".join(r"\W{1,2}(?:the |an? )?".join(map(re.escape, one.split())) for one in found)
    pattern = re.compile(rf"(?<![\w'-])(?:(?:the|an?) )?({several})(?![\w'-])")

    def mark(match: re.Match[str]) -> str:
        name = forms.get(plain(match[1]))
        return match[0] if name is None else f"{sign}{names.index(name)}~"

    return pattern.sub(mark, text), names


def _names(marks: str, names: list[str]) -> list[str]:
    return [names[int(one)] for one in dict.fromkeys(re.findall(r"#(\d+)~", marks))]


def _deeds(words: str, world: World) -> Iterator[Deed]:
    text, places = _marked(_unmarked(_QUOTED.sub('"', words)), forms_of_places(world), "@")
    text, people = _marked(text, _forms_of_people(world), "#")
    # People who are named together form one group.
    text = re.sub(r"(#\d+~)(?:,? and |, )(?=#\d+~)", r"\1", text)
    for sentence in _SENTENCE.split(text):
        subject, is_plain = _SUBJECT.match(sentence), not _DOUBT.search(sentence)
        if subject is None and is_plain and sentence == text:
            # A bare command is a deed of the player if the prompt has no other words.
            yield from _deeds_of(sentence, places, people, [])
        if subject is None or "?" in sentence:
            continue
        along = _names(f"{subject['along']}{subject['too']}", people)
        if subject["who"] != "i":
            along = along or _companions(world)
        for clause in _NEXT.split(sentence[subject.end() :]):
            found = _deeds_of(clause, places, people, along)
            yield from (one for one in found if is_plain or one.kind != "go")
            if _OF_OTHERS.search(clause) or _DOUBT.search(clause):
                break


def _companions(world: World) -> list[str]:
    """Return the people whom "we" means beside the player: the people who came here with the
    player, or else the only person who is here."""
    player, present = world.player, world.present()
    since = player.arrived_at if player else 0
    came = [one.name for one in present if since and one.arrived_at == since]
    return came or ([present[0].name] if len(present) == 1 else [])


def _deeds_of(
    clause: str, places: list[str], people: list[str], along: list[str]
) -> Iterator[Deed]:
    if deed := _move(clause, places, people, along):
        yield deed
    elif _WAIT.match(clause):
        until = _UNTIL.search(clause)
        time = (until["time"] if until else "") or ""
        yield Deed("wait", ticks=_ticks_of(clause), until=time[:1].upper() + time[1:])
    elif _SEARCH.match(clause):
        yield Deed("look", ticks=SEARCH_TICKS)
    elif _LOOK.match(clause):
        yield Deed("look")


def _move(clause: str, places: list[str], people: list[str], along: list[str]) -> Deed | None:
    move = next(filter(None, (one.match(clause) for one in _MOVES)), None)
    back = None if move else _BACK.match(clause)
    if not (move or back):
        return None
    named = _names("".join(_ALONG.findall(clause)), people)
    to = places[int(move["to"])] if move else ""
    return Deed("go", to, tuple(dict.fromkeys([*along, *named])))


def _ticks_of(wait: str) -> int:
    if _NIGHT.search(wait) and not _UNTIL.search(wait):
        return NIGHT_TICKS
    if _UNTIL.search(wait):
        return UNTIL_TICKS
    if _HOUR.search(wait):
        return HOUR_TICKS
    return 1 if _MOMENT.search(wait) else WAIT_TICKS
