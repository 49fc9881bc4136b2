"""Finds the turns that each paragraph of a draft tells, from the words alone.

A paragraph that tells a turn shares words with it that are rare in the chapter. The likeness of the
two weighs these words: it is the logarithm of how much likelier the paragraph's words are if the
paragraph tells the turn than if it tells none. Paragraphs usually keep the order of the turns, so
the best path through all paragraphs of a scene is taken (memory.prose.receipts.paths). A paragraph
that the path leaves out has no source in the scene. It is invented, unless it is very like a turn
outside the scene.

Nothing here reads the database, and the same texts always give the same result.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain

from memory.prose.receipts.paths import best_path, path_beyond, room_on
from memory.prose.receipts.stems import stem_of
from sessions.language.words import words_of

# The part of a paragraph's words that is expected to come from the turn that it tells. The rest are
# the narrator's own words.
_SHARE = 0.22
_ABSENT = math.log(1 - _SHARE)
# The words of a paragraph that count in full against a turn that lacks them. The further words of a
# longer paragraph count by half, because a long paragraph elaborates more.
_FULL_WORDS, _FURTHER = 30, 0.5
# The chapter counts as having at least this many words, so that not all words of a short chapter
# count as rare. The second number is added to the words of each turn, so that a turn of three words
# does not attract every paragraph with one of these words.
_LEAST_WORDS, _MORE_WORDS = 2_500, 12
# If there are enough turns, a word in more than this fraction of all turns says nothing. In a very
# long chapter, a word in more than this number of turns says nothing either.
_FREQUENT, _ENOUGH_TURNS, _MOST_TURNS = 0.3, 8, 2_000
# How much each sequence of words that a paragraph and a turn share adds to their likeness, and the
# most that all these sequences add together.
_RUN, _MOST_FOR_RUNS = 0.9, 12.0
# The likeness that a turn outside the paragraph's scene needs. The second, lower number is enough
# beside a paragraph that tells the same turn, the turn before or the turn after.
_ELSEWHERE = 10.0
# A paragraph tells a further turn if the words that it shares with this turn alone add this
# likeness, and are at least this many. The turn must not be further away than `_REACH` turns.
_FURTHER_TURN, _FURTHER_STEMS, _REACH = 7.0, 3, 3
# For each degree of confidence, how much likeness a turn needs, and by how much it must lead the
# turns that are not its neighbours.
_CERTAIN, _CERTAIN_LEAD, _LIKELY, _LIKELY_LEAD = 12.0, 4.0, 6.0, 1.5
# A paragraph with at most this many words that say something may be too short to be judged alone.
_TOO_FEW = 2


class Confidence(StrEnum):
    """The confidence that a paragraph tells its prompts."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNSURE = "unsure"
    # No prompt is found: the narrator made the paragraph up.
    INVENTED = "invented"


@dataclass(frozen=True)
class PlayedTurn:
    """What was said and shown at a turn, with the names of the speakers."""

    number: int
    text: str


@dataclass(frozen=True)
class SceneProse:
    """Paragraphs that follow each other, and the turns `first` to `last` that they tell."""

    first: int
    last: int
    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Match:
    """The numbers of the turns that a paragraph tells, in order, with the confidence."""

    prompts: tuple[int, ...] = ()
    confidence: Confidence = Confidence.INVENTED


@dataclass(frozen=True)
class _Text:
    """A text as it is compared: its words, and how often it has each stem."""

    words: list[str]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(filter(None, map(stem_of, self.words)))

    @cached_property
    def runs(self) -> set[tuple[str, ...]]:
        """All sequences of four words, and those sequences of three words that have at least one
        word that says something."""
        return {run for run in self.sequences() if len(run) > 3 or any(map(stem_of, run))}

    def sequences(self) -> Iterator[tuple[str, ...]]:
        words = self.words
        return chain(
            zip(words, words[1:], words[2:], strict=False),
            zip(words, words[1:], words[2:], words[3:], strict=False),
        )


