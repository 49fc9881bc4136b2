"""Reads a text as words, counts them, and reads the terms that a search can find the text by.

`sessions.language.sentences` says where a sentence ends, and `sessions.language.mentions` says
where a name stands.
"""

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import snowballstemmer

from sessions.language.spelling import MARKS, Respelt, even_spelling, plain_spelling
from sessions.language.stop_words import ENGLISH, STOP_WORDS
from sessions.limits import TERM_CHAR_LIMIT

# The letters of Chinese and Japanese.
HAN_AND_KANA = (
    "\u3005-\u3007\u3041-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
# The scripts that put no blanks between words: Chinese and Japanese, and Thai, Lao, Tibetan,
# Burmese and Khmer.
UNSPACED = rf"{HAN_AND_KANA}\u0e01-\u0eff\u0f40-\u0fbc\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f"
# The scripts whose words are read as pairs of characters. Korean is among them although it has
# blanks, because its words end in particles that no stemmer here removes.
_PAIRED = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that belong to the letter before them, but that are no letters for a regular expression.
_MARKS = MARKS + r"\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:[^\W_{_PAIRED}]|[{_MARKS}])"
# A run of characters that are read as pairs, or a word of letters and digits with the marks inside
# it.
_WORD = re.compile(rf"[{_PAIRED}]+|{_LETTER}+(?:'{_LETTER}+)*")
_IS_PAIRED = re.compile(rf"[{_PAIRED}]")
_IS_UNSPACED = re.compile(rf"[{UNSPACED}]")
# A run of letters of Chinese and Japanese, or of the other scripts without blanks, with the digits
# and marks of these scripts; or the text between two blanks or between such runs.
_COUNTED = re.compile(
    rf"(?P<han_and_kana>[{HAN_AND_KANA}]+)|(?P<unspaced>[{UNSPACED}]+)|[^\s{UNSPACED}]+"
)
# Three characters of Chinese or Japanese count as two words, because translators reckon 1,500
# characters for 1,000 words of English. Four letters of the other scripts without blanks count as
# two words; the vowel signs and marks of tone that stand on or below a letter belong to it.
_HAN_PER_WORD, _LETTERS_PER_WORD = 1.5, 2.0
# An end of a text in a script without blanks: within a word, or behind a mark of the script.
_HALF_UNSPACED = re.compile(rf"[{UNSPACED}][^\w\s]{{0,4}}\Z")
# Half a word has at most this many characters. A longer text without blanks is not one word.
_LONGEST_HALF = 40
# The characters that can be a word by themselves.
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# The stemmers of languages that are recognised by their script.
_SCRIPTS = (
    (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), "greek"),
    (re.compile("[\u0400-\u052f]"), "russian"),
    (re.compile("[\u0531-\u0587]"), "armenian"),
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
    (re.compile("[\u0b80-\u0bff]"), "tamil"),
)
# The letters before or after an apostrophe that are no word by themselves.
_CLIPPED = frozenset({"ll", "re", "ve", "qu", "dell", "nell", "all", "sull", "dall"})
# A language is recognised if a text has this many of its stop words. A single one may be a name.
_ENOUGH_STOP_WORDS = 2


def is_unspaced(text: str) -> bool:
    """Return whether the text begins in a script that puts no blanks between words."""
    return bool(_IS_UNSPACED.match(text))


def is_mostly_unspaced(text: str) -> bool:
    """Return whether most letters of the text are of scripts that put no blanks between words."""
    return 2 * len(_IS_UNSPACED.findall(text)) > sum(map(str.isalnum, text))


def is_paired(word: str) -> bool:
    """Return whether the word is of a script that `words_of` reads as pairs of characters."""
    return bool(_IS_PAIRED.match(word))


def count_words(text: str) -> int:
    """Return how many words the text has.

    What stands between blanks is a word if it has a letter or a digit. In a script without blanks,
    the letters of each run are converted to words, so that two paragraphs together have as many
    words as each by itself, added up.
    """
    if not _IS_UNSPACED.search(text):
        return sum(map(_has_word, text.split()))
    return sum(map(_words_in, _COUNTED.finditer(text)))


def beginning_of(text: str, limit: int) -> str:
    """Return the beginning of the text, with at most this number of characters. The beginning ends
    after a word if a blank shows where a word ends."""
    start, following = text[:limit], text[limit : limit + 1]
    if not following or following.isspace() or start[-1:].isspace() or _HALF_UNSPACED.search(start):
        return start.rstrip()
    words, _, half = start.rpartition(" ")
    return words.rstrip() if words.strip() and len(half) <= _LONGEST_HALF else start


def _words_in(part: re.Match[str]) -> int:
    match part.lastgroup:
        case "han_and_kana":
            return max(1, round(len(part[0]) / _HAN_PER_WORD))
        case "unspaced":
            return _words_of_letters(sum(map(str.isalnum, part[0])))
        case _:
            return _has_word(part[0])


def _words_of_letters(count: int) -> int:
    return max(1, round(count / _LETTERS_PER_WORD)) if count else 0


def _has_word(token: str) -> bool:
    return token[0].isalnum() or any(map(str.isalnum, token))


def words_of(text: str) -> list[str]:
    """Return all words of the text in order, in small letters. Of a script without blanks and of
    Korean, each pair of neighbouring characters counts as a word."""
    words: list[str] = []
    for run in _runs(text):
        words += _pairs(run) if is_paired(run) else [run]
    return words


def whole_words(text: str) -> list[str]:
    """Return all words of the text in order and in their plain spelling, so that texts can be
    compared. A word ends at an apostrophe, and each character of a script without blanks stands
    alone."""
    words: list[str] = []
    for run in _runs(text):
        words += run if is_paired(run) else filter(None, plain_spelling(run).split("'"))
    return words


