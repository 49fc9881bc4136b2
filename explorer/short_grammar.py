"""The grammar that holds a short narration to the turn, and which texts are good.

In English the grammar also says with which words sentences begin, what people do beside their
speech, and how an answer begins that somebody keeps or does not know, because so small a model
would have people die, strangers come in and secrets come out. In other languages only the shape is
held.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agents.prompting.letters import letters_of
from sessions.language.stop_words import ENGLISH, STOP_WORDS
from sessions.language.words import words_of

# How the speaker takes the words: tells a fact, keeps one, has told it already, says what he or she
# wants, does not know, replies to words that ask nothing, is met, or only remarks on the turn.
Answer = Literal["tells", "keeps", "wants", "knows not", "has told", "replies", "meets", "remarks"]


@dataclass(frozen=True)
class Shape:
    """What the grammar of a turn is made of. `speaker` is the name of whoever speaks, with
    `pronouns`, or "" if nobody is there.

    `begins` says that a sentence about the place comes first, and `first_sight` is this sentence if
    nobody has told the place yet. `things` are words for what is there. `names` may stand in
    speech, and `narrated` outside of it. `told_lately` are the latest texts. `fact` is what the
    speaker tells, in the words in which the world has it: so small a model turns a fact around.
    """

    speaker: str
    pronouns: str
    answer: Answer
    begins: bool
    things: Sequence[str]
    names: Sequence[str]
    narrated: Sequence[str]
    told_lately: str
    first_sight: str = ""
    fact: str = ""

    @property
    def tells(self) -> str:
        """The sentence that tells the fact."""
        subject = self.pronouns.split("/")[0].casefold()
        who = subject if subject in _POSSESSIVES else self.speaker
        return f"{who[:1].upper()}{who[1:]} {'tell' if who == 'they' else 'tells'} you: {self.fact}"


def _each(texts: str) -> list[str]:
    return texts.split(" | ")


_AT = _each(
    "looks at | glances at | nods towards | points to | frowns at | looks past | keeps an eye on"
    " | turns away from | listens to | leans towards"
)
_ALONE = _each(
    "smiles a little | shrugs | says nothing for a moment | thinks for a moment | sighs"
    " | hesitates | takes a slow breath | waits a moment | looks up | blinks | looks down"
    " | speaks quietly | does not look up | nods slowly"
)
_OF_ONES_OWN = _each(
    "wipes {} hands | shakes {} head | rubs {} eyes | lowers {} voice | folds {} hands"
    " | looks at {} own hands | tilts {} head | lifts {} chin | clears {} throat"
)
_POSSESSIVES = {"he": "his", "she": "her", "they": "their"}
_OPENERS: dict[Answer, Sequence[str]] = {
    "keeps": _each(
        "Why do you ask | Not now | Ask me later | You ask a lot | Some things are | Leave that"
        " | I would rather not | What is it to you | Not here | That is nothing"
        " | I have nothing to say | Let us talk about | You had better not ask"
    ),
    "knows not": _each(
        "I do not know | I cannot tell you | I wish I knew | Nobody told me | Who knows"
        " | I have asked myself | That is hard to say | I could not say | How should I know"
    ),
    "wants": _each(
        "I want to | I only want to | I have to | I am here to | I mean to | I would like to"
        " | All I want is to | I hope to | I came to"
    ),
    "has told": _each(
        "I have told you all | You have heard it from me | There is no more to say"
        " | You know that already | I said so before"
    ),
    "meets": _each(
        "Who are you | What do you want | You startled me | Stay where you are"
        " | So you have found me | Come closer | Speak quietly"
    ),
    "replies": _each(
        "If you say so | That may be | You are kind to | Thank you | You think so | Perhaps"
        " | You see a lot | I have to | I only want to | It is good of you to | Believe me"
    ),
    "remarks": _each(
        "What do you | You should | Do you | Be careful | Have you | Why do you | Take your time"
        " | I only want to | I still have to | You may | Tell me | Are you | All I want is to"
    ),
}
_SENSES = _each("You see the | You hear the | You feel the | You smell the | You notice the")
# No sentence says how a thing is, because it would often say the opposite of what was given.
_DOES = _each(
    "feels | smells | sounds | stands | hangs | lies | creaks | drips | rests | trembles | shines"
    " | sways | waits"
)
_DO = [one.removesuffix("s") for one in _DOES]
# What a small model lets happen that nobody told it of, and people it brings in.
_UNGIVEN = frozenset(
    {
        *("dead", "died", "die", "dies", "kill", "killed", "kills", "blood", "breaks", "broke"),
        *("broken", "fell", "falls", "vanished", "disappeared", "gone", "runs", "running", "ghost"),
        *("someone", "somebody", "everyone", "everybody", "man", "woman", "men", "women", "people"),
        *("voice", "voices", "figure", "figures", "crowd", "children", "child", "stranger"),
        *("body", "scream", "screams", "boat", "ship"),
    }
)
_NOUN_ENDS = (
    r"[.,;:!?]|$| (?:of|that|who|which|where|on|in|with|under|over|and|to|for|from|by|at|is|are"
    r"|stands?|hangs?|goes|beside|behind|before|above|without|through|until|will|has|half)\b"
)
_LETTERS, _LARGE = "a-z\u00df-\u00f6\u00f8-\u024f", "A-Z\u00c0-\u00d6\u00d8-\u00de"
_SPOKEN = re.compile('"[^"]*"?|\u201c[^\u201d]*\u201d?|\u201e[^\u201c\u201d]*[\u201c\u201d]?')
# The most words of a text that may stand as they are in an example or an earlier text.
_SAME_WORDS = 4


def outside_of_speech(text: str) -> str:
    return _SPOKEN.sub(" ", text)


def speech_in(text: str) -> str:
    return " ".join(_SPOKEN.findall(text))


def things_in(*texts: str) -> list[str]:
    """Return the words of these texts that look like nouns, by what follows them."""
    found = (
        word
        for text in texts
        for word in re.findall(rf"\b([a-z]{{3,}})(?={_NOUN_ENDS})", text)
        if word not in STOP_WORDS[ENGLISH] and not word.endswith(("ly", "ing"))
    )
    return list(dict.fromkeys(found))


def grammar_in_english(shape: Shape) -> str:
    """Return the grammar (GBNF) of a text of two or three sentences."""
    # A small model says the same of a thing whenever it begins with the thing.
    new = [one for one in shape.things if f"The {one} " not in shape.told_lately]
    many = [one for one in new if one.endswith("s") and not one.endswith("ss")]
    one = [thing for thing in new if thing not in many]
    seen = [f"({_any_of(_SENSES)})"]
    seen += [f'"The " ({_any_of(one)}) " " ({_any_of(_DOES)})'] if one else []
    seen += [f'"The " ({_any_of(many)}) " " ({_any_of(_DO)})'] if many else []
    names = [_any_of(shape.names)] if shape.names else []
    narrated = [_any_of(shape.narrated)] if shape.narrated else []
    lines = [
        f"root ::= {_root(shape)}",
        f"thing ::= {_any_of(shape.things) or 'word'}",
        f'seen ::= ({" | ".join(seen)}) (" " w){{1,12}} "."',
        f"act ::= {_acts(shape)}",
        f"word ::= [{_LETTERS}]+ (['-] [{_LETTERS}]+)?",
        f"w ::= {' | '.join(['word', *narrated])}",
        f"said ::= {_said(shape)}",
        f"""m ::= (" " | ", ") ({" | ".join(["word", '"I"', '"I' + "'" + '" [a-z]+', *names])})""",
    ]
    return "\n".join(lines)


def _root(shape: Shape) -> str:
    first = _any_of([shape.first_sight]) if shape.first_sight else "seen"
    if not shape.speaker:
        return first if shape.first_sight else 'seen " " seen'
    says = _any_of([f" {shape.tells}"]) if shape.fact else '" \\"" said "\\""'
    speaks = f'{_any_of([shape.speaker])} " " act {says}'
    return f'{first} " " {speaks}' if shape.begins else speaks


def grammar_of_script(shape: Shape, given: str) -> str:
    """Return a grammar that holds only the shape of the text, in the letters of the script in which
    most of `given` is written, or "" if no grammar can hold this script."""
    letters = letters_of([given])
    if letters is None:
        return ""
    gap = f'"{letters.gap}"'
    opens, closes = _any_of([letters.opens]), _any_of([letters.closes])
    speaks = [_any_of([shape.speaker]), "sentence", f"{opens} sentence {closes}"]
    told = [*(["sentence"] if shape.begins else []), *(speaks if shape.speaker else ["sentence"])]
    return "\n".join(
        (
            f"root ::= {f' {gap} '.join(told)}",
            f"sentence ::= [{letters.within}]{{4,110}} [{letters.ends}]",
        )
    )


def _acts(shape: Shape) -> str:
    """Return small acts, but none of those that were told lately."""

    own = _POSSESSIVES.get(shape.pronouns.split("/")[0].casefold(), "")
    alone = (*_ALONE, *(act.format(own) for act in _OF_ONES_OWN if own))
    at = f'({_any_of(_new(_AT, shape))}) (" you" | " the " thing)'
    return f'({at} | {_any_of(_new(alone, shape))}) "."'


def _new(texts: Sequence[str], shape: Shape) -> Sequence[str]:
    """Return those of the texts that were not told lately, or all if none is left."""
    return [one for one in texts if one not in shape.told_lately] or texts


def _said(shape: Shape) -> str:
    if openers := _OPENERS.get(shape.answer):
        return f"({_any_of(_new(openers, shape))}) m{{0,14}} [.?]"
    return f"[{_LARGE}] [{_LETTERS}]* (['-] [{_LETTERS}]+)? m{{1,18}} [.!]"


def _any_of(texts: Iterable[str]) -> str:
    return " | ".join(
        '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in dict.fromkeys(texts)
    )


def faults_in(
    text: str,
    *,
    given: str,
    words: str,
    absent: Iterable[str],
    pronouns: Iterable[str],
    copied: Iterable[str],
    earlier: Iterable[str],
) -> list[str]:
    """Return what is wrong with the text, in words that follow "The first answer". `given` is the
    request; `absent` are the names of those who are not there, `pronouns` those of whoever is
    there, and `copied` and `earlier` are what must not be told again."""
    told, outside = words_of(text), outside_of_speech(text)
    named = set(re.findall(r"\w+", outside))
    found = [f"names {one}" for one in absent if _own_words(one) & named]
    if new := sorted((_UNGIVEN & set(told)) - set(words_of(given))):
        found.append(f"tells of {', '.join(new)}")
    there = {part.casefold() for one in pronouns for part in one.split("/")}
    found += [
        f"says {one}"
        for one in ("he", "she")
        if there and one not in there and one in words_of(outside)
    ]
    runs = _runs(told)
    if runs & _runs(words_of(words)):
        found.append("repeats the player's words")
    if any(runs & _runs(words_of(one)) for one in copied):
        found.append("copies an example")
    if any(runs & _runs(words_of(one)) for one in earlier):
        found.append("repeats what was told before")
    return found


def _own_words(name: str) -> set[str]:
    return {one for one in name.split() if one[:1].isupper() and one != "The"}


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _SAME_WORDS]) for at in range(len(words) - _SAME_WORDS + 1)}
