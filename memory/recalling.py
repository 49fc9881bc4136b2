"""Finds the passages of a chapter that a question is about."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from memory.blocks import knows
from memory.places import places_of_turns
from memory.ranking import Field, rank
from memory.stretches import Audience
from sessions.models import Session
from sessions.record import chosen_events
from sessions.stop_words import ENGLISH
from sessions.transcript import Entry, chosen_entries
from sessions.words import terms_of, words_and_terms


@dataclass(frozen=True)
class Reader:
    """The reader for whom passages are found.

    Only what each of `readers` witnessed is found, and everything if it is None. `until` is the
    last prompt that may be found. Thoughts are found only with `with_thoughts`.
    """

    chapter: Session
    readers: Audience | None = None
    until: int | None = None
    with_thoughts: bool = False

    def perceives(self, witnesses: Collection[int]) -> bool:
        return knows(witnesses, self.readers)


@dataclass(frozen=True)
class Passage:
    """A turn that was found: as much of its prompt and its replies as the reader witnessed."""

    prompt_index: int
    score: float
    entries: tuple[Entry, ...]

    @cached_property
    def text(self) -> str:
        return "\n\n".join(entry.rendered for entry in self.entries)


def recall(reader: Reader, question: str, k: int) -> list[Passage]:
    """Return at most `k` passages that the question is about, best first.

    The question is words; no sign in it has a meaning. A passage is found by its own words, and
    less by those of the turn before and by its place and time. Attempts that are not chosen are
    not found.
    """
    asked = _Question(question)
    own, language = _read_turns(reader, asked)
    best = rank(own, _read_places(reader, asked, own, language))[: max(k, 0)]
    entries = _read_entries(reader, [number for number, _ in best])
    return [Passage(number, score, tuple(entries.get(number, ()))) for number, score in best]


class _Question:
    """The words of a question. In each language they are other terms."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: dict[str, dict[str, str]] = {}

    def words_in(self, language: str, counts: Mapping[str, int]) -> dict[str, int]:
        """Return how often a text of this language, which has these terms, has each word of the
        question."""
        words = self._words.get(language)
        if words is None:
            words = self._words[language] = {}
            for word, term in words_and_terms(self._text, language):
                words.setdefault(term, word)
        if words.keys().isdisjoint(counts):
            return {}
        return {words[term]: counts[term] for term in words.keys() & counts.keys()}


def _read_turns(reader: Reader, asked: _Question) -> tuple[Field, str]:
    """Return the texts of the turns that the reader witnessed, and the language of most events."""
    events = chosen_events(
        reader.chapter, to_prompt=reader.until, with_thoughts=reader.with_thoughts
    ).filter(terms__isnull=False)
    columns = ("terms__language", "terms__length", "terms__counts")
    rows = events.order_by().values_list("prompt_index", "witnesses", *columns)
    own, languages = Field(), Counter[str]()
    for number, witnesses, language, length, counts in rows.iterator(chunk_size=500):
        if reader.perceives(witnesses):
            own.add(number, length, asked.words_in(language, counts))
            languages[language] += 1
    most = max(languages, key=lambda one: (languages[one], one), default=ENGLISH)
    return own, most


def _read_places(reader: Reader, asked: _Question, own: Field, language: str) -> Field:
    """Return the places and times of the turns that the reader witnessed."""
    before = None if reader.until is None else reader.until + 1
    places = Field()
    told = places_of_turns(reader.chapter, before=before, readers=reader.readers)
    for first, last, text in told:
        counts = _count(text, language)
        found = asked.words_in(language, counts)
        for number in range(first, last + 1):
            if number in own.lengths:
                places.add(number, counts.total(), found)
    return places


# The places are few and every search needs all of them, so that their terms are kept.
@lru_cache(maxsize=4_096)
def _count(text: str, language: str) -> Counter[str]:
    return Counter(terms_of(text, language))


def _read_entries(reader: Reader, numbers: list[int]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    if numbers:
        for entry in chosen_entries(
            reader.chapter,
            perceived=reader.perceives,
            with_thoughts=reader.with_thoughts,
            prompts=numbers,
        ):
            found.setdefault(entry.prompt_index, []).append(entry)
    return found
