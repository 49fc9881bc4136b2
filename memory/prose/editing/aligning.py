"""Finds the tokens and the paragraphs that two texts have in common, in a bounded time."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from diff_match_patch import diff_match_patch

from sessions.language.words import words_of

# A changed paragraph counts as the new form of another paragraph if the two share at least this
# fraction of their words.
_ALIKE = 0.3
# Changed paragraphs in a row are compared with each other in at most this many pairs. If there are
# more, the paragraphs are paired by their order.
_MOST_COMPARED = 2_500
# Each token is represented by a code point. This is the first one, with the code points that no
# text may have.
_FIRST, _SURROGATES = 0x100, range(0xD800, 0xE000)
_DELETE, _INSERT = -1, 1


@dataclass(frozen=True)
class Stretch:
    """Tokens that both texts have (`is_same`), or the tokens of the older text that the newer one
    has replaced. The tokens are `old[start:end]` and `new[new_start:new_end]`."""

    is_same: bool
    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(frozen=True)
class Pair:
    """The places of a paragraph in the older and in the newer text. A place is None if that text
    has no such paragraph."""

    old: int | None
    new: int | None
    is_same: bool = False


def stretches_of(
    old: Sequence[str], new: Sequence[str], *, deadline: float, tidies: bool = False
) -> list[Stretch]:
    """Compare two sequences of tokens until `deadline`, a time of `time.time()`. The tokens that
    could not be compared by then count as replaced. With `tidies`, the few tokens that two larger
    changes have between them count as changed too, so that people can read the result."""
    characters = _Characters()
    compared = diff_match_patch()
    texts = characters.write(old), characters.write(new)
    changes = compared.diff_main(*texts, checklines=False, deadline=deadline)
    if tidies:
        compared.diff_cleanupSemantic(changes)
    found: list[Stretch] = []
    at, new_at = 0, 0
    for kind, text in changes:
        end = at + (len(text) if kind != _INSERT else 0)
        new_end = new_at + (len(text) if kind != _DELETE else 0)
        if found and found[-1].is_same == (kind == 0):
            last = found.pop()
            found.append(Stretch(last.is_same, last.start, end, last.new_start, new_end))
        else:
            found.append(Stretch(kind == 0, at, end, new_at, new_end))
        at, new_at = end, new_end
    return found


class _Characters:
    """Writes each token as one character, because the library compares texts by their characters.
    The same token always has the same character."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def write(self, tokens: Iterable[str]) -> str:
        return "".join(self._known.setdefault(one, self._next()) for one in tokens)

    def _next(self) -> str:
        code = _FIRST + len(self._known)
        return chr(code if code < _SURROGATES.start else code + len(_SURROGATES))


def align(old: Sequence[str], new: Sequence[str], *, seconds: float = 1.0) -> list[Pair]:
    """Return the paragraphs of both texts in order, as pairs."""
    pairs: list[Pair] = []
    for one in stretches_of(old, new, deadline=time.time() + seconds):
        places = range(one.start, one.end), range(one.new_start, one.new_end)
        if one.is_same:
            pairs += [Pair(*both, is_same=True) for both in zip(*places, strict=True)]
        else:
            pairs += _pair(old, new, *places)
    return pairs


def _pair(old: Sequence[str], new: Sequence[str], olds: range, news: range) -> list[Pair]:
    """Pair the paragraphs of a stretch whose paragraphs were all changed."""
    partners = _partners(old, new, olds, news)
    pairs: list[Pair] = []
    at, new_at = olds.start, news.start
    for old_place, new_place in chain(partners, [(olds.stop, news.stop)]):
        pairs += [Pair(place, None) for place in range(at, old_place)]
        pairs += [Pair(None, place) for place in range(new_at, new_place)]
        if old_place < olds.stop and new_place < news.stop:
            pairs.append(Pair(old_place, new_place))
        at, new_at = old_place + 1, new_place + 1
    return pairs


def _partners(
    old: Sequence[str], new: Sequence[str], olds: range, news: range
) -> list[tuple[int, int]]:
    """Return pairs of the places of the paragraphs that are most alike, in the order of both
    texts."""
    if len(olds) == len(news) == 1 or len(olds) * len(news) > _MOST_COMPARED:
        return list(zip(olds, news, strict=False))
    words = [Counter(words_of(old[place])) for place in olds]
    new_words = [Counter(words_of(new[place])) for place in news]
    # For each number of first paragraphs of both stretches, the best sum of likenesses.
    best = [[0.0] * (len(news) + 1) for _ in range(len(olds) + 1)]
    likenesses = [[_likeness(*both) for both in ((one, two) for two in new_words)] for one in words]
    for row, of_row in enumerate(likenesses, 1):
        for column, likeness in enumerate(of_row, 1):
            together = best[row - 1][column - 1] + likeness if likeness >= _ALIKE else 0.0
            best[row][column] = max(best[row - 1][column], best[row][column - 1], together)
    found: list[tuple[int, int]] = []
    row, column = len(olds), len(news)
    while row and column:
        if best[row][column] == best[row - 1][column]:
            row -= 1
        elif best[row][column] == best[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            found.append((olds[row], news[column]))
    return found[::-1]


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0