def _runs(text: str) -> Iterator[str]:
    return (found[0] for found in _WORD.finditer(even_spelling(text)))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def language_of(texts: Iterable[str]) -> str:
    """Return the language of the texts, or "" if they do not show it. Only the languages of
    `STOP_WORDS` are told apart."""
    words = [word for text in texts for word in words_of(text)]
    found = {name: sum(word in stop for word in words) for name, stop in STOP_WORDS.items()}
    best, second = sorted(found, key=lambda name: -found[name])[:2]
    is_known = found[best] >= _ENOUGH_STOP_WORDS and found[best] > found[second]
    return best if is_known else ""


def terms_of(text: str, language: str = ENGLISH) -> list[str]:
    """Return the terms of the text in order: its words without their endings, and without the words
    that say nothing. `language` decides how words in Latin letters are read.

    A term has a plain spelling. A word whose ending has marks may have two terms: the second term
    is made from the word without marks, as people may type it. A single Chinese character is a term
    too, because it may be a word.
    """
    return [term for _, term in words_and_terms(text, language)]


def words_and_terms(text: str, language: str = ENGLISH) -> list[tuple[str, str]]:
    """Return the terms of the text as `terms_of` does, each after its word."""
    found: list[tuple[str, str]] = []
    for run in _runs(text):
        if not is_paired(run):
            found += _terms(run[:TERM_CHAR_LIMIT], language)
            continue
        parts = _pairs(run)
        if len(run) > 1:
            parts += _IDEOGRAPH.findall(run)
        found += zip(parts, parts, strict=True)
    return found


def places_of(terms: Mapping[str, Collection[str]], text: str) -> list[tuple[int, int]]:
    """Return the places of the words that have one of the terms, each with its beginning and its
    end. The terms are given for each language. Words that touch each other are one place."""
    respelt = Respelt(text)
    places: list[tuple[int, int]] = []
    for found in _WORD.finditer(respelt.text):
        for start, end in sorted(_hits(terms, found[0])):
            first, last = respelt.place(found.start() + start, found.start() + end)
            if places and first <= places[-1][1]:
                first, last = places[-1][0], max(last, places.pop()[1])
            places.append((first, last))
    return places


def _hits(terms: Mapping[str, Collection[str]], run: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each word of the run that has one of the terms. Single
    characters are only looked for where no pair is found."""
    if is_paired(run):
        known = {term for of_language in terms.values() for term in of_language}
        pairs = [(at, at + len(one)) for at, one in enumerate(_pairs(run)) if one in known]
        yield from pairs or ((at, at + 1) for at, one in enumerate(run) if one in known)
        return
    short = run[:TERM_CHAR_LIMIT]
    hits = {
        word
        for language, known in terms.items()
        for word, term in _terms(short, language)
        if term in known
    }
    start = 0
    for part in run.split("'"):
        if part[:TERM_CHAR_LIMIT] in hits:
            yield start, start + len(part)
        start += len(part) + 1


class AsTyped:
    """The words of a search as they were typed, with their marks and endings, whatever their case.
    In scripts without blanks, they are found within longer runs of letters."""

    def __init__(self, asked: str, languages: Iterable[str]) -> None:
        runs = {
            run
            for run in _runs(asked)
            if any(words_and_terms(run, language) for language in languages)
        }
        self._patterns = {
            run: re.compile(
                re.escape(run)
                if is_paired(run)
                else rf"(?<!{_LETTER}){re.escape(run)}(?!{_LETTER})"
            )
            for run in runs
        }

    def are_in(self, text: str) -> bool:
        """Return whether the text has all words of the search."""
        spelt = even_spelling(text)
        # A pattern with a look-behind would be slow.
        return all(run in spelt and found.search(spelt) for run, found in self._patterns.items())

    def first_place(self, text: str, places: Sequence[tuple[int, int]]) -> int:
        """Return the index of the first of these places that has a word of the search, or 0."""
        for at, (start, end) in enumerate(places):
            spelt = even_spelling(text[start:end])
            if any(found.search(spelt) for found in self._patterns.values()):
                return at
        return 0


@lru_cache(maxsize=50_000)
def _terms(word: str, language: str) -> tuple[tuple[str, str], ...]:
    stop = STOP_WORDS.get(language, frozenset())
    if word in stop:
        return ()
    parts = word.split("'") if "'" in word else [word]
    kept = [one for one in parts if _says_something(one) and one not in stop]
    return tuple((one, term) for one in kept for term in _spelt_terms(one, language))


def _says_something(word: str) -> bool:
    return word not in _CLIPPED and (len(word) > 1 or word.isdigit() or not word.isascii())


def _spelt_terms(word: str, language: str) -> Iterable[str]:
    """Return the terms of one word: first its ending and then its marks are removed, and the other
    way round."""
    term = plain_spelling(_stem(word, language))
    if word.isascii():
        return (term,)
    return dict.fromkeys((term, _stem(plain_spelling(word), language)))


def _stem(word: str, language: str) -> str:
    for script, of_script in _SCRIPTS:
        if script.match(word):
            language = of_script
            break
    return str(_stemmer(language).stemWord(word))


_of_thread = threading.local()


def _stemmer(language: str) -> Any:
    """Return the stemmer of this thread. A stemmer has a state, so that threads cannot share it."""
    stemmers = _of_thread.__dict__
    if language not in stemmers:
        stemmers[language] = snowballstemmer.stemmer(language)
    return stemmers[language]
