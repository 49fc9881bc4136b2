"""Reads a text as the words by which paragraphs and turns are compared."""

import re
from collections.abc import Iterator
from functools import lru_cache

# A word of letters and digits with the marks inside it, or a run of characters of a script that
# puts no blanks between words.
_WORD = re.compile(r"[぀-ヿ㐀-䶿一-鿿豈-﫿฀-๿]+|[^\W_]+(?:['\u2019][^\W_]+)*")
_UNSPACED = re.compile(r"[぀-ヿ㐀-䶿一-鿿豈-﫿฀-๿]")
_ENDINGS = ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "ly", "s")
_SHORTEST_STEM = 3
_SHORTEST_WORD = 3
# Words that stand in almost every English paragraph, and so say nothing about its source. Words
# that are frequent in another language are found by counting.
_STOP_WORDS = (
    "about above after again against all also am an and any are as at away back be because "
    "been before behind being below between both but by can could did do does doing down "
    "during each even ever every few for from further get go going got had has have having "
    "he her here hers herself him himself his how i i'd i'll i'm i've if in into is it it's "
    "its itself just know like made make me more most much my myself no nor not now of off "
    "oh okay on once one only or other our ours out over own said same say says see she "
    "should so some something still such than that that's the their theirs them themselves "
    "then there these they they're thing things this those though through to too two under "
    "until up upon us very was we were what when where which while who whom why will with "
    "would yeah yes you you're your yours yourself well right don't can't won't didn't "
    "isn't wasn't doesn't couldn't wouldn't there's let's he's she's what's "
)
_STOP = frozenset(_STOP_WORDS.split())


def words_of(text: str) -> list[str]:
    """Return all words of the text in order, in small letters. Of a script without blanks, each
    pair of neighbouring characters counts as a word."""
    return list(_words(text))


def _words(text: str) -> Iterator[str]:
    for run in _WORD.findall(text.lower().replace("\u2019", "'")):
        if _UNSPACED.match(run):
            yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        else:
            yield run


@lru_cache(maxsize=50_000)
def stem_of(word: str) -> str:
    """Return what the word has in common with its other forms, or "" if the word says nothing about
    the source of a text."""
    if _UNSPACED.match(word):
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
