"""The sentences that a short narration in English takes from the author of the world: the results
of looks at things, and the parts of a place that were not told yet. Each sentence is told once in a
story.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from sessions.language.sentences import ends_sentence, split_sentences
from sessions.language.stop_words import ENGLISH, STOP_WORDS
from sessions.language.words import terms_of, words_of

LINES = tomllib.loads(
    (Path(__file__).parent / "prompts" / "short_lines.toml").read_text(encoding="utf-8")
)
_ENDS = (
    r"(?=[.,;:!?]|$| (?:that|who|which|where|on|in|with|under|over|and|to|from|by|at|is|are"
    r"|stands?|hangs?|goes|beside|behind|before|above|without|through|until|will|has|half|round"
    r"|one|of)\b)"
)
_UNSEEN = frozenset(LINES["unseen"]["words"].split()) | STOP_WORDS[ENGLISH]
_ADJECTIVES = frozenset(LINES["unseen"]["adjectives"].split())
_SAYS_NOTHING = frozenset(terms_of(LINES["unseen"]["in_deeds"]))
_THING = re.compile(
    rf"\b(?:[Aa]n?|[Oo]ne|[Tt]he|[Ii]ts) ((?:[a-z-]+ ){{0,2}}?)([a-z]{{3,}}){_ENDS}"
)
_TAIL = (
    r"(?: (?:of|with|in|over|under|to|on|from|for|behind|above|at|by|between|against|up|down"
    r"|without|full|that|who)\b.*)?"
)
_SIGHT = re.compile(
    r"(?:(?:an?|one|the) (?!of\b)(?P<one>(?:[\w'-]+ ){0,3}?[\w'-]+)"
    r"|(?:two|three|four|five|six|seven|ten|twelve|twenty|forty) (?!of\b)(?:[\w'-]+ ){0,3}?[\w'-]+"
    rf"|(?P<some>(?:(?:\w+ed|{'|'.join(sorted(_ADJECTIVES))}) )?[\w-]+s)){_TAIL}",
    re.IGNORECASE,
)
_VERB = re.compile(r"[^s]s$|^(?:was|were|had|stood|hung|lay|sat|went|came)$")
# A sentence with a word that refers to the sentence before.
_LEANS = re.compile(
    r"\W*(?:\w+\W+){0,3}?(?:it|its|they|their|them|he|his|him|she|her|this|these|those)\b",
    re.IGNORECASE,
)
# A description that can stand behind a name and a comma, because it is no clause with a verb.
_CALLED = re.compile(
    r"(?:an?|the|somebody|someone|one of)(?: [\w'-]+){0,4}?(?:(?:,| (?:who|whom|with|in|of|from|at"
    r"|on|without|that)\b)(?!.*, (?:is|was|has|had|\w+[^\Ws]s)\b)[^.!?;:]*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sights:
    """The sentences that can be told of the player's place.

    The sentences of `place` describe the place as it was first found. Those of `now` tell what has
    changed and which things are here. A sentence of `asked` is told only after a look at its
    subject. `moved` are terms of things that the player has used or changed, so that their
    description may no longer be true. `told` are the texts so far.
    """

    place: Sequence[str] = ()
    now: Sequence[str] = ()
    asked: Sequence[str] = ()
    moved: frozenset[str] = frozenset()
    told: str = ""

    def found(self, words: str) -> list[str]:
        """Return the possible sentences about the thing that the player's words are about, or no
        sentences if all were told."""
        meant = _meant(words)
        ways = [(len(meant & terms), told) for terms, told in self._units() if meant & terms]
        ways = [(count, new) for count, told in ways if (new := self._new(told))]
        return max(ways, key=lambda one: one[0])[1] if ways else []

    def named(self, words: str) -> list[str]:
        """Return the things in these words that the world has a description of."""
        known = set().union(*(terms for terms, _ in self._units()), terms_of(" ".join(self.place)))
        return [one for one in things_in(words) if known & set(terms_of(one))]

    def changed(self) -> list[str]:
        """Return the next sentence about a change or a thing that was not told yet."""
        return next((new for one in self.now if (new := self._new([one]))), [])

    def after_first(self) -> list[str]:
        """Return the result of `next` after the first sentence about the place was told."""
        return replace(self, told="\n".join((self.told, *self.place[:1]))).next()

    def next(self, words: str = "") -> list[str]:
        """Return the possible sentences about the next sight that was not told yet and that the
        words are not about."""
        if changed := self.changed():
            return changed
        for at, sentence in enumerate(self.place):
            terms = set(terms_of(sentence))
            if terms & (self.moved | _meant(words)) or (at and _LEANS.match(sentence)):
                continue
            if not self._new([sentence]):
                continue
            parts = [framed(one) for one in self._parts(at)]
            left = [ways for ways in parts if self._new(ways)]
            if len(left) == len(parts):
                return [sentence]
            if left:
                return left[0]
        return []

    def _units(self) -> Iterator[tuple[set[str], list[str]]]:
        """Yield the terms of each sight, with the possible sentences about the sight."""
        for one in self.now:
            yield set(terms_of(one)), [one]
        before: set[str] = set()
        for at, sentence in enumerate(self.place):
            # An entry of a list says the same as its sentence in fewer words, so it comes first.
            parts = ((set(terms_of(part)), part) for part in self._parts(at))
            yield from ((own, framed(part)) for own, part in parts if not own & self.moved)
            terms = set(terms_of(sentence))
            is_whole = all(self._new(framed(one)) for one in self._parts(at))
            if is_whole and not terms & self.moved:
                leans = at and _LEANS.match(sentence)
                yield terms | before if leans else terms, [sentence]
            before = terms
        for one in self.asked:
            yield set(terms_of(one)), [one]

    def _parts(self, at: int) -> list[str]:
        """Return the entries of a list in this sentence of the place, without the place itself,
        such as "a low room" at the beginning of a description."""
        parts = sights_in(self.place[at])
        is_place = not at and parts and re.match("(?:an?|the|one) ", parts[0])
        is_first = is_place and self.place[0].casefold().startswith(parts[0])
        return parts[1:] if is_first else parts

    def _new(self, ways: Sequence[str]) -> list[str]:
        """Return these sentences about one sight, or no sentences if one of them was told."""
        return [] if any(was_told(one, self.told) for one in ways) else list(ways)


def framed(sight: str) -> list[str]:
    return [line.format(sight=sight) for line in LINES["told"]["sights"]]


def was_told(text: str, told: str) -> bool:
    """Return whether a sentence of the text was told. A single word, such as the "Dr." of a name,
    counts only if it is the whole text."""
    own, before = _sentences(text), _sentences(told)
    return own <= before or any(" " in one for one in own & before)


@lru_cache(maxsize=64)
def _sentences(text: str) -> frozenset[str]:
    return frozenset().union(*map(_sentences_of_line, text.splitlines()))


# The result is cached, because most lines of a story were already read for the turn before.
@lru_cache(maxsize=8192)
def _sentences_of_line(line: str) -> frozenset[str]:
    return frozenset(" ".join(words_of(one)) for one in split_sentences(line))


def sentences_of(text: str) -> list[str]:
    """Return the sentences of the text, each with a mark at its end."""
    told = (one.strip() for one in split_sentences(" ".join(text.split())))
    return [one if ends_sentence(one) else f"{one}." for one in told if one]


def _meant(words: str) -> set[str]:
    return set(terms_of(words)) - _SAYS_NOTHING


def things_in(text: str) -> list[str]:
    """Return the nouns of things that a text names."""
    return [
        noun
        for before, noun in dict.fromkeys(_THING.findall(text))
        if not {noun, *before.split()} & _UNSEEN
        and noun not in _ADJECTIVES
        and not re.search(r"(?:ly|ing|[^e]ed)$", noun)
    ]


def sights_in(sentence: str) -> list[str]:
    """Return the entries of a list in the sentence that name something and have no verb."""
    parts = re.split(r"[;,]\s*", sentence.strip(" .!?"))
    # Two parts that are joined by "and" are clauses.
    if len(parts) <= 1 + parts[-1].startswith("and "):
        return []
    return [told for one in parts if (told := _sight(one.removeprefix("and ").strip()))]


def _sight(part: str) -> str:
    match = _SIGHT.fullmatch(part)
    words = words_of(match["one"] or match["some"] or "") if match else []
    # An entry with a verb may be a whole sentence.
    if match is None or {*words[-1:]} & _UNSEEN or (match["one"] and any(map(_VERB.search, words))):
        return ""
    return part[:1].lower() + part[1:]


def called(description: str) -> str:
    """Return the first sentence of a description in the form that it has behind a name and a comma,
    or "" if it cannot stand there."""
    first = next(iter(sentences_of(description)), "").rstrip(".")
    is_short = len(first) <= 160
    return first[:1].lower() + first[1:] if is_short and _CALLED.fullmatch(first) else ""


def terms_of_things(texts: Iterable[str]) -> frozenset[str]:
    """Return the terms of the things that the texts name."""
    return frozenset(term for text in texts for one in things_in(text) for term in terms_of(one))