class Matcher:
    """Compares paragraphs with the turns of one chapter. `everything` are all paragraphs of the
    draft, which show the narrator's own frequent words."""

    def __init__(self, turns: Sequence[PlayedTurn], everything: Iterable[str]) -> None:
        self._turns = [turn for turn in turns if turn.text.strip()]
        self._texts = [_Text(words_of(turn.text)) for turn in self._turns]
        self._read: dict[str, _Text] = {}
        self._values: dict[str, list[tuple[int, float]]] = {}
        counted: Counter[str] = Counter()
        wanted: set[tuple[str, ...]] = set()
        for paragraph in everything:
            text = self._text_of(paragraph)
            counted.update(text.counts.keys())
            wanted |= text.runs
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._runs: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        self._sizes = []
        for place, told in enumerate(self._texts):
            counted.update(told.counts)
            self._sizes.append(told.counts.total() + _MORE_WORDS)
            for stem in told.counts:
                self._places[stem].append(place)
            for run in wanted.intersection(told.sequences()):
                self._runs[run].append(place)
        is_enough = len(self._turns) >= _ENOUGH_TURNS
        most = min(len(self._turns) * _FREQUENT, _MOST_TURNS) if is_enough else math.inf
        self._frequent = {stem for stem, at in self._places.items() if len(at) > most}
        total = max(counted.total(), _LEAST_WORDS)
        self._background = {stem: count / total for stem, count in counted.items()}

    def _text_of(self, paragraph: str) -> _Text:
        text = self._read.get(paragraph)
        if text is None:
            text = self._read[paragraph] = _Text(words_of(paragraph))
        return text

    def _values_of(self, stem: str) -> list[tuple[int, float]]:
        """Return the value that the stem adds to the likeness, for each turn that has the stem."""
        values = self._values.get(stem)
        if values is None:
            background = self._background.get(stem, 1.0)
            values = self._values[stem] = [
                (place, math.log(1 - _SHARE + _SHARE * there / background))
                for place in self._places.get(stem, ())
                for there in (self._texts[place].counts[stem] / self._sizes[place],)
            ]
        return values

    def likenesses(self, paragraph: str) -> dict[int, float]:
        """Return the likeness of the paragraph with each turn that shares a word with it, by the
        turn's place."""
        text = self._text_of(paragraph)
        sums: defaultdict[int, float] = defaultdict(float)
        shared: defaultdict[int, int] = defaultdict(int)
        telling = 0
        for stem in text.counts:
            if stem in self._frequent:
                continue
            telling += 1
            for place, value in self._values_of(stem):
                sums[place] += value
                shared[place] += 1
        for_runs: defaultdict[int, float] = defaultdict(float)
        for run in text.runs:
            for place in (places := self._runs.get(run, [])):
                # A sequence that many turns have is a saying, and no quotation.
                for_runs[place] += _RUN if len(places) <= 2 else _RUN / len(places)
        against = [
            _ABSENT * (min(lacking, _FULL_WORDS) + _FURTHER * max(lacking - _FULL_WORDS, 0))
            for lacking in range(telling + 1)
        ]
        found = {place: value + against[telling - shared[place]] for place, value in sums.items()}
        for place, value in for_runs.items():
            found[place] = found.get(place, against[telling]) + min(value, _MOST_FOR_RUNS)
        return found

    def _shared(self, paragraph: str, place: int) -> dict[str, float]:
        """Return the stems that the paragraph shares with the turn, each with the value that it
        adds to the likeness."""
        stems = self._text_of(paragraph).counts.keys() & self._texts[place].counts.keys()
        return {
            stem: value
            for stem in stems - self._frequent
            for at, value in self._values_of(stem)
            if at == place
        }

    def match(self, prose: SceneProse) -> list[Match]:
        """Return a match for each paragraph of the scene, in order."""
        inside = [
            place
            for place, turn in enumerate(self._turns)
            if prose.first <= turn.number <= prose.last
        ]
        likenesses = [self.likenesses(paragraph) for paragraph in prose.paragraphs]
        first, last = (inside[0], inside[-1]) if inside else (0, -1)
        path = best_path(likenesses, first, last)
        beyond = path_beyond(likenesses, path, len(self._turns), _ELSEWHERE)
        matches = []
        for at, paragraph in enumerate(prose.paragraphs):
            if at in path:
                room = room_on(path, at, (first, last), _REACH)
                places = self._with_further(paragraph, path[at], room)
                matches.append(self._match_with(likenesses[at], places))
            elif at in beyond:
                matches.append(self._match_with(likenesses[at], (beyond[at],)))
            else:
                matches.append(self._off_the_path(paragraph, path | beyond, at))
        return matches

    def _match_with(self, likenesses: dict[int, float], places: tuple[int, ...]) -> Match:
        numbers = tuple(self._turns[place].number for place in places)
        return Match(numbers, _confidence(likenesses, places))

    def _with_further(self, paragraph: str, place: int, room: tuple[int, int]) -> tuple[int, ...]:
        """Return the places of all turns that the paragraph tells: `place`, and nearby turns that
        have words of the paragraph which no other chosen turn has."""
        chosen, explained = [place], set(self._shared(paragraph, place))
        near = sorted(range(room[0], room[1] + 1), key=lambda one: (abs(one - place), one))
        for one in near[1:]:
            more = {
                stem: value
                for stem, value in self._shared(paragraph, one).items()
                if stem not in explained and value > 0
            }
            if len(more) >= _FURTHER_STEMS and sum(more.values()) >= _FURTHER_TURN:
                chosen.append(one)
                explained |= more.keys()
        return tuple(sorted(chosen))

    def _off_the_path(self, paragraph: str, path: dict[int, int], at: int) -> Match:
        """Return the match of a paragraph that the path leaves out. If the paragraph has only a
        word or two, it may tell the turn that its neighbours tell."""
        telling = {one for one in self._text_of(paragraph).counts if one not in self._frequent}
        beside = [path[one] for one in (at - 1, at + 1) if one in path]
        if len(telling) > _TOO_FEW or not beside:
            return Match()
        fitting = [one for one in beside if telling & self._texts[one].counts.keys()]
        if not fitting and telling:
            return Match()
        return Match((self._turns[(fitting or beside)[0]].number,), Confidence.UNSURE)


def _confidence(likenesses: dict[int, float], places: tuple[int, ...]) -> Confidence:
    own = max(likenesses[place] for place in places)
    near = {place + step for place in places for step in (-1, 0, 1)}
    others = (one for place, one in likenesses.items() if place not in near)
    lead = own - max(others, default=0.0)
    if own >= _CERTAIN and lead >= _CERTAIN_LEAD:
        return Confidence.CERTAIN
    return Confidence.LIKELY if own >= _LIKELY and lead >= _LIKELY_LEAD else Confidence.UNSURE
