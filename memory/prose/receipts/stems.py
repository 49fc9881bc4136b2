"""Reads a text as stems. Paragraphs and turns are compared by their stems."""

from functools import lru_cache

from sessions.language.stop_words import ENGLISH, STOP_WORDS
from sessions.language.words import is_paired

_ENDINGS = ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "ly", "s")
_SHORTEST_STEM = 3
_SHORTEST_WORD = 3
# Words that stand in almost every English paragraph say nothing about its source. Words that are
# frequent in another language are found by counting.
_STOP = STOP_WORDS[ENGLISH]


@lru_cache(maxsize=50_000)
def stem_of(word: str) -> str:
    """Return the part that the word has in common with its other forms, or "" if the word says
    nothing about the source of a text."""
    if is_paired(word):
        return word
    if word in _STOP:
        return ""
    word = word.removesuffix("'s").partition("'")[0]
    if len(word) < _SHORTEST_WORD and word.isascii() and not word.isdigit():
        return ""
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _SHORTEST_STEM:
            return _without_double(stem)
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM + 1 else word


def _without_double(stem: str) -> str:
    """Return "stop" for "stopp", and "hop" for "hope", so that forms with and without a doubled or
    silent letter agree."""
    if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] and stem[-1] not in "ls":
        stem = stem[:-1]
    return stem.removesuffix("e") if len(stem) > _SHORTEST_STEM + 1 else stem


def stems_of(words: list[str]) -> list[str]:
    """Return the stems of the words that say something, in order."""
    return [stem for stem in map(stem_of, words) if stem]
