"""Chooses the entries of the lorebook that the narrator is told, and says of each why it is in or
out. The choice depends on nothing but the lorebook, the texts and the budget."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN, weigh
from explorer.guidance import Lorebook, LoreEntry, keywords_of
from sessions.words import whole_words

# At most so many characters of a turn are searched: the first ones, because no narrator writes
# nearly so many.
_MOST_OF_TURN = 20_000


@dataclass
class ScannedTurn:
    """A turn that is searched for keywords."""

    number: int
    text: str
    # The runs of words that the turn has, by the number of their words.
    _runs: dict[int, set[tuple[str, ...]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._words = tuple(whole_words(self.text[:_MOST_OF_TURN]))

    def has(self, words: tuple[str, ...]) -> bool:
        """Return whether the turn has these words one after the other."""
        count = len(words)
        if count not in self._runs:
            starts = range(len(self._words) - count + 1)
            self._runs[count] = {self._words[at : at + count] for at in starts}
        return words in self._runs[count]


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
        return f"{'In' if self.is_in else 'Out'}: {name} ({self.reason})"


def judge(lorebook: Lorebook, turns: Sequence[ScannedTurn], most_tokens: int) -> list[Judged]:
    """Judge all entries, in the order of the lorebook. `turns` are the last turns, the present one
    last.

    If the entries do not all fit the budget, constant ones come first, then those with the highest
    insertion order, and then those that stand first in the lorebook.
    """
    judged = [_judge(lorebook, entry, at, turns) for at, entry in enumerate(lorebook.entries, 1)]
    room = most_tokens
    wanted = sorted(
        (one for one in judged if one.is_in),
        key=lambda one: (not one.entry.constant, -one.entry.insertion_order, one.place),
    )
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


def told(judged: Iterable[Judged]) -> list[LoreEntry]:
    """Return the entries that the narrator is told, in the order in which they are told."""
    chosen = (one for one in judged if one.is_in)
    return [
        one.entry for one in sorted(chosen, key=lambda one: (one.entry.insertion_order, one.place))
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


def _judge(
    lorebook: Lorebook, entry: LoreEntry, place: int, turns: Sequence[ScannedTurn]
) -> Judged:
    if not entry.content.strip():
        return Judged(entry, place, False, "nothing is written in it")
    if entry.constant:
        return Judged(entry, place, True, "constant")
    if not entry.keywords:
        return Judged(entry, place, False, "it is not constant and has no keywords")
    scanned = turns[-scan_depth_of(lorebook, entry) :]
    found = _find(entry.keywords, scanned)
    if found is None:
        return Judged(entry, place, False, f"no keyword in {_named(scanned)}")
    reason = f"keyword “{found[0]}” in turn {found[1]}"
    if not entry.secondary_keywords:
        return Judged(entry, place, True, reason)
    second = _find(entry.secondary_keywords, scanned)
    if second is None:
        missing = f"{reason}, but no secondary keyword in {_named(scanned)}"
        return Judged(entry, place, False, missing)
    return Judged(entry, place, True, f"{reason}, with “{second[0]}” in turn {second[1]}")


def _find(keywords: str, turns: Sequence[ScannedTurn]) -> tuple[str, int] | None:
    """Return the keyword that comes up in the newest turn, and the number of this turn."""
    wanted = [(tuple(whole_words(one)), one) for one in keywords_of(keywords)]
    for turn in reversed(turns):
        for words, one in wanted:
            if words and turn.has(words):
                return one, turn.number
    return None


def _named(turns: Sequence[ScannedTurn]) -> str:
    if not turns:
        return "no turn"
    first, last = turns[0].number, turns[-1].number
    return f"turn {last}" if first == last else f"turns {first} to {last}"
