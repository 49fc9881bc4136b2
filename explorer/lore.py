"""Chooses the entries of the lorebook that the narrator is told, and says of each why it is in or
out. The choice depends on nothing but the lorebook, the texts and the budget."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN
from agents.prompting.layers import IN, OUT, Piece, weigh
from explorer.guidance import Lorebook, LoreEntry, keywords_of
from sessions.language.words import whole_words

# At most this many characters and words of a turn are searched. They are the first ones; no
# narrator writes nearly so many. A character can stand for several words.
_MOST_OF_TURN = 20_000

# The words of a keyword.
Phrase = tuple[str, ...]


@dataclass(frozen=True)
class ScannedTurn:
    """A turn that is searched for keywords."""

    number: int
    text: str

    def find(self, wanted: Mapping[str, Sequence[int]], phrases: Set[Phrase]) -> set[Phrase]:
        """Return the phrases whose words stand in the turn one after the other. `wanted` has the
        lengths of the phrases by their first words."""
        words = tuple(whole_words(self.text[:_MOST_OF_TURN])[:_MOST_OF_TURN])
        return {
            run
            for at, word in enumerate(words)
            for count in wanted.get(word, ())
            if (run := words[at : at + count]) in phrases
        }


class Scan:
    """The last turns, each with the keywords of the lorebook that it has."""

    def __init__(self, lorebook: Lorebook, turns: Sequence[ScannedTurn]) -> None:
        lines = (
            line for one in lorebook.entries for line in (one.keywords, one.secondary_keywords)
        )
        phrases = {phrase for line in lines for phrase, _ in _phrases(line) if phrase}
        wanted: dict[str, set[int]] = {}
        for phrase in phrases:
            wanted.setdefault(phrase[0], set()).add(len(phrase))
        lengths = {word: sorted(counts) for word, counts in wanted.items()}
        self._found = [(one.number, one.find(lengths, phrases)) for one in turns] if phrases else []
        self._numbers = [one.number for one in turns]

    def find(self, keywords: str, depth: int) -> tuple[str, int] | None:
        """Return the keyword that comes up in the newest of the last `depth` turns, and the number
        of this turn."""
        wanted = _phrases(keywords)
        for number, found in reversed(self._found[-depth:]):
            for phrase, keyword in wanted:
                if phrase in found:
                    return keyword, number
        return None

    def named(self, depth: int) -> str:
        """Return the words for the last `depth` turns in a reason."""
        numbers = self._numbers[-depth:]
        if not numbers:
            return "no turn"
        first, last = numbers[0], numbers[-1]
        return f"turn {last}" if first == last else f"turns {first} to {last}"


@dataclass(frozen=True)
class Judged:
    """An entry, with the reason why the narrator is told it or not. `place` counts from 1."""

    entry: LoreEntry
    place: int
    is_in: bool
    reason: str

    @property
    def line(self) -> str:
        """The line of the record."""
        name = " ".join(self.entry.name.split()) or f"Entry {self.place}"
        return f"{IN if self.is_in else OUT}{name} ({self.reason})"

    @property
    def priority(self) -> tuple[bool, int, int]:
        """The priority of the entry if there is no room for all. The lowest value comes first."""
        return not self.entry.constant, -self.entry.insertion_order, self.place


def judge(lorebook: Lorebook, turns: Sequence[ScannedTurn], most_tokens: int) -> list[Judged]:
    """Judge all entries, in the order of the lorebook. `turns` are the last turns, the present one
    last.

    If the entries do not all fit the budget, constant entries come first, then entries with the
    highest insertion order, and then entries that stand first in the lorebook.
    """
    scan = Scan(lorebook, turns)
    judged = [_judge(lorebook, entry, at, scan) for at, entry in enumerate(lorebook.entries, 1)]
    room = most_tokens
    wanted = sorted((one for one in judged if one.is_in), key=lambda one: one.priority)
    over = set()
    for one in wanted:
        tokens = tokens_of(one.entry.content)
        if tokens > room:
            over.add(one.place)
        else:
            room -= tokens
    reason = f"over the budget of {most_tokens:,} tokens"
    return [
        Judged(one.entry, one.place, False, f"{one.reason}, but {reason}")
        if one.place in over
        else one
        for one in judged
    ]


def told(judged: Iterable[Judged]) -> list[Judged]:
    """Return the entries that the narrator is told, in the order in which they are told."""
    chosen = (one for one in judged if one.is_in)
    return sorted(chosen, key=lambda one: (one.entry.insertion_order, one.place))


def pieces_of(judged: Iterable[Judged]) -> list[Piece]:
    """Return the pieces of the entries that the narrator is told. If the request still lacks room,
    the last pieces are dropped first."""
    chosen = told(judged)
    last_first = sorted((one.priority for one in chosen), reverse=True)
    return [
        Piece(
            one.entry.content.strip(),
            rank=last_first.index(one.priority),
            recorded_at=one.place - 1,
        )
        for one in chosen
    ]


def tokens_of(text: str) -> int:
    """Return the estimated tokens of a text, which are the same for every model."""
    return math.ceil(weigh(text.strip()) / DEFAULT_WEIGHT_PER_TOKEN)


def scan_depth_of(lorebook: Lorebook, entry: LoreEntry) -> int:
    return entry.scan_depth or lorebook.scan_depth


def most_scanned(lorebook: Lorebook) -> int:
    """Return how many turns have to be read, or 0 if no entry has keywords."""
    depths = (
        scan_depth_of(lorebook, one)
        for one in lorebook.entries
        if one.content.strip() and one.keywords and not one.constant
    )
    return max(depths, default=0)


def _judge(lorebook: Lorebook, entry: LoreEntry, place: int, scan: Scan) -> Judged:
    if not entry.content.strip():
        return Judged(entry, place, False, "nothing is written in it")
    if entry.constant:
        return Judged(entry, place, True, "constant")
    if not entry.keywords:
        return Judged(entry, place, False, "it is not constant and has no keywords")
    depth = scan_depth_of(lorebook, entry)
    found = scan.find(entry.keywords, depth)
    if found is None:
        return Judged(entry, place, False, f"no keyword in {scan.named(depth)}")
    reason = f"keyword “{found[0]}” in turn {found[1]}"
    if not entry.secondary_keywords:
        return Judged(entry, place, True, reason)
    second = scan.find(entry.secondary_keywords, depth)
    if second is None:
        missing = f"{reason}, but no secondary keyword in {scan.named(depth)}"
        return Judged(entry, place, False, missing)
    return Judged(entry, place, True, f"{reason}, with “{second[0]}” in turn {second[1]}")


def _phrases(keywords: str) -> list[tuple[Phrase, str]]:
    """Return the words of each keyword, with the keyword as it was written."""
    return [(tuple(whole_words(one)), one) for one in keywords_of(keywords)]
